//! The client, when its server ends or hangs.

mod common;

use common::{ram, read, serve};
use destage_block::{Backend, Payload, Request};
use destage_client::{Client, ClientError};
use destage_nbd::Mode;
use destage_nbd::client::{Address, Uri};
use destage_server::{Port, Token};
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(50);

/// Answers nothing.
struct Hangs;

impl Backend<Port> for Hangs {
    fn request(&mut self, _: &mut Port, _: Token, _: Request, _: Payload<'_>) {}
}

#[test]
fn after_its_server_has_gone_every_call_fails() {
    let mut server = ram(1 << 20);
    let mut client = server.client();
    client.call(read(0, 512), &[]).expect("READ");
    server.stop();
    for _ in 0..3 {
        let error = client.call(read(0, 512), &[]).expect_err("no server");
        assert!(matches!(error, ClientError::Closed | ClientError::Io(_)), "{error}");
    }
}

/// A server that passes on this many bytes of another one, and then closes the connection.
fn cut_after(path: &Path, server: &Path, most: usize) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).expect("bound");
    let mut to = UnixStream::connect(server).expect("connects");
    std::thread::spawn(move || {
        let (mut from, _) = listener.accept().expect("a client");
        let (mut asks, mut asked) =
            (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
        let asking = std::thread::spawn(move || {
            let _ = std::io::copy(&mut asks, &mut asked);
            let _ = asked.shutdown(Shutdown::Both);
        });
        let mut answers = (&mut to).take(most as u64);
        let _ = std::io::copy(&mut answers, &mut from);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
        asking.join().expect("ended");
    })
}

#[test]
fn a_connection_that_ends_after_any_number_of_bytes_gives_errors() {
    let server = ram(1 << 20);
    let path = server.folder.path().join("cut.sock");
    let mut uri = server.uri();
    uri.address = Address::Unix(path.to_str().expect("text").to_string());
    let (mut no_session, mut no_reads, mut all) = (0, 0, 0);
    for most in (0..2600).step_by(13) {
        let cut = cut_after(&path, &server.socket(), most);
        match Client::connect_within(&uri, Mode::Structured, Duration::from_secs(20)) {
            Err(_) => no_session += 1,
            Ok(mut client) => {
                let read = (0..4).map(|_| client.call(read(0, 512), &[]).is_ok());
                let read: Vec<bool> = read.collect();
                assert!(read.is_sorted_by(|a, b| a >= b), "{most} bytes: {read:?}");
                no_reads += usize::from(!read[0]);
                all += usize::from(read[3]);
            }
        }
        cut.join().expect("no panic");
        std::fs::remove_file(&path).expect("gone");
    }
    assert!(no_session > 0 && no_reads > 0 && all > 0, "{no_session}, {no_reads}, {all}");
}

#[test]
fn a_server_that_does_not_greet_is_not_waited_for() {
    let server = ram(1 << 20);
    let uri = server.uri();
    drop(server);
    let Address::Unix(path) = &uri.address else { panic!("a Unix socket") };
    let folder = Path::new(path).parent().expect("a folder");
    std::fs::create_dir_all(folder).expect("made");
    let _hangs = UnixListener::bind(path).expect("bound");
    let error = Client::connect_within(&uri, Mode::Structured, SHORT).err().expect("no greeting");
    assert_eq!(error.to_string(), "the server did not answer for 0.05 s");
    std::fs::remove_dir_all(folder).expect("gone");
}

/// Its queue of connections is full: connecting, too, has a limit.
#[test]
fn a_server_that_accepts_nothing_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("hangs");
    let hangs = UnixListener::bind(&path).expect("bound");
    rustix::net::listen(&hangs, 0).expect("a short queue");
    let _waits = UnixStream::connect(&path).expect("the first one waits");
    let export = String::new();
    let address = Address::Unix(path.to_str().expect("plain").to_string());
    let uri = Uri { address, export, tls: false, tls_hostname: None };
    let error = Client::connect_within(&uri, Mode::Structured, SHORT).err().expect("no room");
    assert!(matches!(error, ClientError::Silent(SHORT)), "{error}");
}

#[test]
fn a_call_that_is_not_answered_ends_and_so_do_later_ones() {
    let server = serve(1 << 20, |_| {}, || Hangs);
    let mut client =
        Client::connect_within(&server.uri(), Mode::Structured, SHORT).expect("connects");
    let error = client.call(read(0, 512), &[]).expect_err("no answer");
    assert!(matches!(error, ClientError::Silent(SHORT)), "{error}");
    let error = client.call(read(0, 512), &[]).expect_err("no further request");
    assert!(matches!(error, ClientError::Closed), "{error}");
    drop(client);
    server.hurry();
}
