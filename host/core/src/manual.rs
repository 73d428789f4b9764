//! Reads what a person writes after `/compress`, in the forms of Hermes' command.

/// Exchanges kept whole where a form that keeps some names no number. Hermes' figure.
pub const EXCHANGES_DEFAULT: u32 = 2;
/// Exchanges that can be kept; Hermes' bounds.
const EXCHANGES: (u32, u32) = (1, 100);

/// A compaction that a person asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manual {
    /// The newest exchanges that stay whole; `None` for no such wish.
    pub keep_exchanges: Option<u32>,
    /// What summaries should dwell on; empty for nothing in particular.
    pub focus: String,
    /// Only show what would be done.
    pub is_preview: bool,
    /// Words that this command does not take, each with what to say in their place.
    pub refused: Vec<String>,
}

/// Reads `[FOCUS]`, `here [N]`, `up to here [N]`, `--keep N`, `--keep=N`, `-k N`, `--preview`, `--dry-run`.
///
/// What is no number counts as [`EXCHANGES_DEFAULT`], and a number out of range as the nearest in it.
pub fn read(text: &str) -> Manual {
    let mut manual = Manual::default();
    let mut rest: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        match word {
            "--preview" | "--dry-run" | "--dryrun" => manual.is_preview = true,
            "--aggressive" => manual.refused.push(
                "--aggressive is not there: `here 1` keeps the newest exchange only, and a lower \
                 compression.target_ratio shortens the tail"
                    .to_owned(),
            ),
            _ => rest.push(word),
        }
    }
    let lower: Vec<String> = rest.iter().map(|word| word.to_lowercase()).collect();
    let words: Vec<&str> = lower.iter().map(String::as_str).collect();
    let (keeps, number) = match words.as_slice() {
        ["here"] | ["up", "to", "here"] | ["--keep" | "-k"] => (true, None),
        ["here", number] | ["up", "to", "here", number] | ["--keep" | "-k", number] => (true, Some(*number)),
        [one] if one.starts_with("--keep=") => (true, one.strip_prefix("--keep=")),
        _ => (false, None),
    };
    if keeps {
        let number = number.map_or(EXCHANGES_DEFAULT, |text| {
            text.parse::<i64>().map_or(EXCHANGES_DEFAULT, |number| {
                u32::try_from(number.clamp(i64::from(EXCHANGES.0), i64::from(EXCHANGES.1))).unwrap_or(EXCHANGES.1)
            })
        });
        manual.keep_exchanges = Some(number);
    } else {
        manual.focus = rest.join(" ");
    }
    manual
}

#[cfg(test)]
mod tests {
    //! Tests of the forms that the goldens do not have.
    use super::*;

    #[test]
    fn what_is_no_number_keeps_the_default_and_large_numbers_are_clamped() {
        for (text, want) in [
            ("here x", 2),
            ("--keep=", 2),
            ("--keep -5", 1),
            ("-k 99999999999999999999", 2),
            ("HERE 7", 7),
            ("--keep=500", 100),
        ] {
            assert_eq!(read(text).keep_exchanges, Some(want), "{text}");
        }
    }

    #[test]
    fn a_sentence_with_the_word_here_is_a_focus() {
        let manual = read("what was decided here about tokens");
        assert_eq!((manual.keep_exchanges, manual.focus.as_str()), (None, "what was decided here about tokens"));
    }
}
