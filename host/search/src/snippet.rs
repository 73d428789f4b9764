//! Chooses the stretch of a text that a hit shows.

use crate::terms::Term;
use crate::tokens::tokens;
use std::ops::Range;

/// Bytes of a snippet, about: two or three lines of a terminal.
const SNIPPET_BYTES: usize = 280;
/// Bytes of a text that are read for the best place; further ones can hold one no better for a reader.
const READ_BYTES_MAX: usize = 262_144;

/// Returns the stretch with the most different words of a query.
pub(crate) fn around_words(text: &str, terms: &[Term]) -> Range<usize> {
    let read = text.get(..text.floor_char_boundary(READ_BYTES_MAX)).unwrap_or(text);
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    tokens(read, &mut |token| {
        if let Some(at) = terms.iter().position(|term| term.key == token.key) {
            places.push((token.range.start, token.range.end, at));
        }
    });
    // Wholes come after their runs.
    places.sort_unstable();
    let mut best = (0, 0, 0);
    let mut first = 0;
    for last in 0..places.len() {
        let Some(&(_, end, _)) = places.get(last) else { break };
        while places.get(first).is_some_and(|place| end.saturating_sub(place.0) > SNIPPET_BYTES && first < last) {
            first += 1;
        }
        let stretch = places.get(first..=last).unwrap_or_default();
        let mask = stretch.iter().fold(0_u32, |mask, place| mask | 1_u32.checked_shl(place.2 as u32).unwrap_or(0));
        if mask.count_ones() > best.0 {
            best = (mask.count_ones(), stretch.first().map_or(0, |place| place.0), end);
        }
        // A text full of hits would be looked at again and again.
        if best.0 as usize >= terms.len() || stretch.len() > 64 {
            first = if stretch.len() > 64 { last } else { first };
            if best.0 as usize >= terms.len() {
                break;
            }
        }
    }
    around(text, best.1..best.2)
}

/// Returns the stretch around a place.
pub(crate) fn around(text: &str, place: Range<usize>) -> Range<usize> {
    let end = place.end.min(place.start.saturating_add(SNIPPET_BYTES)).min(text.len());
    let spare = SNIPPET_BYTES.saturating_sub(end.saturating_sub(place.start));
    let start = text.floor_char_boundary(place.start.saturating_sub(spare / 3));
    let end = text.floor_char_boundary(end.max(start.saturating_add(SNIPPET_BYTES)).min(text.len()));
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::terms;

    #[test]
    fn the_place_with_most_words_is_shown() {
        let text = format!("alpha {} alpha beta gamma {}", "x ".repeat(400), "y ".repeat(400));
        let place = around_words(&text, &terms("gamma beta alpha"));
        assert!(text[place.clone()].contains("alpha beta gamma"), "{}", &text[place]);
    }

    #[test]
    fn snippets_end_at_characters() {
        let text = "数".repeat(500);
        let place = around(&text, 600..603);
        assert!(text.get(place).is_some_and(|snippet| snippet.len() <= SNIPPET_BYTES + 3));
        assert_eq!(around("", 0..0), 0..0);
        assert_eq!(around("abc", 50..60), 0..3);
    }
}
