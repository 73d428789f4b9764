//! Rules of the copied transcripts: each has a source, a licence that allows the copy, and its own bytes.

use crate::{Problem, assert_none};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use support::corpus;

const LIST: &str = "tests/transcripts/SOURCES.tsv";
const HEADER: &str = "file\tsource (repo:path@commit)\tlicence\tsha256";
/// Bytes of all transcripts together: a clone should stay small.
const BYTES_MAX: u64 = 2_600_000;

struct Row<'a> {
    line: usize,
    file: &'a str,
    source: &'a str,
    licence: &'a str,
    sha256: &'a str,
}

fn rows(list: &str) -> Result<Vec<Row<'_>>, Problem> {
    let mut rows = Vec::new();
    for (i, line) in list.lines().enumerate() {
        if i == 0 {
            if line != HEADER {
                return Err(Problem::new(LIST, 1, format!("the first line must be {HEADER:?}")));
            }
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, source, licence, sha256] = fields[..] else {
            return Err(Problem::new(LIST, i + 1, format!("{} columns where four are wanted", fields.len())));
        };
        rows.push(Row { line: i + 1, file, source, licence, sha256 });
    }
    Ok(rows)
}

/// Checks the rows against the files, which are given as names with their hashes, and against the text on licences.
fn wrong_rows(rows: &[Row<'_>], mut files: BTreeMap<String, String>, licences: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for row in rows {
        match files.remove(row.file) {
            None => {
                problems.push(Problem::new(LIST, row.line, format!("{} is not there, or is listed twice", row.file)))
            }
            Some(hash) if hash != row.sha256 => {
                let what = format!("{} has SHA-256 {hash}: it was changed, or the row was", row.file);
                problems.push(Problem::new(LIST, row.line, what));
            }
            Some(_) => {}
        }
        if !row.licence.starts_with("MIT") && row.licence != "Apache-2.0" {
            let what = format!("licence {:?} does not allow a copy here, or is not in LICENSES.md yet", row.licence);
            problems.push(Problem::new(LIST, row.line, what));
        }
        match row.source.split_once(':') {
            Some((repository, _)) if licences.contains(repository) && row.source.contains('@') => {}
            _ => {
                let what = format!("name the source {:?} as repo:path@commit, and its repo in LICENSES.md", row.source);
                problems.push(Problem::new(LIST, row.line, what));
            }
        }
    }
    for file in files.keys() {
        problems.push(Problem::new(
            &format!("tests/transcripts/{file}"),
            1,
            format!("add its source and licence to {LIST}"),
        ));
    }
    problems
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_transcript_has_a_source_a_licence_and_its_own_bytes() {
    let folder = corpus::own_folder();
    let mut files = BTreeMap::new();
    let mut byte_count = 0;
    for case in corpus::cases_in(&folder).unwrap() {
        let bytes = fs::read(&case.path).unwrap();
        byte_count += bytes.len() as u64;
        files.insert(case.name(), sha256(&bytes));
    }
    assert!(byte_count <= BYTES_MAX, "{byte_count} bytes of transcripts, {BYTES_MAX} at most: prefer smaller ones");
    let list = fs::read_to_string(folder.join("SOURCES.tsv")).unwrap();
    let licences = fs::read_to_string(folder.join("LICENSES.md")).unwrap();
    match rows(&list) {
        Ok(rows) => assert_none(wrong_rows(&rows, files, &licences)),
        Err(problem) => assert_none(vec![problem]),
    }
}

#[test]
fn wrong_rows_are_found() {
    let list = format!(
        "{HEADER}\na/1\to/r:p@c\tMIT\t{}\na/2\to/r:p@c\tMIT\tbad\na/3\to/r:p@c\tnone\t{0}\na/4\tx/y:p@c\tMIT\t{0}\na/9\to/r:p@c\tMIT\t{0}\n",
        sha256(b"")
    );
    let files = ["a/1", "a/2", "a/3", "a/4", "a/5"].map(|name| (name.to_owned(), sha256(b""))).into_iter().collect();
    let problems = wrong_rows(&rows(&list).ok().unwrap(), files, "- o/r");
    let places: Vec<(&str, usize)> = problems.iter().map(|p| (p.file.as_str(), p.line)).collect();
    assert_eq!(places, [(LIST, 3), (LIST, 4), (LIST, 5), (LIST, 6), ("tests/transcripts/a/5", 1)]);
    assert!(rows("file\n").is_err());
    assert!(rows(&format!("{HEADER}\na\tb\n")).is_err());
}
