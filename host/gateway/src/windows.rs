//! The windows of models, as far as they are known: what a provider's error said, what the settings say, what the price
//! table says, and else a careful assumption.

use crate::settings::Provider;
use host_config::Config;
use host_config::codex::assumed_window;
use host_llm::Prices;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// File in the home folder with the windows that providers' errors stated.
const FILE: &str = "windows.json";
/// Windows that are remembered; a new one beyond this is not.
const LEARNED_MAX: usize = 512;

/// Windows that were learned, kept across restarts.
#[derive(Debug)]
pub(crate) struct Windows {
    file: PathBuf,
    learned: Mutex<BTreeMap<String, u64>>,
}

impl Windows {
    /// Reads what was learned; a file that cannot be read is as good as none.
    pub(crate) fn open(home: &Path) -> Windows {
        let file = home.join(FILE);
        let learned = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str(&text).ok());
        Windows { file, learned: Mutex::new(learned.unwrap_or_default()) }
    }

    /// Returns the window that holds for a model at a provider.
    pub(crate) fn of(&self, provider: &Provider, model: &str, config: &Config, prices: &Prices) -> u64 {
        let is_default = config.model.default.is_empty() || config.model.default == model;
        let stated = provider.window(model).or_else(|| config.model.context_length.filter(|_| is_default));
        let priced = || prices.find(model).map(|price| price.window).filter(|window| *window > 0);
        let window = stated.or_else(priced).unwrap_or_else(|| assumed_window(model, &config.model.provider));
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).get(&key(provider, model)).copied();
        learned.map_or(window, |learned| learned.min(window))
    }

    /// Remembers what a provider said of a model's window, and whether that is news.
    pub(crate) fn learn(&self, provider: &Provider, model: &str, window: u64) -> bool {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(provider, model);
        let is_full = learned.len() >= LEARNED_MAX && !learned.contains_key(&key);
        if window == 0 || is_full || learned.get(&key) == Some(&window) {
            return false;
        }
        learned.insert(key, window);
        // It is learned again from the next error if it cannot be kept.
        if let Ok(text) = serde_json::to_string_pretty(&*learned) {
            let _ = host_config::write_atomically(&self.file, &text);
        }
        true
    }
}

fn key(provider: &Provider, model: &str) -> String {
    format!("{} {model}", provider.base)
}
