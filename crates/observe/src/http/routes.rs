//! The answer to each request.

use super::Settings;
use super::body::{Reply, answer, complete, json, words};
use super::guard::Denied;
use super::{change, files};
use crate::metrics;
use crate::monitor::Monitor;
use destage_report::state::ArrayState;
use destage_server::array::control::COMMANDS;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Most bytes of a posted body.
const BODY_BYTES: usize = 16 << 10;
/// Streams at a time; the other connections are left for requests.
const STREAMS: usize = 48;

/// A path that can be read.
pub struct Route {
    /// The path.
    pub path: &'static str,
    answer: fn(&Routes) -> Response<Reply>,
}

const fn route(path: &'static str, answer: fn(&Routes) -> Response<Reply>) -> Route {
    Route { path, answer }
}

/// The paths that can be read, but for the files of the page. docs/watching.md lists them.
pub const ROUTES: &[Route] = &[
    route("/events", Routes::events),
    route("/metrics", Routes::metrics),
    route("/healthz", |_| fresh(words(StatusCode::OK, "ok"))),
    route("/readyz", Routes::ready),
    route("/api/history", Routes::history),
    route("/api/choices", |_| json(StatusCode::OK, &choices())),
];

/// The answers of one server.
pub struct Routes {
    settings: Arc<Settings>,
    monitor: Monitor,
    streams: Arc<Semaphore>,
}

impl Routes {
    /// Answers about an array.
    pub fn new(settings: Arc<Settings>, monitor: Monitor) -> Routes {
        Routes { settings, monitor, streams: Arc::new(Semaphore::new(STREAMS)) }
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
        let route = ROUTES.iter().find(|route| route.path == path);
        match route {
            // A stream has no end, so it has no head alone.
            Some(route) if route.path != "/events" || request.method() == Method::GET => {
                (route.answer)(self)
            }
            _ => files::file(path, request.headers(), self.settings.charting)
                .unwrap_or_else(|| words(StatusCode::NOT_FOUND, "not found")),
        }
    }

    fn metrics(&self) -> Response<Reply> {
        let text = Bytes::from_owner(Shared(self.monitor.metrics()));
        fresh(complete(StatusCode::OK, metrics::CONTENT_TYPE, text))
    }

    fn history(&self) -> Response<Reply> {
        fresh(complete(StatusCode::OK, "application/json", self.monitor.history()))
    }

    /// Whether the data thread answers, and serves. (That the server lives, any answer shows.)
    fn ready(&self) -> Response<Reply> {
        let state = self.monitor.state();
        let status = match state.is_some_and(ArrayState::serves) {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        let silent = "the data thread has not answered for 5 s";
        fresh(words(status, state.map_or(silent, ArrayState::name)))
    }

    /// Each second as an event. A slow client misses seconds; nothing waits for it.
    fn events(&self) -> Response<Reply> {
        let Ok(place) = self.streams.clone().try_acquire_owned() else {
            return words(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
        };
        let (sender, events) = mpsc::channel(1);
        let mut latest = self.monitor.stream();
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
        let body = complete_body(request.into_body());
        let body = match tokio::time::timeout(self.settings.request_time, body).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return words(StatusCode::PAYLOAD_TOO_LARGE, "at most 16 KiB"),
            Err(_) => {
                return words(
                    StatusCode::REQUEST_TIMEOUT,
                    "request timed out before it was complete",
                );
            }
        };
        let (status, value) = change::change(&self.settings.control, command, &body).await;
        tracing::info!(target: "destage::http", command, %status, "command over HTTP");
        fresh(json(status, &value))
    }
}

/// The bytes of a body. They are copied: each piece that came keeps a buffer of several KiB.
async fn complete_body(body: Incoming) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let (mut body, mut bytes) = (Limited::new(body, BODY_BYTES), Vec::new());
    while let Some(piece) = body.frame().await {
        bytes.extend_from_slice(piece?.data_ref().map_or(&[], |data| &data[..]));
    }
    Ok(bytes)
}

/// What the page offers: the commands, policies and rates.
fn choices() -> serde_json::Value {
    use destage_engine::{policy::POLICIES, rate::RATES};
    let policies: Vec<&str> = POLICIES.iter().map(|policy| policy.entry.name).collect();
    let rates: Vec<&str> = RATES.iter().map(|rate| rate.entry.name).collect();
    let commands = COMMANDS.iter().filter(|entry| entry.about.http);
    let commands: Vec<_> = commands.map(|entry| change::described(&entry.about)).collect();
    serde_json::json!({ "policies": policies, "rates": rates, "commands": commands })
}

/// Text that is shared, as bytes.
struct Shared(Arc<str>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// An answer that clients must not cache.
fn fresh(mut response: Response<Reply>) -> Response<Reply> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn denied(why: &Denied) -> Response<Reply> {
    let (status, text) = match why {
        Denied::Host => {
            (StatusCode::MISDIRECTED_REQUEST, "this is not a name of the server: see --http-name")
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
