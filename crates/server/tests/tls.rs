//! TLS with certificates on both sides.
#![allow(missing_docs)]

mod common;

use common::{Running, serve};
use destage_nbd::client::{Conversation, Handshake, Options, Reply, Step};
use destage_nbd::request::{Command, Request};
use destage_nbd::{Session, wire};
use destage_server::backends::Ram;
use destage_server::{FrontEnd, Listen, tls_config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Writes ca.pem, and a certificate and key for a server, a client, and a stranger.
fn certificates(folder: &Path) {
    let authority = |name: &str| {
        let mut params = rcgen::CertificateParams::new(vec![name.to_string()]).expect("a name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        (certificate.pem(), rcgen::Issuer::new(params, key))
    };
    let (ca, issuer) = authority("test authority");
    let (_, other) = authority("other authority");
    std::fs::write(folder.join("ca.pem"), ca).expect("written");
    for (name, issuer) in [("server", &issuer), ("client", &issuer), ("stranger", &other)] {
        let params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).expect("a name");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, issuer).expect("signed");
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    }
}

fn client_config(folder: &Path, name: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(folder.join("ca.pem")).expect("a certificate");
    roots.add(ca).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match name {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let certificate = CertificateDer::from_pem_file(folder.join(format!("{name}.pem")));
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key")));
            let chain = vec![certificate.expect("a certificate")];
            builder.with_client_auth_cert(chain, key.expect("a key")).expect("fits")
        }
    })
}

fn start(folder: &Path) -> Running {
    certificates(folder);
    let pem = |name: &str| folder.join(name);
    let tls = tls_config(&pem("server.pem"), &pem("server.key"), Some(&pem("ca.pem")));
    let tls = tls.expect("the parts fit");
    let change = |settings: &mut destage_server::Settings| {
        settings.tls = Some(tls);
        settings.listen = vec![(FrontEnd::Nbd, "tcp:127.0.0.1:0".parse().expect("an address"))];
    };
    serve(128 << 20, change, Ram::default)
}

fn tcp(server: &Running) -> TcpStream {
    let Listen::Tcp(address) = &server.addresses[0] else { panic!("TCP only") };
    TcpStream::connect(address).expect("connects")
}

/// One read's worth of the handshake.
fn step(stream: &mut impl Read, handshake: &mut Handshake, out: &mut Vec<u8>) -> Option<Step> {
    let mut input = [0; 4096];
    let count = stream.read(&mut input).ok().filter(|count| *count > 0)?;
    Some(handshake.feed(&input[..count], out).1)
}

/// Opens the export inside TLS, or says that it cannot be.
fn open(server: &Running, config: Arc<ClientConfig>) -> Option<(Tls, Session)> {
    let mut plain = tcp(server);
    let mut options = Options::new("disk");
    options.tls = true;
    let (mut handshake, mut out) = (Handshake::new(options), Vec::new());
    while step(&mut plain, &mut handshake, &mut out)? != Step::StartTls {
        plain.write_all(&out).ok()?;
        out.clear();
    }
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = StreamOwned::new(ClientConnection::new(config, name).expect("TLS"), plain);
    handshake.tls_started(&mut out);
    loop {
        tls.write_all(&out).ok()?;
        out.clear();
        match step(&mut tls, &mut handshake, &mut out)? {
            Step::Transmission(session) => return Some((tls, session)),
            Step::Failed(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
}

#[test]
fn known_clients_are_served_and_others_are_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path());
    assert!(open(&server, client_config(folder.path(), None)).is_none(), "no certificate");
    let stranger = client_config(folder.path(), Some("stranger"));
    assert!(open(&server, stranger).is_none(), "a certificate of another authority");
    let known = client_config(folder.path(), Some("client"));
    let (mut tls, session) = open(&server, known).expect("a known client");
    let mut conversation = Conversation::new(&session);
    let bytes: Vec<u8> = (0..20u32 << 20).map(|at| (at >> 5) as u8).collect();
    let length = bytes.len() as u32;
    let write = Command::Write { offset: 77, length, fua: true };
    let read = Command::Read { offset: 77, length, dont_fragment: false };
    let (mut got, mut input, mut ended) = (vec![0; bytes.len()], vec![0; 100_000], 0);
    for (cookie, command) in [(1, write), (2, read)] {
        let request = Request { cookie, command };
        let mut out = Vec::new();
        conversation.ask(&request, &mut out).expect("allowed");
        if cookie == 1 {
            out.extend_from_slice(&bytes);
        }
        tls.write_all(&out).expect("sent");
        tls.flush().expect("sent");
        while ended < cookie {
            let count = tls.read(&mut input).expect("replies");
            assert!(count > 0);
            let mut rest = &input[..count];
            loop {
                let (taken, reply) = conversation.next(rest);
                match reply {
                    Reply::NeedMore => break,
                    Reply::Data { offset, range, .. } => {
                        let at = (offset - 77) as usize;
                        got[at..at + range.len()].copy_from_slice(&rest[range]);
                    }
                    Reply::Done { cookie, errno } => {
                        assert_eq!(errno, None);
                        ended = cookie;
                    }
                    other => panic!("{other:?}"),
                }
                rest = &rest[taken..];
            }
        }
    }
    assert!(got == bytes);
    common::eventually("only one is left", || server.remote.connections() == 1);
}

#[test]
fn nothing_is_sent_in_the_clear_and_nonsense_ends_the_connection() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(folder.path());
    let (mut plain, mut out) = (tcp(&server), Vec::new());
    let mut handshake = Handshake::new(Options::new("disk"));
    let failure = loop {
        match step(&mut plain, &mut handshake, &mut out).expect("an answer") {
            Step::Failed(failure) => break failure,
            Step::NeedMore => plain.write_all(&out).expect("sent"),
            other => panic!("{other:?}"),
        }
        out.clear();
    };
    let text = format!("{failure:?}");
    assert!(text.contains(&wire::NBD_REP_ERR_TLS_REQD.to_string()), "{text}");
    // Nonsense where a TLS handshake should be.
    let mut plain = tcp(&server);
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT\x00\x00\x00\x05\x00\x00\x00\x00");
    bytes.extend_from_slice(&[0x5a; 5_000]);
    plain.write_all(&bytes).expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 200);
    drop(handshake);
    drop(plain);
    common::eventually("it is gone", || server.remote.connections() <= 1);
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    certificates(folder.path());
    let pem = |name: &str| folder.path().join(name);
    assert!(tls_config(&pem("server.pem"), &pem("client.key"), None).is_err());
    assert!(tls_config(&pem("server.key"), &pem("server.key"), None).is_err());
    assert!(tls_config(&pem("none.pem"), &pem("server.key"), None).is_err());
}
