//! Answers: complete ones, and streams of events.

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The bytes of an answer.
pub enum Reply {
    /// All at once.
    Complete(Full<Bytes>),
    /// As they come.
    Events(mpsc::Receiver<Bytes>),
}

impl Reply {
    /// It has no end.
    pub fn is_stream(&self) -> bool {
        matches!(self, Reply::Events(_))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Reply::Complete(bytes) => Pin::new(bytes).poll_frame(context),
            Reply::Events(events) => {
                events.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Complete(bytes) => bytes.is_end_stream(),
            Reply::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Complete(bytes) => bytes.size_hint(),
            Reply::Events(_) => SizeHint::default(),
        }
    }
}

/// Scripts and styles of this server only; plotly.js sets styles of elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const SAFETY: [(&str, &str); 5] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// An answer with its kind of contents.
pub fn answer(status: StatusCode, kind: &'static str, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in SAFETY {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// A complete answer.
pub fn complete(
    status: StatusCode,
    kind: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Reply> {
    answer(status, kind, Reply::Complete(Full::new(bytes.into())))
}

/// One line of text.
pub fn words(status: StatusCode, text: &str) -> Response<Reply> {
    complete(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// JSON.
pub fn json(status: StatusCode, value: &serde_json::Value) -> Response<Reply> {
    complete(status, "application/json", format!("{value}\n"))
}
