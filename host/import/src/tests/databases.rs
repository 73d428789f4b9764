//! The SQLite stores, on databases made here with the schemas their programs make.

mod damaged;
mod hermes;
mod lcm;
mod lossless;

use super::shown;
use crate::{History, ImportError, Imported, Options, Stored, import_path};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A database file and the folder that goes with it.
struct Made {
    folder: TempDir,
    path: PathBuf,
}

impl Made {
    fn new(sql: &[&str]) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let connection = Connection::open(&path).unwrap();
        // Programs that leave rows without their partners do so with the keys off.
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        for sql in sql {
            connection.execute_batch(sql).unwrap();
        }
        Made { folder, path }
    }
    fn connection(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }
    fn read(&self, history: History) -> Imported {
        read(&self.path, history).unwrap()
    }
    fn session(&self, session: &str) -> Result<Imported, ImportError> {
        read(Path::new(&format!("{}#{session}", self.path.display())), History::Full)
    }
}

fn read(path: &Path, history: History) -> Result<Imported, ImportError> {
    import_path(path, &Options { history, ..Options::default() }, &mut |_| {})
}

fn what(imported: &Imported) -> Vec<&str> {
    imported.problems.iter().map(|problem| problem.what.as_str()).collect()
}

fn stored(imported: &Imported, at: usize) -> &Stored {
    let conversation = &imported.conversations[at];
    let stored = conversation.stored.as_deref().unwrap();
    assert_eq!(stored.rows.len(), conversation.document.messages.len(), "a row a message");
    stored
}

/// Nodes as "id depth [messages] [nodes] text".
fn nodes(stored: &Stored) -> Vec<String> {
    let show = |node: &crate::ImportedNode| {
        format!("{} {} {:?} {:?} {}", node.id, node.depth, node.messages, node.nodes, node.text)
    };
    stored.nodes.iter().map(show).collect()
}

fn raws(imported: &Imported, at: usize) -> Vec<&str> {
    imported.conversations[at].document.messages.iter().map(|message| message.raw.as_str()).collect()
}
