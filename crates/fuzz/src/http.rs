//! HTTP of the control page: whatever a client sends on a connection, each answer has a status that
//! the page knows, and no request changes anything without the token.

use destage_observe::Monitor;
use destage_observe::http::{Guard, Settings, serve_one};
use destage_server::array::{ArrayHandle, tap};
use destage_server::{Server, backends};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef";
/// Most bytes that a client sends.
const BYTES_MAX: usize = 32 << 10;
/// The limits on time end every connection before; the runtime's clock jumps.
const TIME_MAX: Duration = Duration::from_secs(7200);

/// A connection in memory: what the client sends, in pieces, and what it gets. Then it leaves, or
/// says nothing more.
struct Memory {
    input: Vec<u8>,
    at: usize,
    piece: usize,
    leaves: bool,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Read for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at == self.input.len() && !self.leaves {
            return Poll::Pending;
        }
        let rest = &self.input[self.at..];
        let count = rest.len().min(self.piece).min(into.remaining());
        into.put_slice(&rest[..count]);
        self.at += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A monitor whose array never answers.
fn monitor() -> Monitor {
    static MONITOR: OnceLock<Monitor> = OnceLock::new();
    let monitor = MONITOR.get_or_init(|| {
        let export = backends::export("disk", "", 1 << 20);
        let server = Server::bind(destage_server::Settings::new(export, Vec::new()));
        let remote = server.expect("nothing to listen on").remote();
        let (_, requests) = tap(16);
        let handle = ArrayHandle::new(remote);
        Monitor::start("tank", Default::default(), handle, requests).expect("a thread")
    });
    monitor.clone()
}

fn settings() -> Arc<Settings> {
    let guard = Guard::new(TOKEN.to_string(), vec!["array.example".to_string()]);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Arc::new(Settings::new(address, guard, "/nonexistent/tank.control".into()))
}

pub(crate) fn check(data: &[u8]) -> bool {
    let Some((bits, input)) = data.split_first() else { return false };
    let input = input[..input.len().min(BYTES_MAX)].to_vec();
    let (leaves, piece) = (bits & 128 != 0, usize::from(bits & 127));
    let piece = if piece == 0 { input.len().max(1) } else { piece };
    let output = Arc::default();
    let token = input.windows(TOKEN.len()).any(|bytes| bytes == TOKEN.as_bytes());
    let memory = Memory { input, at: 0, piece, leaves, output: Arc::clone(&output) };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(async {
        let served = serve_one(memory, settings(), monitor());
        tokio::time::timeout(TIME_MAX, served).await.expect("the connection ends");
    });
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    statuses(&output, token)
}

/// Whether the first answer is one of success, or of a command that found no array.
fn statuses(output: &[u8], token: bool) -> bool {
    let known = [
        "200", "202", "304", "400", "401", "403", "404", "405", "408", "409", "413", "414", "415",
        "421", "431", "503",
    ];
    let line = output.split(|byte| *byte == b'\r').next().unwrap_or_default();
    if line.is_empty() {
        return false;
    }
    let line = String::from_utf8_lossy(line);
    let status = line.split(' ').nth(1).unwrap_or_default();
    assert!(line.starts_with("HTTP/1.") && known.contains(&status), "{line}");
    // Commands reach the control socket, which is not there: a conflict.
    assert!(token || status != "409", "{line}: a command without the token");
    ["200", "304", "409", "503"].contains(&status)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let get =
        |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let post = |path: &str, body: &str| {
        format!(
            "POST /api/{path} HTTP/1.1\r\nHost: 127.0.0.1:9\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let requests = [
        get("/", "Accept-Encoding: gzip\r\n"),
        get("/page.js", "If-None-Match: \"0\"\r\n"),
        get("/metrics", "Connection: close\r\n"),
        get("/events", ""),
        get("/api/history", "") + &get("/healthz", ""),
        get("/readyz", ""),
        get("/readyz", "Host: evil.example\r\n"),
        get("/none?a=b", ""),
        "HEAD / HTTP/1.0\r\nHost: array.example:80\r\n\r\n".to_string(),
        "PUT / HTTP/1.1\r\nHost: [::1]\r\n\r\n".to_string(),
        post("unlock", "{}"),
        post("set", "{\"policy\":\"wow\"}"),
        post("scrub", "{\"limit\":1}"),
        post("none", "[]"),
        "POST /api/flush HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Authorization: Bearer no\r\nOrigin: http://evil\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\n{}\r\n0\r\n\r\n"
            .to_string(),
        "POST /api/set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Authorization: Bearer 0123456789abcdef\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\n{}\r\n0\r\n\r\n"
            .to_string(),
    ];
    let pieces = [0u8, 0, 1, 5].into_iter().cycle();
    pieces.zip(&requests).map(|(piece, text)| [&[piece], text.as_bytes()].concat()).collect()
}
