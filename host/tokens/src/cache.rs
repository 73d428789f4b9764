//! Remembers counts by content, so that a conversation is counted once however often it is sent.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::vocabulary::Vocabulary;

/// Entries of one generation. Two full generations take about 6 MB and hold several 500,000-token conversations.
const GENERATION_ENTRIES: usize = 100_000;

/// Halves of a 128-bit hash: as one number its alignment would cost a third more memory.
type Key = (u64, u64);

static CACHE: LazyLock<Cache> = LazyLock::new(Cache::new);

/// Counts a text, or returns what was counted before for the same text.
pub(crate) fn count_once(vocabulary: Vocabulary, text: &str) -> u32 {
    CACHE.count_once(vocabulary, text, |text| vocabulary.count(text))
}

/// Returns what was counted before for the same text, if it is still remembered.
pub(crate) fn known(vocabulary: Vocabulary, text: &str) -> Option<u32> {
    let key = CACHE.key(vocabulary, text);
    CACHE.lock().get(key)
}

struct Cache {
    /// Differs in every process, so nobody can prepare two texts that share an entry.
    seed: u64,
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<Key, u32, BuildHasherDefault<AsItIs>>,
    old: HashMap<Key, u32, BuildHasherDefault<AsItIs>>,
}

impl Cache {
    fn new() -> Cache {
        Cache { seed: RandomState::new().hash_one(0u8), generations: Mutex::default() }
    }

    fn key(&self, vocabulary: Vocabulary, text: &str) -> Key {
        let seed = match vocabulary {
            Vocabulary::O200k => self.seed,
            Vocabulary::Cl100k => !self.seed,
        };
        let hash = xxh3_128_with_seed(text.as_bytes(), seed);
        ((hash >> 64) as u64, hash as u64)
    }

    fn count_once(&self, vocabulary: Vocabulary, text: &str, count: impl FnOnce(&str) -> u32) -> u32 {
        let key = self.key(vocabulary, text);
        if let Some(known) = self.lock().get(key) {
            return known;
        }
        // Counted without the lock: two threads may count the same text twice, none waits for another's long text.
        let counted = count(text);
        self.lock().put(key, counted);
        counted
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        // Whatever a panicking thread left behind is still a map of right counts.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get(&mut self, key: Key) -> Option<u32> {
        if let Some(count) = self.young.get(&key) {
            return Some(*count);
        }
        // What is still in use moves on; what is not leaves with its generation.
        let count = self.old.remove(&key)?;
        self.put(key, count);
        Some(count)
    }

    fn put(&mut self, key: Key, count: u32) {
        if self.young.len() >= GENERATION_ENTRIES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, count);
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, half: u64) {
        self.0 ^= half;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_once_for_each_vocabulary() {
        let cache = Cache::new();
        let mut calls = 0;
        for _ in 0..3 {
            assert_eq!(
                cache.count_once(Vocabulary::O200k, "the same text", |_| {
                    calls += 1;
                    7
                }),
                7
            );
        }
        assert_eq!(calls, 1);
        assert_eq!(cache.count_once(Vocabulary::Cl100k, "the same text", |_| 9), 9);
    }

    #[test]
    fn two_generations_bound_the_cache_and_keep_what_is_used() {
        let cache = Cache::new();
        let ask = |text: &str| cache.count_once(Vocabulary::O200k, text, |_| 1);
        for number in 0..2 * GENERATION_ENTRIES + 10 {
            ask(&number.to_string());
            if number % 1000 == 0 {
                ask("often used");
            }
        }
        let held = cache.lock();
        assert!(held.young.len() + held.old.len() <= 2 * GENERATION_ENTRIES);
        drop(held);
        assert_eq!(cache.count_once(Vocabulary::O200k, "often used", |_| 99), 1);
        assert_eq!(cache.count_once(Vocabulary::O200k, "0", |_| 99), 99);
    }
}
