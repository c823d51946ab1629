//! A server on a thread of its own, in a temporary folder.
#![allow(dead_code, missing_docs, reason = "each test file uses its own part")]

use destage_block::{Answer, Backend, Driver, Payload, Request};
use destage_client::Client;
use destage_nbd::Mode;
use destage_nbd::client::{Address, Uri};
use destage_nbd::request::Command;
use destage_server::backends::{Ram, export};
use destage_server::{FrontEnd, Listen, Port, Remote, Server, Settings};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running server; stopped when dropped.
pub struct Running {
    pub folder: tempfile::TempDir,
    pub remote: Remote,
    pub addresses: Vec<Listen>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

/// Serves a backend of this size on `nbd.sock`, with changed settings.
pub fn serve<B: Backend<Port>>(
    size: u64,
    change: impl FnOnce(&mut Settings),
    backend: impl FnOnce() -> B + Send + 'static,
) -> Running {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("nbd.sock");
    let mut settings =
        Settings::new(export("disk", "test", size), vec![(FrontEnd::Nbd, Listen::Unix(socket))]);
    change(&mut settings);
    let server = Server::bind(settings).expect("listens");
    let (remote, addresses) = (server.remote(), server.addresses());
    let thread = std::thread::spawn(move || server.run(&mut backend()));
    Running { folder, remote, addresses, thread: Some(thread) }
}

/// Forgets every hundredth write.
#[derive(Default)]
pub struct Forgetful(Ram, u64);

impl<D: Driver> Backend<D> for Forgetful {
    fn request(&mut self, driver: &mut D, token: D::Token, request: Request, payload: Payload<'_>) {
        let write = matches!(request, Request::Write { .. });
        self.1 += u64::from(write);
        if write && self.1.is_multiple_of(100) {
            return driver.reply(token, Answer::Done);
        }
        self.0.request(driver, token, request, payload);
    }
}

/// A disk in memory.
pub fn ram(size: u64) -> Running {
    serve(size, |_| {}, Ram::default)
}

impl Running {
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    pub fn uri(&self) -> Uri {
        let address = Address::Unix(self.socket().to_str().expect("text").to_string());
        Uri { address, export: "disk".to_string(), tls: false, tls_hostname: None }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.uri(), Mode::Extended).expect("connects")
    }

    /// Ends it, which must go well.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        assert!(self.remote.stop());
        thread.join().expect("no panic").expect("no error");
    }

    /// Ends it at once, though a request waits for its answer.
    pub fn hurry(mut self) {
        let thread = self.thread.take().expect("it runs");
        assert!(self.remote.hurry());
        thread.join().expect("no panic").expect("no error");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn read(offset: u64, length: u32) -> Command {
    Command::Read { offset, length, dont_fragment: false }
}

pub fn write(offset: u64, length: usize) -> Command {
    Command::Write { offset, length: length as u32, fua: false }
}

/// A small generator of numbers.
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// The bytes of a handshake up to the transmission phase, simple replies.
pub fn opened(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).expect("connects");
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT");
    bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 4]);
    bytes.extend_from_slice(b"disk");
    stream.write_all(&bytes).expect("sent");
    let mut answer = [0; 18 + 10];
    stream.read_exact(&mut answer).expect("greeting and export");
    stream
}

/// Memory of this process.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("read");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// A request's header.
pub fn request(kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&0u16.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}
