//! The client's handshake, byte by byte, written out from proto.md.
#![allow(missing_docs)]

mod common;

use common::{Split, bytes};
use destage_nbd::client::{Failure, Handshake, Options, Step};
use destage_nbd::{BlockSizes, Context, Mode, Session, wire};

const GREETING: &str = "4e42444d41474943 49484156454f5054 0003";
const OPT: &str = "49484156454f5054";
const REP: &str = "0003e889045565a9";
/// EXTENDED_HEADERS, STRUCTURED_REPLY, SET_META_CONTEXT and GO as the client sends them.
const EXTENDED: &str = "OPT 0000000b 00000000";
const STRUCTURED: &str = "OPT 00000008 00000000";
const SET: &str = "OPT 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
const GO: &str = "OPT 00000007 0000000c 00000004 'disk' 0001 0003";
const NAME: &str = "OPT 00000001 00000004 'disk'";
const ABORT: &str = "OPT 00000002 00000000";
const GONE: &str = "REP 00000007 00000003 0000000c 0000 0000000000100000 0001
                    REP 00000007 00000001 00000000";

fn run(options: &Options, received: &[u8], split: Split) -> (Vec<u8>, Step, usize) {
    let (mut out, mut client) = (Vec::new(), Handshake::new(options.clone()));
    let (mut last, mut taken) = (Step::NeedMore, 0);
    for piece in split.pieces(received) {
        let mut rest = piece;
        loop {
            let (count, step) = client.feed(rest, &mut out);
            rest = &rest[count..];
            taken += count;
            last = step;
            match last {
                Step::NeedMore => break,
                Step::StartTls => client.tls_started(&mut out),
                _ => return (out, last, taken),
            }
        }
    }
    (out, last, taken)
}

/// The server's bytes make the client send these, however cut.
fn check(options: &Options, received: &str, sent: &str) -> Step {
    let stream = bytes(&received.replace("REP", REP));
    let expected = bytes(&sent.replace("OPT", OPT));
    let (out, step, taken) = run(options, &stream, Split::Whole);
    assert_eq!(out, expected, "{}", String::from_utf8_lossy(&out));
    for at in 0..=stream.len() {
        let cut = run(options, &stream, Split::At(at));
        assert_eq!(cut, (out.clone(), step.clone(), taken), "cut at {at}");
    }
    step
}

fn session(mode: Mode, contexts: Vec<Context>) -> Step {
    let (export, block) = ("disk".to_string(), BlockSizes::default());
    Step::Transmission(Session { export, size: 1 << 20, flags: 1, block, mode, contexts })
}

fn base(id: u32) -> Vec<Context> {
    vec![Context { id, name: "base:allocation".to_string() }]
}

#[test]
fn all_is_offered() {
    let received = format!(
        "{GREETING} REP 0000000b 00000001 00000000
         REP 0000000a 00000004 00000013 00000009 'base:allocation'
         REP 0000000a 00000001 00000000
         REP 00000007 00000003 0000000e 0003 00000200 00001000 00100000
         REP 00000007 00000003 00000006 0001 'disk'
         {GONE}"
    );
    let sent = format!("00000003 {EXTENDED} {SET} {GO}");
    let Step::Transmission(session) = check(&Options::new("disk"), &received, &sent) else {
        panic!("no session")
    };
    assert_eq!((session.mode, session.size, session.flags), (Mode::Extended, 1 << 20, 1));
    assert_eq!(session.contexts, base(9));
    let block = BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 20 };
    assert_eq!(session.block, block);
}

#[test]
fn less_and_less_is_offered() {
    let unsup = |option: &str| format!("REP {option} 80000001 00000000");
    let extended = unsup("0000000b");
    let received = format!(
        "{GREETING} {extended} REP 00000008 00000001 00000000
         REP 0000000a 00000001 00000000 {GONE}"
    );
    let sent = format!("00000003 {EXTENDED} {STRUCTURED} {SET} {GO}");
    let step = check(&Options::new("disk"), &received, &sent);
    assert_eq!(step, session(Mode::Structured, Vec::new()));

    let set = unsup("0000000a");
    let received = format!("{GREETING} {extended} REP 00000008 00000001 00000000 {set} {GONE}");
    let step = check(&Options::new("disk"), &received, &sent);
    assert_eq!(step, session(Mode::Structured, Vec::new()));

    let structured = unsup("00000008");
    let received = format!("{GREETING} {extended} {structured} {GONE}");
    let sent = format!("00000003 {EXTENDED} {STRUCTURED} {GO}");
    let step = check(&Options::new("disk"), &received, &sent);
    assert_eq!(step, session(Mode::Simple, Vec::new()));

    let go = unsup("00000007");
    let received = format!("{GREETING} {extended} {structured} {go} 0000000000100000 0001");
    let sent = format!("00000003 {EXTENDED} {STRUCTURED} {GO} {NAME}");
    let step = check(&Options::new("disk"), &received, &sent);
    assert_eq!(step, session(Mode::Simple, Vec::new()));

    let zeroes = "00".repeat(124);
    let received = format!("4e42444d41474943 49484156454f5054 0000 0000000000100000 0001 {zeroes}");
    let step = check(&Options::new("disk"), &received, &format!("00000000 {NAME}"));
    assert_eq!(step, session(Mode::Simple, Vec::new()));
}

