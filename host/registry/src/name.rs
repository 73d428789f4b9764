//! Names of engines and plugins: plain enough to be a folder, a configuration value and a tool prefix on every system.

use std::fmt;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The name of the built-in engine. No plugin may take it.
pub const BUILTIN_NAME: &str = "compressor";

/// A checked name: `[a-z][a-z0-9_-]{0,63}`, no device name of Windows, not the built-in's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineName(String);

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is no name.
    #[error("the engine name is empty; use a-z, 0-9, `-` and `_`, for example `my-engine`")]
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("the engine name has {bytes} bytes, at most {NAME_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It would lead out of the plugins folder.
    #[error("engine name {name:?} leads out of the plugins folder; a name is one word, never a path")]
    Traversal {
        /// The name.
        name: String,
    },
    /// It is a path.
    #[error("engine name {name:?} holds a path separator; a name is one word, never a path")]
    Separator {
        /// The name.
        name: String,
    },
    /// It differs from an allowed name by case only.
    #[error("engine name {name:?} has upper-case letters; write {suggestion:?}")]
    UpperCase {
        /// The name.
        name: String,
        /// The same in lower case.
        suggestion: String,
    },
    /// Letters outside ASCII can look like others.
    #[error("engine name {name:?} has U+{code:04X}, which is not ASCII and can look like another letter; use a-z")]
    NotAscii {
        /// The name.
        name: String,
        /// The first such character.
        code: u32,
    },
    /// The first character is not a letter.
    #[error("engine name {name:?} starts with {first:?}; a name starts with a letter a-z")]
    BadStart {
        /// The name.
        name: String,
        /// Its first character.
        first: char,
    },
    /// A character that is not allowed.
    #[error("engine name {name:?} has {bad:?}; only a-z, 0-9, `-` and `_` are allowed")]
    BadCharacter {
        /// The name.
        name: String,
        /// The character.
        bad: char,
    },
    /// Windows would open a device instead of a folder.
    #[error("engine name {name:?} is a device on Windows; choose another name")]
    Device {
        /// The name.
        name: String,
    },
    /// The built-in's name.
    #[error("engine name `{BUILTIN_NAME}` is reserved for the built-in engine; choose another name")]
    Reserved,
}

impl EngineName {
    /// Checks a name.
    pub fn parse(name: &str) -> Result<EngineName, NameError> {
        check_shape(name)?;
        if name == BUILTIN_NAME {
            return Err(NameError::Reserved);
        }
        Ok(EngineName(name.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_shape(name: &str) -> Result<(), NameError> {
    let owned = || name.to_owned();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    // First, so that no message repeats a text of any length.
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    if name == "." || name == ".." || name.split(['/', '\\']).any(|step| step == "..") {
        return Err(NameError::Traversal { name: owned() });
    }
    if name.contains(['/', '\\', ':']) {
        return Err(NameError::Separator { name: owned() });
    }
    if let Some(wide) = name.chars().find(|c| !c.is_ascii()) {
        return Err(NameError::NotAscii { name: owned(), code: wide as u32 });
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(NameError::UpperCase { name: owned(), suggestion: name.to_ascii_lowercase() });
    }
    if let Some(first) = name.chars().next().filter(|c| !c.is_ascii_lowercase()) {
        return Err(NameError::BadStart { name: owned(), first });
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if let Some(bad) = name.chars().find(|c| !allowed(*c)) {
        return Err(NameError::BadCharacter { name: owned(), bad });
    }
    if is_device(name) {
        return Err(NameError::Device { name: owned() });
    }
    Ok(())
}

fn is_device(name: &str) -> bool {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    matches!(name, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for EngineName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for EngineName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for EngineName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &str) -> NameError {
        EngineName::parse(name).unwrap_err()
    }

    #[test]
    fn plain_names_are_names() {
        for name in ["lcm", "a", "my-engine_2", "codex", "com", "com10", "lptx", &"x".repeat(64)] {
            assert_eq!(EngineName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn each_fault_is_named() {
        assert_eq!(fault(""), NameError::Empty);
        assert_eq!(fault(&"x".repeat(65)), NameError::TooLong { bytes: 65 });
        for path in ["..", ".", "../x", "a/../b", "..\\x"] {
            assert!(matches!(fault(path), NameError::Traversal { .. }), "{path}");
        }
        for path in ["a/b", "/etc", "a\\b", "c:x"] {
            assert!(matches!(fault(path), NameError::Separator { .. }), "{path}");
        }
        assert!(matches!(fault("LCM"), NameError::UpperCase { suggestion, .. } if suggestion == "lcm"));
        for look_alike in ["ﬁ", "lсm", "lcm\u{200b}", "ｌｃｍ"] {
            assert!(matches!(fault(look_alike), NameError::NotAscii { .. }), "{look_alike}");
        }
        for start in ["-x", "_x", "1x", ".hidden", " x", "\0"] {
            assert!(matches!(fault(start), NameError::BadStart { .. }), "{start:?}");
        }
        for inside in ["a b", "a\0b", "lcm.", "a,b", "a\n"] {
            assert!(matches!(fault(inside), NameError::BadCharacter { .. }), "{inside:?}");
        }
        for device in ["con", "nul", "com1", "lpt0"] {
            assert!(matches!(fault(device), NameError::Device { .. }), "{device}");
        }
        assert_eq!(fault("compressor"), NameError::Reserved);
    }

    #[test]
    fn messages_say_what_to_write_instead() {
        assert_eq!(fault("Lcm").to_string(), r#"engine name "Lcm" has upper-case letters; write "lcm""#);
        assert!(fault("lсm").to_string().contains("U+0441"));
        assert!(fault("a\0b").to_string().contains(r"'\0'"));
    }
}
