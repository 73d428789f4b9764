//! What makes a message the same although its bytes differ: clients move cache marks about and write JSON anew.

use crate::json;
use std::borrow::Cow;

/// The member by which clients mark how far a prefix is to be cached; they move it with each request.
const CACHE_MARK: &str = "cache_control";
/// Levels of nesting that are looked through: a message, its blocks, a block's own blocks.
const LEVELS: usize = 4;

/// Returns a message's JSON without white space between its tokens and without cache marks.
pub fn identity(raw: &str) -> String {
    let compact = json::compact(raw);
    if !compact.contains(CACHE_MARK) {
        return compact;
    }
    without_marks(&compact, LEVELS).into_owned()
}

fn without_marks(raw: &str, levels: usize) -> Cow<'_, str> {
    if levels == 0 || !raw.contains(CACHE_MARK) {
        return Cow::Borrowed(raw);
    }
    match json::kind(raw) {
        json::Kind::Array => {
            let Some(elements) = json::elements(raw) else { return Cow::Borrowed(raw) };
            let kept: Vec<Cow<'_, str>> = elements.iter().map(|element| without_marks(element, levels - 1)).collect();
            Cow::Owned(format!("[{}]", kept.join(",")))
        }
        json::Kind::Object => {
            let Some(object) = json::Object::parse(raw) else { return Cow::Borrowed(raw) };
            let kept: Vec<String> = object
                .members()
                .iter()
                .filter(|member| member.key != CACHE_MARK)
                .map(|member| format!("{}:{}", json::quote(&member.key), without_marks(member.value, levels - 1)))
                .collect();
            Cow::Owned(format!("{{{}}}", kept.join(",")))
        }
        _ => Cow::Borrowed(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn marks_and_white_space_make_no_difference_and_words_do() {
        let plain = r#"{"role":"user","content":[{"type":"text","text":"a cache_control b"}]}"#;
        let marked = r#"{ "role": "user",
            "content": [ {"type":"text","text":"a cache_control b","cache_control":{"type":"ephemeral"}} ] }"#;
        assert_eq!(identity(plain), identity(marked));
        assert_ne!(identity(plain), identity(&plain.replace("a cache", "b cache")));
        assert_eq!(identity("no json cache_control"), identity("no json cache_control"));
    }
}
