//! How prompts are taken apart.

use super::*;

fn bytes(text: &str) -> u64 {
    text.len() as u64
}

#[test]
fn the_parts_and_the_frame_are_the_prompt() {
    let blocks: String = (0..40).map(|n| format!("[USER]: message {n} {}\n\n", "x".repeat(300))).collect();
    let prompt = format!("Summarise.\n\n{blocks}THE NEWEST REQUESTS:\n- a\n\nFOCUS");
    let parts = split(&prompt, 0, 4_000, bytes).unwrap();
    assert_eq!(format!("{}{}{}", parts.before, parts.parts.concat(), parts.after), prompt);
    assert_eq!((parts.before, parts.after), ("Summarise.\n\n", "THE NEWEST REQUESTS:\n- a\n\nFOCUS"));
    assert!(parts.parts.iter().all(|part| part.len() <= 2_600 && part.starts_with("[USER]: ")), "{parts:?}");
}

#[test]
fn odd_prompts_are_split_or_refused_but_never_lost() {
    let long_line = "ü".repeat(5_000);
    let lines = "a line of text\n".repeat(600);
    let blank = "\n".repeat(5_000);
    for prompt in [
        long_line.as_str(),
        &lines,
        &blank,
        &format!("[USER]: {long_line}"),
        &format!("{blank}x"),
        "[A",
        "",
        "日本語\n\n日本語",
    ] {
        if let Some(parts) = split(prompt, 0, 4_000, bytes) {
            let whole = format!("{}{}{}", parts.before, parts.parts.concat(), parts.after);
            assert_eq!(whole.split_whitespace().collect::<String>(), prompt.split_whitespace().collect::<String>());
            assert!(parts.parts.iter().all(|part| part.len() <= 2_600));
        }
    }
    assert_eq!(split(&"x".repeat(100_000), 0, 4_000, bytes), None);
    assert_eq!(split("[USER]: x", 5_000, 4_000, bytes), None, "no room is left beside the system text");
}

#[test]
fn notes_that_do_not_fit_are_cut_with_a_mark() {
    let prompt = format!("Summarise.\n\n[USER]: {}", "x".repeat(6_000));
    let parts = split(&prompt, 0, 4_000, bytes).unwrap();
    let notes = vec!["n".repeat(3_000); parts.parts.len()];
    let reduced = parts.reduce(&notes, bytes);
    assert!(reduced.len() <= 3_000 && reduced.matches("[…]").count() == notes.len(), "{}", reduced.len());
}
