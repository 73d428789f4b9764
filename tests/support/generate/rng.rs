//! A small random generator whose numbers are the same on every machine and in every version.

/// SplitMix64: one word of state, good enough to pick cases with.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts from a seed; any seed is good.
    pub fn new(seed: u64) -> Self {
        Rng { state: seed }
    }
    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Returns a number below `limit`; 0 where the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of a product spreads the numbers evenly enough, without a division.
        ((u128::from(self.next_u64()) * limit as u128) >> 64) as usize
    }
    /// Returns a number from `low` to `high`, both included; `low` where the range is empty.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below((high + 1).saturating_sub(low))
    }
    /// Tells, once in `count` times, that now is the time.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
    /// Picks one of the items, of which there must be some.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.pick_ref(items)
    }
    /// Picks one of the items, of which there must be some, where it stands.
    pub fn pick_ref<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
    /// Puts the items in any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
