//! Dividing a budget among claims of different sizes.

/// Returns the largest cap under which the claims, each cut to it, come to at most `budget`.
///
/// Small claims are met whole and the largest are cut first. If all fit, the cap is the largest claim.
pub fn level(claims: &[u64], budget: u64) -> u64 {
    let mut sorted = claims.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    let mut remaining = sorted.len() as u64;
    for claim in sorted {
        let share = left / remaining.max(1);
        if claim > share {
            return share;
        }
        left -= claim;
        remaining -= 1;
    }
    claims.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn the_largest_claims_are_cut_first() {
        for (claims, budget, want) in [
            (&[10, 20, 30][..], 100, 30),
            (&[10, 20, 30], 60, 30),
            (&[10, 20, 30], 50, 20),
            (&[10, 1_000, 30], 100, 60),
            (&[10, 1_000, 1_000], 100, 45),
            (&[5, 5], 0, 0),
            (&[], 7, 0),
        ] {
            assert_eq!(level(claims, budget), want, "{claims:?} {budget}");
        }
    }

    #[test]
    fn cut_claims_never_pass_the_budget() {
        for budget in 0..200 {
            let claims = [3, 77, 12, 0, 150, 9];
            let cap = level(&claims, budget);
            assert!(claims.iter().map(|claim| claim.min(&cap)).sum::<u64>() <= budget, "{budget}");
        }
    }
}
