//! Ordered lists of ids as runs of neighbours, in a few bytes each: a view of 10,000 messages is often one run.

use crate::error::StoreError;

/// Ids of one list at most; a list that claims more is damaged.
const IDS_MAX: u64 = 16_000_000;

/// Writes ids in their order.
pub(crate) fn encode(ids: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut expected = 0u64;
    let mut at = 0;
    while let Some(&first) = ids.get(at) {
        let mut length = 1u64;
        while ids.get(at + length as usize).is_some_and(|&id| id == first.wrapping_add(length)) {
            length += 1;
        }
        put(&mut out, zigzag(first.wrapping_sub(expected) as i64));
        put(&mut out, length);
        expected = first.wrapping_add(length);
        at += length as usize;
    }
    out
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<u64>, StoreError> {
    let damaged = || StoreError::Damaged { doing: "reading a list of ids", why: "its bytes make no list".to_owned() };
    let mut out = Vec::new();
    let mut rest = bytes;
    let mut expected = 0u64;
    while !rest.is_empty() {
        let first = expected.wrapping_add(unzigzag(take(&mut rest).ok_or_else(damaged)?) as u64);
        let length = take(&mut rest).ok_or_else(damaged)?;
        if length == 0 || length.saturating_add(out.len() as u64) > IDS_MAX {
            return Err(damaged());
        }
        expected = first.checked_add(length).ok_or_else(damaged)?;
        out.extend(first..expected);
    }
    Ok(out)
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, left) = rest.split_first()?;
        *rest = left;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_list_comes_back_in_its_order(ids in proptest::collection::vec(0u64..10_000, 0..300)) {
            prop_assert_eq!(decode(&encode(&ids)).unwrap(), ids);
        }
        #[test]
        fn bytes_of_nobody_give_a_list_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            // Random bytes can claim a run of millions; what matters is that they end.
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_long_run_takes_a_few_bytes() {
        assert!(encode(&(1..=100_000).collect::<Vec<_>>()).len() <= 8);
    }
}
