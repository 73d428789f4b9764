//! Bodies in and out: read within their bounds, decoded where a client compresses, streamed out with room for a few pieces.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::CONTENT_ENCODING;
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces of an answer that wait for a slow client; then the provider waits as well.
const PIECES_MAX: usize = 32;
/// A body of this size at least may grow when it is decoded, up to the bound of any body.
const ROOM_AT_FIRST: usize = 64 * 1024;

/// Why a body could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body has more than {0} bytes (gateway.body_bytes_max)")]
    TooLarge(usize),
    #[error("the body was not complete after {0} s (gateway.body_seconds)")]
    Late(u64),
    #[error("the body broke off: {0}")]
    Broken(String),
    #[error("content-encoding {0:?} is not understood; gzip, deflate and zstd are")]
    Encoding(String),
    #[error("the body is not what its content-encoding says: {0}")]
    Garbled(String),
    #[error("the body is no UTF-8 text (byte {0})")]
    NoText(usize),
}

/// Reads a body whole.
pub(crate) async fn read(mut body: Incoming, bytes_max: usize, time: Duration) -> Result<Bytes, BodyError> {
    let is_over = body.size_hint().lower() > bytes_max as u64;
    if is_over {
        return Err(BodyError::TooLarge(bytes_max));
    }
    let work = async {
        let mut first: Option<Bytes> = None;
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| BodyError::Broken(error.to_string()))?.into_data() else { continue };
            if all.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > bytes_max {
                return Err(BodyError::TooLarge(bytes_max));
            }
            match first.take() {
                None if all.is_empty() => first = Some(data),
                None => all.extend_from_slice(&data),
                Some(before) => {
                    // Room for all of it at once, where the client says how much there is.
                    let rest = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(bytes_max);
                    all.reserve(before.len() + data.len() + rest.max(ROOM_AT_FIRST));
                    all.extend_from_slice(&before);
                    all.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| all.freeze()))
    };
    tokio::time::timeout(time, work).await.unwrap_or(Err(BodyError::Late(time.as_secs())))
}

/// Returns a body's text, decoded as its headers say.
pub(crate) fn text(body: &Bytes, headers: &HeaderMap, bytes_max: usize) -> Result<String, BodyError> {
    let encodings: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty() && name != "identity")
        .collect();
    let bytes = match encodings.as_slice() {
        [] => body.to_vec(),
        [one] => decoded(body, one, bytes_max)?,
        more => return Err(BodyError::Encoding(more.join(", "))),
    };
    String::from_utf8(bytes).map_err(|error| BodyError::NoText(error.utf8_error().valid_up_to()))
}

fn decoded(body: &[u8], encoding: &str, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let garbled = |error: std::io::Error| BodyError::Garbled(error.to_string());
    let mut reader: Box<dyn Read + '_> = match encoding {
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(body)),
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(body)),
        "zstd" => Box::new(zstd::Decoder::with_buffer(body).map_err(garbled)?),
        other => return Err(BodyError::Encoding(other.to_owned())),
    };
    let mut out = Vec::new();
    // One byte more than may be, so that a body which grows without end is seen to.
    reader.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut out).map_err(garbled)?;
    if out.len() > bytes_max {
        return Err(BodyError::TooLarge(bytes_max));
    }
    Ok(out)
}

/// A body on its way to the client.
pub(crate) struct Answer(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Streamed(mpsc::Receiver<Result<Bytes, Broken>>),
}

/// The answer broke off: the connection to the client is closed, so that it cannot take it for whole.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer broke off")]
pub(crate) struct Broken;

/// Where the pieces of a streamed answer are put.
pub(crate) type Sink = mpsc::Sender<Result<Bytes, Broken>>;

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Answer {
        Answer(Kind::Whole(Some(bytes.into())))
    }

    pub(crate) fn streamed() -> (Sink, Answer) {
        let (sink, pieces) = mpsc::channel(PIECES_MAX);
        (sink, Answer(Kind::Streamed(pieces)))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Streamed(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Streamed(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// Takes a body without a bound as it is, for requests that only pass through.
pub(crate) fn passing(body: Incoming) -> reqwest::Body {
    reqwest::Body::wrap(body.map_err(|error| std::io::Error::other(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn encoded(name: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, name.parse().unwrap())])
    }

    fn gzip(text: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn compressed_bodies_are_read_within_their_bound() {
        let small = b"{\"messages\":[]}";
        assert_eq!(text(&gzip(small), &encoded("gzip"), 100).unwrap().as_bytes(), small);
        let zstd: Bytes = zstd::encode_all(&small[..], 1).unwrap().into();
        assert_eq!(text(&zstd, &encoded("zstd"), 100).unwrap().as_bytes(), small);
        let bomb = gzip(&vec![b' '; 1 << 20]);
        assert_eq!(text(&bomb, &encoded("gzip"), 1_000), Err(BodyError::TooLarge(1_000)));
        assert!(matches!(text(&Bytes::from_static(small), &encoded("gzip"), 100), Err(BodyError::Garbled(_))));
        assert!(matches!(text(&Bytes::from_static(small), &encoded("br"), 100), Err(BodyError::Encoding(_))));
        assert_eq!(text(&Bytes::from_static(b"ab\xff"), &HeaderMap::new(), 100), Err(BodyError::NoText(2)));
    }
}
