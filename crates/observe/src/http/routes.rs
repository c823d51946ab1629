//! What is answered to which request.

use super::Settings;
use super::body::{Reply, answer, json, whole, words};
use super::guard::Denied;
use super::{change, files};
use crate::metrics;
use crate::watch::Watch;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Most bytes of what is posted.
const BODY_BYTES: usize = 16 << 10;
/// Streams at a time; the other connections are left for requests.
const STREAMS: usize = 48;

/// The answers of one server.
pub struct Routes {
    settings: Arc<Settings>,
    watch: Watch,
    streams: Arc<Semaphore>,
}

impl Routes {
    /// Answers about an array.
    pub fn new(settings: Arc<Settings>, watch: Watch) -> Routes {
        Routes { settings, watch, streams: Arc::new(Semaphore::new(STREAMS)) }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// None.
    pub async fn answer(&self, request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
        if self.settings.guard.host(request.headers()).is_err() {
            return Ok(denied(&Denied::Host));
        }
        let path = request.uri().path().to_string();
        Ok(match (request.method(), path.strip_prefix("/api/")) {
            (&Method::POST, Some(command)) => self.change(command, request).await,
            (&Method::GET | &Method::HEAD, _) => self.shown(&path, &request),
            _ => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let mut response = words(status, "GET, HEAD, and POST below /api/");
                let allowed = HeaderValue::from_static("GET, HEAD, POST");
                response.headers_mut().insert(ALLOW, allowed);
                response
            }
        })
    }

    fn shown(&self, path: &str, request: &Request<Incoming>) -> Response<Reply> {
        let ok = StatusCode::OK;
        match path {
            "/events" if request.method() == Method::GET => self.events(),
            "/metrics" => fresh(whole(
                ok,
                metrics::CONTENT_TYPE,
                Bytes::from_owner(Shared(self.watch.metrics())),
            )),
            "/api/choices" => json(ok, &choices()),
            "/api/history" => fresh(whole(ok, "application/json", self.watch.history())),
            // Alive: this thread answers. Ready: the data thread does, and serves.
            "/healthz" => fresh(words(ok, "ok")),
            "/readyz" => fresh(match self.watch.state().as_deref() {
                Some(state @ ("clean" | "degraded" | "rebuilding" | "no-nvs" | "inconsistent")) => {
                    words(ok, state)
                }
                Some(state) => words(StatusCode::SERVICE_UNAVAILABLE, state),
                None => {
                    let text = "the data thread has not answered for 5 s";
                    words(StatusCode::SERVICE_UNAVAILABLE, text)
                }
            }),
            path => files::file(path, request.headers(), self.settings.charting)
                .unwrap_or_else(|| words(StatusCode::NOT_FOUND, "not found")),
        }
    }

    /// Each second as an event. A client that is slow misses seconds, and nobody waits for it.
    fn events(&self) -> Response<Reply> {
        let Ok(place) = self.streams.clone().try_acquire_owned() else {
            return words(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
        };
        let (sender, events) = mpsc::channel(1);
        let mut latest = self.watch.stream();
        tokio::spawn(async move {
            let mut next = Bytes::from_static(b"retry: 2000\n\n");
            while sender.send(next).await.is_ok() && latest.changed().await.is_ok() {
                let text = latest.borrow_and_update().clone();
                next = Bytes::from(format!("data: {text}\n\n"));
            }
            drop(place);
        });
        fresh(answer(StatusCode::OK, "text/event-stream", Reply::Events(events)))
    }

    async fn change(&self, command: &str, request: Request<Incoming>) -> Response<Reply> {
        if let Err(why) = self.settings.guard.change(request.headers()) {
            return denied(&why);
        }
        let body = Limited::new(request.into_body(), BODY_BYTES).collect();
        let body = match tokio::time::timeout(self.settings.request_time, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return words(StatusCode::PAYLOAD_TOO_LARGE, "at most 16 KiB"),
            Err(_) => {
                return words(
                    StatusCode::REQUEST_TIMEOUT,
                    "request timed out before it was complete",
                );
            }
        };
        let (status, value) = change::change(&self.settings.control, command, &body).await;
        tracing::info!(target: "destage::http", command, %status, "asked over HTTP");
        fresh(json(status, &value))
    }
}

/// What `set` knows.
fn choices() -> serde_json::Value {
    use destage_engine::{policy::POLICIES, rate::RATES};
    let policies: Vec<&str> = POLICIES.iter().map(|policy| policy.entry.name).collect();
    let rates: Vec<&str> = RATES.iter().map(|rate| rate.entry.name).collect();
    serde_json::json!({ "policies": policies, "rates": rates })
}

/// Text that is shared, as bytes.
struct Shared(Arc<str>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Not to be kept.
fn fresh(mut response: Response<Reply>) -> Response<Reply> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn denied(why: &Denied) -> Response<Reply> {
    let (status, text) = match why {
        Denied::Host => {
            (StatusCode::MISDIRECTED_REQUEST, "not a name of this server: see --http-name")
        }
        Denied::Origin => (StatusCode::FORBIDDEN, "a page of another site may not change this"),
        Denied::Type => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"),
        Denied::NoToken => (StatusCode::UNAUTHORIZED, "the token is missing"),
        Denied::WrongToken => (StatusCode::UNAUTHORIZED, "the token is wrong"),
    };
    let mut response = json(status, &serde_json::json!({ "error": text }));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
