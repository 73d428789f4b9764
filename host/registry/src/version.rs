//! The contract's version, and what a manifest asks of it.

use std::fmt;

/// Most comparisons in one requirement.
const COMPARISONS_MAX: usize = 8;

/// A version of the contract. Within one major version every minor loads in every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Breaks when it differs.
    pub major: u32,
    /// Additions only.
    pub minor: u32,
    /// No change of the contract.
    pub patch: u32,
}

impl ApiVersion {
    /// Makes a version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> ApiVersion {
        ApiVersion { major, minor, patch }
    }

    /// Returns the version that this host speaks.
    pub fn host() -> ApiVersion {
        ApiVersion::parse(engine_api::API_VERSION).unwrap_or(ApiVersion::new(1, 0, 0))
    }

    /// Reads `1`, `1.1` or `1.1.0`.
    pub fn parse(text: &str) -> Option<ApiVersion> {
        let mut numbers = [0u32; 3];
        for (index, part) in text.trim().split('.').enumerate() {
            // Nine digits always fit.
            if part.is_empty() || part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            *numbers.get_mut(index)? = part.parse().ok()?;
        }
        let [major, minor, patch] = numbers;
        Some(ApiVersion { major, minor, patch })
    }

    /// Tells whether a host of this version can load an engine built against `engine`.
    pub const fn loads(self, engine: ApiVersion) -> bool {
        self.major == engine.major
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What a manifest asks of the host: `>=1.0, <2`, or one version such as `1.1`, which any host of that major meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequirement {
    text: String,
    comparisons: Vec<(Comparison, ApiVersion)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    SameMajor,
    AtLeast,
    Above,
    AtMost,
    Below,
}

impl ApiRequirement {
    /// Reads a requirement.
    pub fn parse(text: &str) -> Option<ApiRequirement> {
        let mut comparisons = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let (comparison, version) = None
                .or_else(|| part.strip_prefix(">=").map(|rest| (Comparison::AtLeast, rest)))
                .or_else(|| part.strip_prefix("<=").map(|rest| (Comparison::AtMost, rest)))
                .or_else(|| part.strip_prefix('>').map(|rest| (Comparison::Above, rest)))
                .or_else(|| part.strip_prefix('<').map(|rest| (Comparison::Below, rest)))
                .or_else(|| part.strip_prefix(['^', '=']).map(|rest| (Comparison::SameMajor, rest)))
                .unwrap_or((Comparison::SameMajor, part));
            if comparisons.len() == COMPARISONS_MAX {
                return None;
            }
            comparisons.push((comparison, ApiVersion::parse(version)?));
        }
        Some(ApiRequirement { text: text.trim().to_owned(), comparisons })
    }

    /// Tells whether a host of this version meets every part.
    pub fn allows(&self, host: ApiVersion) -> bool {
        self.comparisons.iter().all(|(comparison, version)| match comparison {
            Comparison::SameMajor => host.loads(*version),
            Comparison::AtLeast => host >= *version,
            Comparison::Above => host > *version,
            Comparison::AtMost => host <= *version,
            Comparison::Below => host < *version,
        })
    }
}

impl fmt::Display for ApiRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Tells whether a text can be the version of an engine: a digit, then letters, digits and `.+-`, at most 64.
pub(crate) fn is_version_text(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_strictly() {
        assert_eq!(ApiVersion::parse("1.1"), Some(ApiVersion::new(1, 1, 0)));
        assert_eq!(ApiVersion::parse(" 2 "), Some(ApiVersion::new(2, 0, 0)));
        for bad in ["", "1.", "a", "1.2.3.4", "-1", "+1", "9999999999", "1 .2", "1.x"] {
            assert_eq!(ApiVersion::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_requirement_is_met_or_not() {
        let host = ApiVersion::new(1, 1, 0);
        for met in [">=1.0, <2", "1.1", "1.7", "^1", "=1.0", ">1.0,<=1.1.0", "1"] {
            assert!(ApiRequirement::parse(met).unwrap().allows(host), "{met}");
        }
        for unmet in [">=1.2, <2", "2.0", "0.9", "<1.1", ">1.1"] {
            assert!(!ApiRequirement::parse(unmet).unwrap().allows(host), "{unmet}");
        }
        for bad in ["", ">=", "1,", "~1", "1;2", &"1,".repeat(20)] {
            assert!(ApiRequirement::parse(bad).is_none(), "{bad:?}");
        }
    }
}
