//! HTTP for a served array: one thread, which asks nothing of the data thread.
//!
//! docs/server.md has the limits of a client, `guard.rs` who may ask what.

mod body;
mod change;
mod files;
mod guard;
mod places;
mod routes;

pub use guard::{Denied, Guard, new_token, read_token};
pub use routes::{ROUTES, Route};

use crate::monitor::Monitor;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use places::{Place, Places};
use routes::Routes;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// What is served, and its bounds.
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Let other machines in.
    pub allow_remote: bool,
    /// Who may ask what.
    pub guard: Guard,
    /// The control socket, to which changes go.
    pub control: PathBuf,
    /// The text of plotly.js; empty where the build has none, and the page draws no charts.
    pub charting: fn() -> &'static str,
    /// Most connections at a time; a new one takes the place of an idle one.
    pub connections: usize,
    /// Time for a request to arrive.
    pub request_time: Duration,
    /// Time in which a client must take some of an answer.
    pub answer_time: Duration,
    /// Time after which the server closes a connection.
    pub connection_time: Duration,
}

impl Settings {
    /// The usual bounds.
    pub fn new(address: SocketAddr, guard: Guard, control: PathBuf) -> Settings {
        Settings {
            address,
            allow_remote: false,
            guard,
            control,
            charting: || "",
            connections: 64,
            request_time: Duration::from_secs(10),
            answer_time: Duration::from_secs(20),
            connection_time: Duration::from_secs(3600),
        }
    }
}

/// Why the page cannot be served.
#[derive(Debug, Error)]
pub enum HttpError {
    /// Other machines can reach the address.
    #[error(
        "--http {0}: other machines can reach it, and what is shown needs no token: use 127.0.0.1 \
         and a proxy with TLS, or give --allow-remote-http"
    )]
    Open(SocketAddr),
    /// The address cannot be used.
    #[error("--http {0}: {1}")]
    System(SocketAddr, std::io::Error),
}

/// Begins to serve; the thread ends with the process. Returns the address, with its port.
pub fn serve(settings: Settings, monitor: Monitor) -> Result<SocketAddr, HttpError> {
    let address = settings.address;
    if !address.ip().is_loopback() && !settings.allow_remote {
        return Err(HttpError::Open(address));
    }
    let failed = |error| HttpError::System(address, error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(change::COMMANDS_MAX)
        .build()
        .map_err(failed)?;
    let thread = std::thread::Builder::new().name("http".to_string());
    let run = move || {
        if let Err(error) = runtime.block_on(accept(listener, settings, monitor)) {
            tracing::error!(target: "destage::http", "HTTP server stopped: {error}");
        }
    };
    thread.spawn(run).map_err(failed)?;
    Ok(address)
}

/// How long the server accepts nothing after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(200);

async fn accept(
    listener: TcpListener,
    settings: Settings,
    monitor: Monitor,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Places::new(settings.connections);
    let settings = Arc::new(settings);
    let routes = Arc::new(Routes::new(settings.clone(), monitor));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(target: "destage::http", "accept: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // All places are busy: the new connection is closed at once.
        let Some(place) = places.take() else { continue };
        let _ = stream.set_nodelay(true);
        // This holds also when the client's window is closed.
        let most = settings.answer_time.as_millis() as u32;
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, most);
        let (routes, settings) = (routes.clone(), settings.clone());
        let task = tokio::spawn(converse(TokioIo::new(stream), routes, settings, place.clone()));
        place.served_by(task.abort_handle());
    }
}

/// Serves one connection until it ends.
async fn converse(
    stream: impl Read + Write + Unpin + Send + 'static,
    routes: Arc<Routes>,
    settings: Arc<Settings>,
    place: Arc<Place>,
) {
    let held = place.clone();
    let service = service_fn(move |request| {
        let (routes, place) = (routes.clone(), place.clone());
        async move {
            place.asks();
            let answer = routes.answer(request).await;
            // A stream stays busy; the number of streams has its own limit.
            if !answer.as_ref().is_ok_and(|answer| answer.body().is_stream()) {
                place.rests();
            }
            answer
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.request_time)
        .max_buf_size(16 << 10)
        .max_headers(64)
        .serve_connection(stream, service);
    let ended = tokio::time::timeout(settings.connection_time, connection).await;
    if let Ok(Err(error)) = ended {
        tracing::debug!(target: "destage::http", "connection: {error}");
    }
    drop(held);
}

/// Serves one connection over any stream, on the caller's runtime.
///
/// # Panics
/// If the settings allow no connection.
pub async fn serve_one(
    stream: impl Read + Write + Unpin + Send + 'static,
    settings: Arc<Settings>,
    monitor: Monitor,
) {
    let place = Places::new(settings.connections).take().expect("a place");
    let routes = Arc::new(Routes::new(settings.clone(), monitor));
    converse(stream, routes, settings, place).await;
}
