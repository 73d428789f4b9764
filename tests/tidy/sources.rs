//! Rules of the sources: where unsafe may stand, how files begin, words that do not belong.

use crate::scan::{self, Line};
use crate::workspace::{self, File};
use crate::{Problem, assert_none};

/// Files and folders where `unsafe` is allowed: the plugin boundary, and plugins that misbehave on purpose.
const UNSAFE_HOMES: [&str; 5] = [
    "engine-api/src/ffi.rs",
    "engine-api/src/ffi/",
    "host/registry/src/dylib.rs",
    "host/registry/src/dylib/",
    "tests/fixture-engines/",
];

/// Words that name the place where something was written, split so that this file does not hold them.
const PLACES: [(&str, &str); 8] = [
    (concat!("/wo", "rk/"), "a path of one machine; use a path from the workspace or a temporary folder"),
    (concat!("/ro", "ot/"), "a path of one machine; use a path from the workspace or a temporary folder"),
    (concat!("/tmp/pal", "impsest"), "a path of one machine; use a temporary folder"),
    (concat!("index.crates", ".io"), "the address of a registry; builds must not depend on one"),
    (concat!("static.crates", ".io"), "the address of a registry; builds must not depend on one"),
    (concat!("registry.npm", "js"), "the address of a registry; builds must not depend on one"),
    (concat!("pypi", ".org"), "the address of a registry; builds must not depend on one"),
    (concat!("artifac", "tory"), "the address of a registry; builds must not depend on one"),
];

/// Marks of unfinished work, in comments.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Marks of unfinished work, in code.
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimpl", "emented!")];

fn unsafe_away_from_home(file: &File) -> Vec<Problem> {
    let is_home =
        UNSAFE_HOMES.iter().any(|home| file.path == *home || (home.ends_with('/') && file.path.starts_with(home)));
    let lines = scan::lines(&file.text);
    let mut problems = Vec::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| scan::has_word(&line.code, "unsafe")) {
        if !is_home {
            let what = format!("unsafe lives in {UNSAFE_HOMES:?} only; ask for a safe function there");
            problems.push(Problem::new(&file.path, i + 1, what));
        }
        let code = line.code.replace(' ', "");
        let is_block = code.contains("unsafe{") || code.contains("unsafeimpl");
        if is_block && !is_explained(&lines, i) {
            let what = "unsafe without a reason; write `// SAFETY:` above it: which promise, and who keeps it";
            problems.push(Problem::new(&file.path, i + 1, what));
        }
    }
    problems
}

/// Tells whether a `SAFETY:` comment stands at the statement that line `i` belongs to.
fn is_explained(lines: &[Line], i: usize) -> bool {
    if lines[i].comment.contains("SAFETY:") {
        return true;
    }
    for line in lines[..i].iter().rev() {
        if line.comment.contains("SAFETY:") {
            return true;
        }
        let code = line.code.trim_end();
        let is_blank = code.is_empty() && line.comment.is_empty();
        if is_blank || code.ends_with([';', '{', '}', ',']) {
            return false;
        }
    }
    false
}

fn bad_first_line(file: &File) -> Vec<Problem> {
    let first = file.text.lines().next().unwrap_or("");
    let said = first.strip_prefix("//!").unwrap_or("").trim();
    if said.split_whitespace().count() >= 3 {
        return Vec::new();
    }
    let what =
        format!("begin with a line `//! ` that says what the file is for, in three words or more, not {first:?}");
    vec![Problem::new(&file.path, 1, what)]
}

fn places(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        for (word, why) in PLACES.iter().filter(|(word, _)| line.contains(word)) {
            problems.push(Problem::new(&file.path, i + 1, format!("{word:?} is {why}")));
        }
    }
    problems
}

fn unfinished(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, line) in scan::lines(&file.text).iter().enumerate() {
        let mut words: Vec<&str> = UNFINISHED.into_iter().filter(|word| scan::has_word(&line.comment, word)).collect();
        words.extend(UNFINISHED_MACROS.into_iter().filter(|word| line.code.contains(word)));
        for word in words {
            problems.push(Problem::new(&file.path, i + 1, format!("{word} is unfinished work; do it, or take it out")));
        }
    }
    problems
}

