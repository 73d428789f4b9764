//! What a request is, from its method and path alone.

use engine_api::Dialect;
use hyper::Method;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A reply of a model.
    Generate(Dialect),
    /// A client's request to have its conversation compacted: `POST /responses/compact`.
    Compact,
    /// The size of a request: `POST /messages/count_tokens`.
    CountTokens,
    /// The Responses API over a websocket, which is refused so that the client goes on over HTTP.
    Websocket,
    /// Something of the gateway's own.
    Own(Own),
    /// Anything else, which goes through as it is.
    Other,
}

/// The gateway's own answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Own {
    Live,
    Ready,
    Metrics,
    Sessions,
    Session(String),
    CompactSession(String),
    UndoSession(String),
    /// The path is one of ours, and the method does not fit it.
    WrongMethod,
    Unknown,
}

/// A request's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    /// The provider that the path names.
    pub(crate) provider: Option<String>,
    /// The path at the provider.
    pub(crate) path: String,
}

/// Paths under which the gateway speaks of itself.
const OWN: &str = "/palimpsest";
/// Begins the paths that name a provider.
const NAMED: &str = "/p/";

/// Reads a request's place; the error says what is wrong with the path.
pub(crate) fn route(method: &Method, path: &str, is_upgrade: bool) -> Result<Route, &'static str> {
    check(path)?;
    let (provider, path) = match path.strip_prefix(NAMED) {
        Some(rest) => {
            let (name, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(name.to_owned()), rest)
        }
        None => (None, path),
    };
    let operation = operation(method, path, is_upgrade);
    Ok(Route { operation, provider, path: path.to_owned() })
}

fn operation(method: &Method, path: &str, is_upgrade: bool) -> Operation {
    if let Some(own) = own(method, path) {
        return Operation::Own(own);
    }
    let bare = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path);
    if is_upgrade && bare == "/responses" {
        return Operation::Websocket;
    }
    if method != Method::POST {
        return Operation::Other;
    }
    match bare {
        "/chat/completions" => Operation::Generate(Dialect::OpenAiChat),
        "/responses" => Operation::Generate(Dialect::Responses),
        "/messages" => Operation::Generate(Dialect::Anthropic),
        "/messages/count_tokens" => Operation::CountTokens,
        "/responses/compact" => Operation::Compact,
        _ => Operation::Other,
    }
}

fn own(method: &Method, path: &str) -> Option<Own> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let read = |own| Some(if is_read { own } else { Own::WrongMethod });
    match path {
        "/livez" => return read(Own::Live),
        "/readyz" => return read(Own::Ready),
        "/metrics" => return read(Own::Metrics),
        _ => {}
    }
    let rest = path.strip_prefix(OWN).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let segments: Vec<&str> = rest.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        ["sessions"] => read(Own::Sessions),
        ["sessions", id] => read(Own::Session((*id).to_owned())),
        ["sessions", id, "compact"] if method == Method::POST => Some(Own::CompactSession((*id).to_owned())),
        ["sessions", id, "undo"] if method == Method::POST => Some(Own::UndoSession((*id).to_owned())),
        ["sessions", _, "compact" | "undo"] => Some(Own::WrongMethod),
        _ => Some(Own::Unknown),
    }
}

/// Refuses paths that another server may read otherwise than they look.
fn check(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("the path does not begin with a slash");
    }
    let lower = path.to_ascii_lowercase();
    let is_dots = |segment: &str| matches!(segment.replace("%2e", ".").as_str(), "." | "..");
    if lower.split('/').any(is_dots) {
        return Err("the path has a segment of dots");
    }
    if path.contains("//") {
        return Err("the path has an empty segment");
    }
    if ["\\", "%2f", "%5c", "%00"].iter().any(|hidden| lower.contains(hidden)) {
        return Err("the path hides a separator");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(method: Method, path: &str) -> Operation {
        route(&method, path, false).unwrap().operation
    }

    #[test]
    fn each_api_is_known_by_its_path_with_and_without_a_version() {
        for (path, dialect) in [
            ("/v1/chat/completions", Dialect::OpenAiChat),
            ("/chat/completions", Dialect::OpenAiChat),
            ("/v1/responses", Dialect::Responses),
            ("/v1/messages", Dialect::Anthropic),
        ] {
            assert_eq!(at(Method::POST, path), Operation::Generate(dialect));
            assert_eq!(at(Method::GET, path), Operation::Other);
        }
        assert_eq!(at(Method::POST, "/v1/messages/count_tokens"), Operation::CountTokens);
        assert_eq!(at(Method::POST, "/v1/responses/compact"), Operation::Compact);
        assert_eq!(at(Method::POST, "/v1/embeddings"), Operation::Other);
        assert_eq!(route(&Method::GET, "/v1/responses", true).unwrap().operation, Operation::Websocket);
        let named = route(&Method::POST, "/p/local/v1/messages", false).unwrap();
        assert_eq!((named.provider.as_deref(), named.path.as_str()), (Some("local"), "/v1/messages"));
        assert_eq!(named.operation, Operation::Generate(Dialect::Anthropic));
    }

    #[test]
    fn own_paths_answer_their_methods_only() {
        assert_eq!(at(Method::GET, "/livez"), Operation::Own(Own::Live));
        assert_eq!(at(Method::POST, "/metrics"), Operation::Own(Own::WrongMethod));
        let compact = Operation::Own(Own::CompactSession("a".to_owned()));
        assert_eq!(at(Method::POST, "/palimpsest/sessions/a/compact"), compact);
        assert_eq!(at(Method::GET, "/palimpsest/sessions/a/compact"), Operation::Own(Own::WrongMethod));
        assert_eq!(at(Method::GET, "/palimpsest/nothing"), Operation::Own(Own::Unknown));
        assert_eq!(at(Method::GET, "/palimpsestic"), Operation::Other);
    }

    #[test]
    fn paths_that_two_servers_may_read_differently_are_refused() {
        for path in ["/v1/../metrics", "/v1/%2e%2E/x", "//v1/messages", "/v1\\messages", "/v1/%2fx", "v1", "/p/x/.."] {
            assert!(route(&Method::POST, path, false).is_err(), "{path}");
        }
        assert!(route(&Method::GET, "/v1/files/a..b", false).is_ok());
    }
}
