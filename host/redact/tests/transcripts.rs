//! What is masked in real conversations of agents, which hold no live secret: the share of messages is below one in a hundred.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use flate2::read::MultiGzDecoder;
use host_redact::{Counts, redact_counted, scan};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of one file that are read.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|end| ["json", "jsonl", "gz", "md"].iter().any(|one| end == *one)) {
            out.push(path);
        }
    }
    out.sort();
}

fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    std::fs::File::open(path).unwrap().take(FILE_BYTES_MAX).read_to_end(&mut bytes).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        // A file that is damaged on purpose gives what it has.
        let _ = MultiGzDecoder::new(bytes.as_slice()).take(FILE_BYTES_MAX).read_to_end(&mut plain);
        bytes = plain;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Cuts a document into pieces of about the size of a message.
fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(2_000);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        out.push(piece);
        rest = after;
    }
    out
}

fn measure(folder: &Path) -> (usize, usize, Counts) {
    let (mut all, mut masked, mut counts) = (0, 0, Counts::new());
    let mut paths = Vec::new();
    files(folder, &mut paths);
    for path in paths {
        let text = read(&path);
        for (kind, count) in redact_counted(&text).1 {
            *counts.entry(kind).or_default() += count;
        }
        if std::env::var_os("SHOW_MASKED").is_some() {
            for finding in scan(&text) {
                let mut from = finding.range.start.saturating_sub(50);
                while !text.is_char_boundary(from) {
                    from -= 1;
                }
                println!(
                    "{} {} | {:?}",
                    path.file_name().unwrap().to_string_lossy(),
                    finding.kind,
                    text[from..finding.range.end].chars().take(160).collect::<String>()
                );
            }
        }
        for piece in pieces(&text) {
            all += 1;
            masked += usize::from(!scan(piece).is_empty());
        }
    }
    (all, masked, counts)
}

#[test]
fn less_than_one_message_in_a_hundred_is_masked() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let shared = std::env::var_os("PALIMPSEST_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    for folder in [own, shared] {
        let (all, masked, counts) = measure(&folder);
        if all == 0 {
            eprintln!("SKIPPED: {} is not there", folder.display());
            continue;
        }
        println!("{masked} of {all} pieces masked: {counts:?}");
        assert!(masked * 100 < all, "{masked} of {all}: {counts:?}");
    }
}
