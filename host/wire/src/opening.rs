//! How a stream begins: whether its first events already say that the request has failed.

use crate::sse::SseParser;
use engine_api::Dialect;
use serde_json::Value;

/// Bytes of a beginning that are looked at; a reply that opens with more than this is under way.
const BYTES_MAX: usize = 256 * 1024;

/// What is known of a stream by its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begins {
    /// Only events that open a stream have come.
    NotYet,
    /// The reply is under way.
    Well,
    /// It has failed.
    Failed {
        /// The provider's code.
        code: String,
        /// The provider's words.
        message: String,
    },
}

/// Looks at the beginning of a stream.
#[derive(Debug)]
pub struct Opening {
    dialect: Dialect,
    parser: SseParser,
    bytes: usize,
}

impl Opening {
    /// Looks at a stream in a dialect.
    pub fn new(dialect: Dialect) -> Opening {
        Opening { dialect, parser: SseParser::default(), bytes: 0 }
    }

    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Begins {
        self.bytes = self.bytes.saturating_add(piece.len());
        let (mut begins, dialect) = (Begins::NotYet, self.dialect);
        let fed = self.parser.feed(piece, &mut |event| {
            if begins == Begins::NotYet && !event.data.is_empty() {
                begins = judge(dialect, &event.data);
            }
        });
        if begins == Begins::NotYet && (fed.is_err() || self.bytes > BYTES_MAX) { Begins::Well } else { begins }
    }
}

fn judge(dialect: Dialect, data: &str) -> Begins {
    let Ok(value) = serde_json::from_str::<Value>(data) else { return Begins::Well };
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let failed = |at: &str| Begins::Failed {
        code: text(&format!("{at}/code")).or_else(|| text(&format!("{at}/type"))).unwrap_or_default().to_owned(),
        message: text(&format!("{at}/message")).unwrap_or_default().to_owned(),
    };
    match (dialect, text("/type").unwrap_or_default()) {
        (Dialect::Responses, "response.created" | "response.queued" | "response.in_progress") => Begins::NotYet,
        (Dialect::Responses, "response.failed") => failed("/response/error"),
        (Dialect::Responses, "error") if value.get("error").is_none() => failed(""),
        (Dialect::Anthropic, "ping") => Begins::NotYet,
        _ if value.get("error").is_some_and(Value::is_object) => failed("/error"),
        _ => Begins::Well,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(dialect: Dialect, stream: &str) -> Begins {
        let mut opening = Opening::new(dialect);
        stream
            .as_bytes()
            .chunks(5)
            .map(|piece| opening.feed(piece))
            .find(|one| *one != Begins::NotYet)
            .unwrap_or(Begins::NotYet)
    }

    #[test]
    fn a_failure_is_seen_behind_the_events_that_open_a_stream() {
        let created = "data: {\"type\":\"response.created\",\"response\":{}}\n\n";
        let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"m\"}}}\n\n";
        let found = Begins::Failed { code: "context_length_exceeded".into(), message: "m".into() };
        assert_eq!(begins(Dialect::Responses, &[created, failed].concat()), found);
        assert_eq!(begins(Dialect::Responses, created), Begins::NotYet);
        let item = "data: {\"type\":\"response.output_item.added\",\"output_index\":0}\n\n";
        assert_eq!(begins(Dialect::Responses, &[created, item, failed].concat()), Begins::Well);
        let error =
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n";
        assert!(matches!(begins(Dialect::Anthropic, error), Begins::Failed { code, .. } if code == "overloaded_error"));
        assert_eq!(begins(Dialect::OpenAiChat, "data: {\"choices\":[{\"delta\":{}}]}\n\n"), Begins::Well);
        assert!(matches!(
            begins(Dialect::OpenAiChat, "data: {\"error\":{\"message\":\"m\"}}\n\n"),
            Begins::Failed { .. }
        ));
    }
}
