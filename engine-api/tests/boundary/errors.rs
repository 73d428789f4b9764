//! Every kind of error comes back from an engine, and into one, as it was made.

use crate::wire::compressing;
use engine_api::ffi::RawError;
use engine_api::testing::FakeHost;
use engine_api::{CompressRequest, EngineError, ErrorKind, ViewTable};

const KINDS: [ErrorKind; 13] = [
    ErrorKind::Panicked,
    ErrorKind::Internal,
    ErrorKind::Cancelled,
    ErrorKind::Unsupported,
    ErrorKind::TimedOut,
    ErrorKind::Service,
    ErrorKind::Busy,
    ErrorKind::Config,
    ErrorKind::Stale,
    ErrorKind::NothingToCompact,
    ErrorKind::Summariser,
    ErrorKind::Storage,
    ErrorKind::Input,
];

#[test]
fn the_list_of_kinds_is_whole() {
    // Codes are given without gaps, so the first that reads as another kind is beyond the last.
    let last = KINDS.iter().map(|kind| kind.code()).max().unwrap();
    assert_eq!(last as usize, KINDS.len());
    assert_eq!(ErrorKind::from_code(last + 1), ErrorKind::Internal);
}

#[test]
fn every_kind_comes_back_with_text_hint_and_delay() {
    for kind in KINDS {
        for (message, hint, delay) in [("", "", 0), ("could not read \"ö\"\n\u{0}", "try\tagain", u64::MAX)] {
            let error = EngineError::new(kind, message).with_hint(hint).retry_after_ms(delay);
            let copy = error.clone();
            let mut session = compressing(move |_, _, _| Err(copy.clone()));
            let table = ViewTable::new(1, &[]);
            let seen = session.compress(&FakeHost::default(), &table.conversation(), &CompressRequest::default());
            assert_eq!(seen, Err(error));
        }
    }
}

#[test]
fn every_kind_reaches_an_engine_from_a_service() {
    for kind in KINDS {
        let expected = EngineError::new(kind, "the model is away").with_hint("later").retry_after_ms(9);
        // A panic of the engine's own is the one thing that a host cannot report: it says that a service failed.
        let kind_seen = if kind == ErrorKind::Panicked { ErrorKind::Service } else { kind };
        let host = FakeHost::default();
        host.completions.lock().unwrap().push(Err(expected));
        let mut session = compressing(move |services, _, _| {
            let error = services.complete(&engine_api::CompletionRequest::new("summary", "prompt")).unwrap_err();
            assert_eq!(error.kind, kind_seen);
            Err(error)
        });
        let table = ViewTable::new(1, &[]);
        let seen = session.compress(&host, &table.conversation(), &CompressRequest::default()).unwrap_err();
        assert_eq!((seen.kind, seen.message.as_str()), (kind_seen, "the model is away"));
        if kind != ErrorKind::Panicked {
            assert_eq!((seen.hint.as_str(), seen.retry_after_ms), ("later", 9));
        }
    }
}

#[test]
fn a_code_of_a_later_version_is_an_internal_error() {
    let raw = RawError { code: 4_000_000_000, r0: 7, retry_after_ms: 1, message: "new".into(), hint: "".into() };
    assert_eq!(EngineError::from(raw), EngineError::internal("new").retry_after_ms(1));
}
