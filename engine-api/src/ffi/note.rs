//! The note in a plugin library: who it is, readable from the file without running any of its code.

/// Size of the note in bytes; text, padded with NUL.
pub const NOTE_LEN: usize = 512;

/// Makes the note of a library at compile time. Over-long values are cut.
pub const fn note(name: &str, version: &str, engine_api: &str, panic_abort: bool) -> [u8; NOTE_LEN] {
    let mut state = ([0u8; NOTE_LEN], 0);
    state = put(state, "CTXENGINE/1\nname=");
    state = put(state, name);
    state = put(state, "\nversion=");
    state = put(state, version);
    state = put(state, "\nengine_api=");
    state = put(state, engine_api);
    state = put(state, "\npanic=");
    state = put(state, if panic_abort { "abort" } else { "unwind" });
    put(state, "\n").0
}

// The state goes by value: `&mut` in const functions needs a newer compiler than this crate asks for.
const fn put(mut state: ([u8; NOTE_LEN], usize), text: &str) -> ([u8; NOTE_LEN], usize) {
    let bytes = text.as_bytes();
    let mut index = 0;
    // One byte is left for the NUL that ends the text.
    while index < bytes.len() && state.1 < NOTE_LEN - 1 {
        state.0[state.1] = bytes[index];
        state.1 += 1;
        index += 1;
    }
    state
}
