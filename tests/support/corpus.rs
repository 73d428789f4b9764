//! Lists the transcripts that tests run over: the copies in this repository, or a larger folder of one's own.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Names a folder of transcripts to use in place of the repository's, laid out as `<format>/<file>`.
pub const DATA_VARIABLE: &str = "PALIMPSEST_DATA";

/// Most files that are listed; more than that is a folder that was not meant.
const CASES_MAX: usize = 10_000;

/// One transcript.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Where it is. Files that end in `.gz` are compressed.
    pub path: PathBuf,
    /// The folder that it is in, which names its format: `claude-code`, `openai-chat`, `broken`.
    pub format_folder: String,
}

impl Case {
    /// Returns `<format>/<file>`, for messages of tests.
    pub fn name(&self) -> String {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{}/{file}", self.format_folder)
    }
}

/// Returns the folder of the transcripts.
pub fn folder() -> PathBuf {
    match env::var_os(DATA_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => own_folder(),
    }
}

/// Returns the repository's own folder of transcripts.
pub fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// Lists the transcripts in a stable order.
pub fn cases() -> io::Result<Vec<Case>> {
    cases_in(&folder())
}

/// Lists the transcripts of a folder. Files right in it describe the others and are none.
pub fn cases_in(folder: &Path) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for format in entries(folder)? {
        if !format.is_dir() {
            continue;
        }
        let format_folder = file_name(&format);
        for path in entries(&format)? {
            if path.is_file() && is_transcript(&file_name(&path), &format_folder) {
                cases.push(Case { path, format_folder: format_folder.clone() });
            }
        }
    }
    if cases.len() > CASES_MAX {
        let problem = format!("{} holds {} files, {CASES_MAX} at most", folder.display(), cases.len());
        return Err(io::Error::other(problem));
    }
    Ok(cases)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("could not list {}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(at)? {
        paths.push(entry.map_err(at)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_transcript(name: &str, format_folder: &str) -> bool {
    if name == "reserve.bin" || name.starts_with('.') {
        return false;
    }
    match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        // Chat logs of aider are Markdown themselves.
        Some("md") => format_folder == "aider-md",
        Some("py" | "tsv") => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transcripts_in_format_folders_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "reserve.bin",
            "README.md",
            "a/1.json",
            "a/notes.md",
            "a/x.py",
            "a/.hidden",
            "aider-md/log.md",
            "b/2.jsonl.gz",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let names: Vec<String> = cases_in(folder.path()).unwrap().iter().map(Case::name).collect();
        assert_eq!(names, ["a/1.json", "aider-md/log.md", "b/2.jsonl.gz"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = cases_in(Path::new("no/such/folder")).unwrap_err();
        assert!(error.to_string().starts_with("could not list no/such/folder: "), "{error}");
    }

    #[test]
    fn the_repository_holds_every_format_that_may_be_copied() {
        let cases = cases_in(&own_folder()).unwrap();
        let mut formats: Vec<&str> = cases.iter().map(|case| case.format_folder.as_str()).collect();
        formats.dedup();
        let wanted = [
            "aider-md",
            "anthropic-messages",
            "broken",
            "claude-code",
            "codex-rollout",
            "copilot-cli-events",
            "gemini-cli",
            "hermes",
            "langchain",
            "mini-swe-traj",
            "openai-chat",
            "opencode-events",
            "opencode-export",
            "openhands-events",
            "pi-session",
            "recall-longmemeval",
            "swe-agent-traj",
        ];
        assert_eq!(formats, wanted);
    }
}
