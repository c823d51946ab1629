//! The client, when its server ends or hangs.

mod common;

use common::{ram, read, serve};
use destage_block::{Backend, Payload, Request};
use destage_client::{Client, ClientError};
use destage_nbd::Mode;
use destage_server::{Port, Token};
use std::os::unix::net::UnixListener;
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

#[test]
fn a_server_that_does_not_greet_is_not_waited_for() {
    let server = ram(1 << 20);
    let uri = server.uri();
    drop(server);
    let destage_nbd::client::Address::Unix(path) = &uri.address else { panic!("a Unix socket") };
    std::fs::create_dir_all(std::path::Path::new(path).parent().expect("a folder")).expect("made");
    let _hangs = UnixListener::bind(path).expect("bound");
    let error = Client::connect_within(&uri, Mode::Structured, SHORT).err().expect("no greeting");
    assert_eq!(error.to_string(), "the server did not answer for 0.05 s");
    std::fs::remove_dir_all(std::path::Path::new(path).parent().expect("a folder")).expect("gone");
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
    server.remote.hurry();
}