#[test]
fn tls_comes_first_or_not_at_all() {
    let mut options = Options::new("disk");
    options.tls = true;
    options.mode = Mode::Simple;
    let received = format!("{GREETING} REP 00000005 00000001 00000000 {GONE}");
    let step = check(&options, &received, &format!("00000003 OPT 00000005 00000000 {GO}"));
    assert_eq!(step, session(Mode::Simple, Vec::new()));
    let received = format!("{GREETING} REP 00000005 80000002 00000002 'no'");
    let sent = format!("00000003 OPT 00000005 00000000 {ABORT}");
    let step = check(&options, &received, &sent);
    let (option, error) = (wire::NBD_OPT_STARTTLS, wire::NBD_REP_ERR_POLICY);
    assert_eq!(step, Step::Failed(Failure::Refused { option, error, text: "no".to_string() }));
    let plain = "4e42444d41474943 49484156454f5054 0002";
    assert_eq!(check(&options, plain, ""), Step::Failed(Failure::NotFixedNewstyle));
}

#[test]
fn failures() {
    let mut options = Options::new("disk");
    options.mode = Mode::Simple;
    let go = format!("00000003 {GO}");
    let refused = |error: u32, text: &str| {
        let text = text.to_string();
        Failure::Refused { option: wire::NBD_OPT_GO, error, text }
    };
    let aborted = format!("{go} {ABORT}");
    for (received, sent, failure) in [
        ("4e42444d41474944 49484156454f5054 0003", "", Failure::NotNbd),
        ("4e42444d41474943 0000420281861253 0000", "", Failure::Oldstyle),
        (
            "GREETING REP 00000007 80000006 00000005 'where'",
            &aborted,
            refused(0x8000_0006, "where"),
        ),
        ("GREETING REP 00000007 80000005 00000000", &aborted, refused(0x8000_0005, "")),
        ("GREETING 0003e889045565aa 00000007 00000001 00000000", &go, Failure::Malformed),
        (
            "GREETING REP 00000006 00000003 0000000c 0000 0000000000100000 0001
             REP 00000006 00000001 00000000",
            &go,
            Failure::Malformed,
        ),
        ("GREETING REP 00000007 00000001 00000000", &go, Failure::Malformed),
        ("GREETING REP 00000007 00000001 00000001 00", &go, Failure::Malformed),
        ("GREETING REP 00000007 00000002 00000000", &go, Failure::Malformed),
        ("GREETING REP 00000007 00000003 ffffffff", &go, Failure::Malformed),
        ("GREETING REP 00000007 00000003 00000001 00", &go, Failure::Malformed),
        (
            "GREETING REP 00000007 00000003 0000000b 0000 0000000000100000 00",
            &go,
            Failure::Malformed,
        ),
        (
            "GREETING REP 00000007 00000003 0000000e 0003 00000003 00001000 00100000",
            &go,
            Failure::Malformed,
        ),
    ] {
        let step = check(&options, &received.replace("GREETING", GREETING), sent);
        assert_eq!(step, Step::Failed(failure), "{received}");
    }
    options.export = "a".repeat(4097);
    assert_eq!(check(&options, GREETING, ""), Step::Failed(Failure::Options));
}

#[test]
fn a_server_that_requires_tls_is_left_at_once() {
    let received = format!("{GREETING} REP 0000000b 80000005 00000000");
    let sent = format!("00000003 {EXTENDED} {ABORT}");
    let step = check(&Options::new("disk"), &received, &sent);
    let (option, error) = (wire::NBD_OPT_EXTENDED_HEADERS, wire::NBD_REP_ERR_TLS_REQD);
    assert_eq!(step, Step::Failed(Failure::Refused { option, error, text: String::new() }));
}

#[test]
fn a_server_says_only_so_much() {
    let context = |id: u32| format!("REP 0000000a 00000004 00000007 {id:08x} 'a:b'");
    let last = "REP 0000000a 00000001 00000000";
    let begin = format!("{GREETING} REP 0000000b 00000001 00000000");
    let run_with = |middle: String| {
        let received = format!("{begin} {middle} {last} {GONE}").replace("REP", REP);
        run(&Options::new("disk"), &bytes(&received), Split::Random(5)).1
    };
    let many = |count: u32| (0..count).map(context).collect::<Vec<_>>().join(" ");
    assert!(matches!(run_with(many(32)), Step::Transmission(_)));
    assert_eq!(run_with(many(33)), Step::Failed(Failure::Malformed), "too many contexts");
    assert_eq!(run_with(context(7).repeat(2)), Step::Failed(Failure::Malformed), "one id twice");
    let info = "REP 00000007 00000003 00000006 0001 'disk'";
    let run_infos = |count| {
        let infos = [info].repeat(count).join(" ");
        let received = format!("{begin} {last} {infos} {GONE}").replace("REP", REP);
        run(&Options::new("disk"), &bytes(&received), Split::Random(5)).1
    };
    assert!(matches!(run_infos(254), Step::Transmission(_)));
    assert_eq!(run_infos(255), Step::Failed(Failure::Malformed), "too many replies");
}
