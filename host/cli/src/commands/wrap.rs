//! `wrap` and `unwrap`: point an agent's own settings at the gateway, and back to what they were, byte for byte.

mod clients;
mod edit;

use crate::args::{Global, WrapArgs};
use crate::commands::Status;
use crate::error::CliError;
use crate::output;
use crate::place::Place;
use crate::ui::Ui;
pub(crate) use clients::{ALL, Client, Settings, gateway_of};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Folder of the home in which originals are kept.
const FOLDER: &str = "wrapped";
/// A settings file of a person is some kilobytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What is kept of a wrapped client.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The settings file.
    path: PathBuf,
    /// It was there before.
    existed: bool,
    /// The folders that were made for it, the outermost first.
    made: Vec<PathBuf>,
    /// What stood at each place before.
    changes: Vec<edit::Change>,
}

/// The three files that are kept of a client.
struct Shelf {
    about: PathBuf,
    original: PathBuf,
    written: PathBuf,
}

impl Shelf {
    fn of(place: &Place, client: Client) -> Shelf {
        let at = |ending: &str| place.home.join(FOLDER).join(format!("{}.{ending}", client.name()));
        Shelf { about: at("json"), original: at("orig"), written: at("new") }
    }

    fn kept(&self) -> Result<Option<Kept>, CliError> {
        let text = match fs::read_to_string(&self.about) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CliError::io("read", &self.about, &error)),
        };
        let damaged = |error| {
            CliError::user(format!("{} is damaged", self.about.display()))
                .because(&error)
                .hint(format!("the original settings are in {}", self.original.display()))
        };
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }

    fn clear(&self) {
        // The note goes last: with it gone, the client is not wrapped.
        for path in [&self.written, &self.original, &self.about] {
            let _ = fs::remove_file(path);
        }
    }
}

/// Points a client at the gateway.
pub(crate) fn wrap(args: &WrapArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::find(global);
    let client = args.client;
    let shelf = Shelf::of(&place, client);
    let origin = args.gateway.clone().unwrap_or_else(|| gateway_of(&place));
    let settings = Settings::find(client, &|name| std::env::var_os(name));
    let old = read(&settings.path)?;
    if let Some(kept) = shelf.kept()? {
        let written = fs::read_to_string(&shelf.written).unwrap_or_default();
        if old.as_deref() == Some(written.as_str())
            || old.as_deref().is_some_and(|text| settings.is_routed(text, &origin))
        {
            return tell(ui, client, &kept.path, "is wrapped already; nothing was changed", &[]);
        }
        if old.as_deref() != fs::read_to_string(&shelf.original).ok().as_deref() {
            let path = kept.path.display();
            return Err(CliError::user(format!("{client} was wrapped before, and {path} has changed since")).hint(
                format!("`palimpsest unwrap {client}` puts its old address back first", client = client.name()),
            ));
        }
        // A run was ended between keeping the original and writing: it is done anew.
    }
    let edited = settings.edit(old.as_deref().unwrap_or_default(), &origin).map_err(|why| {
        CliError::user(format!("{} cannot be changed: {why}", settings.path.display()))
            .hint("mend the file first; it was left as it is")
    })?;
    if args.dry_run {
        return tell(ui, client, &settings.path, "would be changed", &edited.notes);
    }
    let made = missing_folders(&settings.path);
    let kept = Kept { path: settings.path.clone(), existed: old.is_some(), made, changes: edited.changes };
    private_folder(&place.home.join(FOLDER))?;
    private(&shelf.original, old.as_deref().unwrap_or_default())?;
    private(&shelf.written, &edited.text)?;
    private(&shelf.about, &json_of(&kept))?;
    if let Some(folder) = settings.path.parent() {
        fs::create_dir_all(folder).map_err(|error| CliError::io("make", folder, &error))?;
    }
    if let Err(error) = output::write(&settings.path, &edited.text) {
        shelf.clear();
        return Err(error);
    }
    let mut notes = edited.notes;
    notes.extend(settings.overridden(&|name| std::env::var_os(name)));
    tell(ui, client, &settings.path, &format!("now goes through {origin}"), &notes)
}

/// Puts a client's settings back.
pub(crate) fn unwrap(args: &WrapArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::find(global);
    let client = args.client;
    let shelf = Shelf::of(&place, client);
    let Some(kept) = shelf.kept()? else {
        return Err(CliError::user(format!("{client} is not wrapped"))
            .hint(format!("`palimpsest wrap {}` points it at the gateway", client.name())));
    };
    let original =
        fs::read_to_string(&shelf.original).map_err(|error| CliError::io("read", &shelf.original, &error))?;
    let written = fs::read_to_string(&shelf.written).unwrap_or_default();
    let now = read(&kept.path)?;
    let (said, notes) = match now {
        Some(text) if text != written && (text != original || !kept.existed) => {
            let restored = edit::undo(client.format(), &text, &kept.changes).map_err(|why| {
                CliError::user(format!("{} cannot be changed: {why}", kept.path.display()))
                    .hint(format!("the original settings are in {}", shelf.original.display()))
            })?;
            if !args.dry_run {
                output::write(&kept.path, &restored)?;
            }
            let note = "the file has changed since it was wrapped, so only the gateway's address was taken out of it";
            ("has its old address back", vec![note.to_owned()])
        }
        _ if args.dry_run => ("would be put back as it was", Vec::new()),
        _ if kept.existed => {
            output::write(&kept.path, &original)?;
            ("is as it was, byte for byte", Vec::new())
        }
        _ => {
            let _ = fs::remove_file(&kept.path);
            for folder in kept.made.iter().rev() {
                // One that holds something else by now stays.
                let _ = fs::remove_dir(folder);
            }
            ("is as it was: the file was not there before", Vec::new())
        }
    };
    if !args.dry_run {
        shelf.clear();
    }
    tell(ui, client, &kept.path, said, &notes)
}

fn tell(ui: &Ui, client: Client, path: &Path, said: &str, notes: &[String]) -> Result<Status, CliError> {
    if ui.is_json() {
        ui.json(&json!({ "client": client.name(), "file": path, "result": said, "notes": notes }))?;
        return Ok(Status::Done);
    }
    ui.out(&format!("{client}: {said} ({})\n", path.display()))?;
    for note in notes {
        ui.note(note);
    }
    Ok(Status::Done)
}

/// Reads a settings file; none if it is not there.
fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CliError::io("read", path, &error)),
        Ok(about) if !about.is_file() || about.len() > FILE_BYTES_MAX => {
            return Err(CliError::user(format!("{} is no settings file", path.display())));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| CliError::io("read", path, &error))
}

fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

fn json_of(kept: &Kept) -> String {
    // Paths and texts are always JSON.
    serde_json::to_string_pretty(kept).unwrap_or_default()
}

fn private_folder(folder: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| CliError::io("make", folder, &error))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|error| CliError::io("close", folder, &error))?;
    }
    Ok(())
}

/// Writes a file that only its owner can read: settings hold keys.
fn private(path: &Path, text: &str) -> Result<(), CliError> {
    output::write(path, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|error| CliError::io("close", path, &error))?;
    }
    Ok(())
}
