//! List prices and windows of known models: an embedded table, and a file in the home folder that goes before it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The table that comes with the program.
const EMBEDDED: &str = include_str!("../prices.yaml");
/// The file in the home folder.
const FILE_NAME: &str = "prices.yaml";
/// A larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Digits of a date in a model's name, as in `-20251001` or `-2025-08-07`.
const DATE_DIGITS: usize = 8;

/// What a model costs: dollars for a million tokens, and multiples of the input price for cached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A prompt token.
    pub input: f64,
    /// A token of the answer.
    pub output: f64,
    /// A prompt token read from the cache, as a multiple of `input`.
    #[serde(default = "one")]
    pub read: f64,
    /// A prompt token written to the cache, likewise.
    #[serde(default = "one")]
    pub write: f64,
    /// Tokens of the context window; 0 if not known.
    #[serde(default)]
    pub window: u64,
    /// Tokens of the longest answer; 0 if not known.
    #[serde(default)]
    pub output_max: u64,
    /// What long prompts cost more.
    #[serde(default)]
    pub tier: Option<Tier>,
}

/// The surcharge of long prompts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Prompt tokens from which on it is charged.
    pub above: u64,
    /// Factor on the input price.
    pub input: f64,
    /// Factor on the output price.
    pub output: f64,
}

fn one() -> f64 {
    1.0
}

impl Price {
    /// Returns the prices that a prompt of this length has.
    pub fn at(&self, prompt_tokens: u64) -> Price {
        match self.tier {
            Some(tier) if prompt_tokens > tier.above => {
                Price { input: self.input * tier.input, output: self.output * tier.output, ..*self }
            }
            _ => *self,
        }
    }

    fn is_sound(&self) -> bool {
        let tier = self.tier.map_or([1.0, 1.0], |tier| [tier.input, tier.output]);
        [self.input, self.output, self.read, self.write].iter().chain(&tier).all(|x| x.is_finite() && *x >= 0.0)
    }
}

#[derive(Debug, Deserialize)]
struct Sheet {
    date: String,
    models: BTreeMap<String, Price>,
}

/// All prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    models: BTreeMap<String, Price>,
    /// The day of the newest table in use.
    pub date: String,
    /// Why the file in the home folder was not used, if it is there and was not.
    pub problem: Option<String>,
}

impl Prices {
    /// Reads the embedded table.
    pub fn embedded() -> Self {
        let file = parse(EMBEDDED).unwrap_or_else(|_| Sheet { date: String::new(), models: BTreeMap::new() });
        Prices { models: file.models, date: file.date, problem: None }
    }

    /// Reads the embedded table and the one of the home folder over it.
    pub fn load(home: &Path) -> Self {
        let mut prices = Prices::embedded();
        let path = home.join(FILE_NAME);
        let mut text = String::new();
        let read = match File::open(&path) {
            Ok(file) => file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return prices,
            Err(error) => Err(error),
        };
        let own = match read {
            Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err(format!("it is larger than {FILE_BYTES_MAX} bytes")),
            Ok(_) => parse(&text),
            Err(error) => Err(error.to_string()),
        };
        match own {
            Ok(own) => {
                prices.models.extend(own.models);
                prices.date = own.date;
            }
            Err(why) => prices.problem = Some(format!("{} was not used: {why}", path.display())),
        }
        prices
    }

    /// Finds a model by its name as a client writes it: with a vendor before it, with a date behind it.
    pub fn find(&self, model: &str) -> Option<&Price> {
        let name = model.to_ascii_lowercase();
        let bare = name.rsplit('/').next().unwrap_or_default();
        // Another ending makes another model, which may cost ten times as much.
        let is_same = |known: &str| bare.strip_prefix(known).is_some_and(is_version);
        self.models.get(&name).or_else(|| {
            self.models.iter().filter(|(known, _)| is_same(known)).max_by_key(|(known, _)| known.len()).map(|(_, p)| p)
        })
    }
}

/// Tells whether what follows a model's name only says which build of it is meant.
fn is_version(rest: &str) -> bool {
    if matches!(rest, "" | "-latest" | "-preview") {
        return true;
    }
    let Some(date) = rest.strip_prefix(['-', '@']) else { return false };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits == DATE_DIGITS && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn parse(text: &str) -> Result<Sheet, String> {
    let file: Sheet = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    match file.models.iter().find(|(_, price)| !price.is_sound()) {
        Some((name, _)) => Err(format!("{name} has a price that is negative or no number")),
        None => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_whole_and_dated() {
        let prices = Prices::embedded();
        assert!(prices.models.len() > 40 && prices.date.len() == 10, "{} {}", prices.models.len(), prices.date);
        let file = parse(EMBEDDED).unwrap();
        assert!(file.models.values().all(|price| price.window > 0 && price.output_max > 0));
    }

    #[test]
    fn names_are_found_as_clients_write_them() {
        let prices = Prices::embedded();
        let input = |name: &str| prices.find(name).map(|price| price.input);
        for (name, want) in [
            ("gpt-5", Some(1.25)),
            ("gpt-5-2025-08-07", Some(1.25)),
            ("openai/GPT-5-mini", Some(0.25)),
            ("claude-haiku-4-5-20251001", Some(1.0)),
            ("anthropic/claude-opus-4-5", Some(5.0)),
            ("claude-sonnet-5-5", Some(2.0)),
            ("gpt-5-pro", None),
            ("gpt-5.9", None),
            ("llama3", None),
            ("", None),
        ] {
            assert_eq!(input(name), want, "{name}");
        }
    }

    #[test]
    fn long_prompts_cost_more_where_the_table_says_so() {
        let price = *Prices::embedded().find("gpt-5.5").unwrap();
        assert_eq!((price.at(272_000).input, price.at(272_001).input, price.at(272_001).output), (5.0, 10.0, 45.0));
    }

    #[test]
    fn the_file_of_the_home_folder_goes_first_and_a_bad_one_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE_NAME);
        std::fs::write(
            &path,
            "date: 2027-01-01\nmodels:\n  gpt-5: {input: 9, output: 10}\n  mine: {input: 0, output: 0}\n",
        )
        .unwrap();
        let prices = Prices::load(home.path());
        assert_eq!((prices.find("gpt-5").unwrap().input, prices.date.as_str()), (9.0, "2027-01-01"));
        assert!(prices.find("mine").is_some() && prices.find("gpt-4o").is_some() && prices.problem.is_none());
        for bad in [
            "models: 7",
            "date: x\nmodels:\n  a: {input: -1, output: 0}",
            "date: x\nmodels:\n  a: {input: .nan, output: 0}",
            "{",
        ] {
            std::fs::write(&path, bad).unwrap();
            let prices = Prices::load(home.path());
            assert!(prices.problem.as_deref().is_some_and(|why| why.contains(FILE_NAME)), "{bad}");
            assert_eq!(prices.find("gpt-5").unwrap().input, 1.25);
        }
    }
}
