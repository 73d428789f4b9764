//! Holds the workspace to its own rules: who may know whom, where heavy crates live, how sources read.
//!
//! Each failure says where it is and what to do. The rules themselves are tested on small samples, so that a rule which
//! no longer finds anything is noticed.

mod manifests;
mod scan;
mod sources;
mod transcripts;
mod workspace;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    file: String,
    line: usize,
    what: String,
}

impl Problem {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Problem { file: file.to_owned(), line, what: what.into() }
    }
}

/// Fails with all problems at once, one a line.
#[track_caller]
fn assert_none(problems: Vec<Problem>) {
    let lines: Vec<String> = problems.iter().map(|p| format!("{}:{}: {}", p.file, p.line, p.what)).collect();
    assert!(lines.is_empty(), "{} problems\n{}\n", lines.len(), lines.join("\n"));
}