fn issue_numbers(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, line) in scan::lines(&file.text).iter().enumerate() {
        if let Some(number) = issue_number(&line.comment) {
            let what = format!("{number:?} is an issue number; say the reason itself, which a reader can see");
            problems.push(Problem::new(&file.path, i + 1, what));
        }
    }
    problems
}

/// Finds `#12`, `issue 12` and the like.
fn issue_number(comment: &str) -> Option<String> {
    let words: Vec<&str> =
        comment.split_whitespace().map(|word| word.trim_matches(['(', ')', '[', ']', ',', '.', ':', ';'])).collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    for (k, word) in words.iter().enumerate() {
        if word.strip_prefix('#').is_some_and(is_number) {
            return Some((*word).to_owned());
        }
        let name = word.to_ascii_lowercase();
        let next = words.get(k + 1).map_or("", |next| next.trim_start_matches('#'));
        if matches!(name.as_str(), "issue" | "issues" | "bug" | "ticket") && is_number(next) {
            return Some(format!("{word} {next}"));
        }
    }
    None
}

fn each(extensions: &[&str], rule: fn(&File) -> Vec<Problem>) -> Vec<Problem> {
    workspace::files(extensions).iter().flat_map(rule).collect()
}

#[test]
fn unsafe_stays_at_the_boundary_with_its_reasons() {
    assert_none(each(&["rs"], unsafe_away_from_home));
}

#[test]
fn every_source_says_what_it_is_for() {
    assert_none(each(&["rs"], bad_first_line));
}

#[test]
fn no_file_names_the_place_it_was_written_at() {
    assert_none(each(&["rs", "toml", "md", "yaml", "yml", "json", "sh", "txt", ""], places));
}

#[test]
fn no_work_is_left_for_later() {
    assert_none(each(&["rs"], unfinished));
}

#[test]
fn comments_give_reasons_in_place_of_issue_numbers() {
    assert_none(each(&["rs"], issue_numbers));
}

#[cfg(test)]
mod samples {
    use super::*;

    fn found(rule: fn(&File) -> Vec<Problem>, path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        rule(&file).into_iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn unsafe_is_found_where_it_may_not_be_and_where_it_has_no_reason() {
        let with_reason =
            "//! a\n// SAFETY: kept.\nlet x =\n    unsafe { f() };\n#![deny(unsafe_code)]\nunsafe fn f() {}\n";
        assert_eq!(found(unsafe_away_from_home, "host/core/src/lib.rs", with_reason), [4, 6]);
        assert!(found(unsafe_away_from_home, "engine-api/src/ffi/view.rs", with_reason).is_empty());
        let without = "f(); // SAFETY: of another\n\nunsafe { g() };\nlet s = \"unsafe { }\"; // unsafe { }\nunsafe impl Send for A {}\n";
        assert_eq!(found(unsafe_away_from_home, "host/registry/src/dylib.rs", without), [3, 5]);
    }

    #[test]
    fn a_first_line_must_say_something() {
        assert!(found(bad_first_line, "a.rs", "//! Reads the manifest.\n").is_empty());
        for text in
            ["", "use std::fs;\n//! Reads the manifest.\n", "//!\n", "//! Helpers.\n", "// Reads the manifest.\n"]
        {
            assert_eq!(found(bad_first_line, "a.rs", text), [1], "{text:?}");
        }
    }

    #[test]
    fn places_and_unfinished_work_are_found() {
        let text = format!("a\nlet p = \"{}data\";\n", PLACES[0].0);
        assert_eq!(found(places, "a.rs", &text), [2]);
        let text = format!("// {}: later\nlet s = \"{0}\";\n{}()\n", UNFINISHED[0], UNFINISHED_MACROS[0]);
        assert_eq!(found(unfinished, "a.rs", &text), [1, 3]);
    }

    #[test]
    fn issue_numbers_are_found_in_comments_only() {
        let text = "// see #12\n// (issue 3)\n//! Issue #4.\nlet s = \"#5\"; // the 3 issues\n#[cfg(test)] // #[x] #a1 C# 7\n// Bug 8\n";
        assert_eq!(found(issue_numbers, "a.rs", text), [1, 2, 3, 6]);
    }
}
