//! The handshake, byte by byte, written out from proto.md ("Fixed newstyle negotiation" and
//! "Option haggling").
#![allow(missing_docs)]

mod common;

use common::{Split, bytes, export, serve};
use destage_nbd::handshake::{Config, Reason, Step, Tls};
use destage_nbd::{Mode, wire};

const GREETING: &str = "4e42444d41474943 49484156454f5054 0003";
const OPT: &str = "49484156454f5054";
const REP: &str = "0003e889045565a9";

/// Sends client flags and options; the server's answer must be these bytes, however cut.
fn check_with(config: &Config, sent: &str, expected: &str) -> Vec<Step> {
    let stream = bytes(&format!("00000003 {}", sent.replace("OPT", OPT)));
    let expected = bytes(&format!("{GREETING} {}", expected.replace("REP", REP)));
    let (out, steps, _) = serve(config, &stream, Split::Whole);
    let text = String::from_utf8_lossy(&out);
    assert_eq!(out, expected, "{text}");
    for at in 0..=stream.len() {
        let (cut, cut_steps, _) = serve(config, &stream, Split::At(at));
        assert_eq!((cut, cut_steps), (expected.clone(), steps.clone()), "cut at {at}");
    }
    let (cut, cut_steps, _) = serve(config, &stream, Split::Bytes);
    assert_eq!((cut, &cut_steps), (expected, &steps));
    steps
}

fn check(sent: &str, expected: &str) -> Vec<Step> {
    check_with(&Config::single(export()), sent, expected)
}

#[test]
fn go_with_block_sizes_in_simple_mode() {
    let steps = check(
        "OPT 00000007 0000000c 00000004 'disk' 0001 0003",
        "REP 00000007 00000003 0000000c 0000 0000000000100000 0d6d
         REP 00000007 00000003 0000000e 0003 00000001 00001000 02000000
         REP 00000007 00000001 00000000",
    );
    let [Step::Transmission { export: 0, session }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((session.size, session.mode, session.flags), (1 << 20, Mode::Simple, 0x0d6d));
    assert!(session.contexts.is_empty());
}

#[test]
fn info_gives_all_that_is_asked_and_goes_on() {
    let sent = "OPT 00000006 00000010 00000004 'disk' 0003 0001 0002 0063
                OPT 00000002 00000000";
    let steps = check(
        sent,
        "REP 00000006 00000003 0000000c 0000 0000000000100000 0d6d
         REP 00000006 00000003 00000006 0001 'disk'
         REP 00000006 00000003 00000008 0002 'a disk'
         REP 00000006 00000001 00000000
         REP 00000002 00000001 00000000",
    );
    let option = Step::Option { option: wire::NBD_OPT_INFO, reply: wire::NBD_REP_ACK };
    assert_eq!(steps, [option, Step::Aborted]);
}

#[test]
fn structured_replies_and_contexts_before_go() {
    let sent = "OPT 00000008 00000000
        OPT 0000000a 00000031 00000004 'disk' 00000002 0000000f 'base:allocation'
            0000000e 'destage:absent'
        OPT 00000007 0000000a 00000000 0002 0001 0000";
    let steps = check(
        sent,
        "REP 00000008 00000001 00000000
         REP 0000000a 00000004 00000013 00000001 'base:allocation'
         REP 0000000a 00000001 00000000
         REP 00000007 00000003 0000000c 0000 0000000000100000 0ded
         REP 00000007 00000003 00000006 0001 'disk'
         REP 00000007 00000001 00000000",
    );
    let Step::Transmission { session, .. } = &steps[2] else { panic!("{steps:?}") };
    assert_eq!(session.mode, Mode::Structured);
    let names: Vec<_> = session.contexts.iter().map(|it| (it.id, it.name.as_str())).collect();
    assert_eq!(names, [(1, "base:allocation")]);
}

#[test]
fn extended_headers_exclude_structured_replies() {
    let steps = check(
        "OPT 0000000b 00000000 OPT 00000008 00000000 OPT 0000000b 00000000
         OPT 00000007 0000000a 00000004 'disk' 0000",
        "REP 0000000b 00000001 00000000
         REP 00000008 8000000a 00000023 'extended headers are already in use'
         REP 0000000b 80000003 00000012 'already negotiated'
         REP 00000007 00000003 0000000c 0000 0000000000100000 1ded
         REP 00000007 00000001 00000000",
    );
    let Step::Transmission { session, .. } = &steps[3] else { panic!("{steps:?}") };
    assert_eq!(session.mode, Mode::Extended);
}

#[test]
fn list_meta_contexts_by_all_by_wildcard_and_by_name() {
    let structured = "OPT 00000008 00000000";
    let both = "REP 00000009 00000004 00000013 00000000 'base:allocation'
                REP 00000009 00000004 00000011 00000000 'destage:dirty'";
    check(
        &format!("{structured} OPT 00000009 0000000c 00000004 'disk' 00000000"),
        &format!("REP 00000008 00000001 00000000 {both} REP 00000009 00000001 00000000"),
    );
    check(
        &format!(
            "{structured} OPT 00000009 0000001d 00000004 'disk' 00000002
             00000005 'base:' 00000004 'base'"
        ),
        "REP 00000008 00000001 00000000
         REP 00000009 00000004 00000013 00000000 'base:allocation'
         REP 00000009 00000001 00000000",
    );
    // Part of a name is neither.
    check(
        &format!("{structured} OPT 00000009 00000014 00000004 'disk' 00000001 00000004 'base'"),
        "REP 00000008 00000001 00000000 REP 00000009 00000001 00000000",
    );
    // A wildcard selects nothing in SET.
    check(
        &format!("{structured} OPT 0000000a 00000015 00000004 'disk' 00000001 00000005 'base:'"),
        "REP 00000008 00000001 00000000 REP 0000000a 00000001 00000000",
    );
    check(
        "OPT 00000009 0000000c 00000004 'disk' 00000000",
        "REP 00000009 80000003 00000022 'negotiate structured replies first'",
    );
}

#[test]
fn list_names_and_descriptions() {
    let mut config = Config::single(export());
    config.exports.push(export());
    config.exports[1].name = "b".to_string();
    config.exports[1].description.clear();
    config.exports.push(export());
    config.exports[2].tls_only = true;
    check_with(
        &config,
        "OPT 00000003 00000000 OPT 00000003 00000001 00",
        "REP 00000003 00000002 0000000e 00000004 'disk' 'a disk'
         REP 00000003 00000002 00000005 00000001 'b'
         REP 00000003 00000001 00000000
         REP 00000003 80000003 00000010 'LIST has no data'",
    );
}

#[test]
fn export_name_with_and_without_zeroes() {
    let config = Config::single(export());
    let option = format!("{OPT} 00000001 00000004 'disk'");
    let answer = format!("{GREETING} 0000000000100000 0d6d");
    let (out, steps, rest) =
        serve(&config, &bytes(&format!("00000003 {option} 2560")), Split::Bytes);
    assert_eq!(out, bytes(&answer));
    assert!(matches!(steps[..], [Step::Transmission { export: 0, .. }]));
    assert_eq!(rest, [0x25, 0x60], "what follows is left to the decoder of requests");
    for flags in ["00000001", "00000000"] {
        let (out, ..) = serve(&config, &bytes(&format!("{flags} {option}")), Split::Whole);
        let zeroes = "00".repeat(124);
        assert_eq!(out, bytes(&format!("{answer} {zeroes}")));
    }
}

#[test]
fn errors_leave_the_handshake_in_step() {
    let steps = check(
        "OPT 00000063 00000003 'xyz'
         OPT 00000004 00000000
         OPT 00000007 00000005 00000004 'd'
         OPT 00000006 0000000a 00000004 'none' 0000
         OPT 00000008 00000001 00
         OPT 00000007 0000000a 00000004 'disk' 0001
         OPT 00000007 0000000b 00000004 'disk' 0000 00
         OPT 00000007 0000000a 00000004 ff69736b 0000
         OPT 00000007 0000000a 00000004 'd' 00 'sk' 0000
         OPT 00000005 00000000
         OPT 00000002 00000000",
        "REP 00000063 80000001 0000000e 'unknown option'
         REP 00000004 80000001 0000000e 'unknown option'
         REP 00000007 80000003 00000015 'malformed option data'
         REP 00000006 80000006 0000000e 'no such export'
         REP 00000008 80000003 00000016 'the option has no data'
         REP 00000007 80000003 00000015 'malformed option data'
         REP 00000007 80000003 00000015 'malformed option data'
         REP 00000007 80000003 00000015 'malformed option data'
         REP 00000007 80000003 00000015 'malformed option data'
         REP 00000005 80000002 0000001e 'this server does not offer TLS'
         REP 00000002 00000001 00000000",
    );
    assert_eq!(steps.last(), Some(&Step::Aborted));
}

#[test]
fn too_long_is_read_over() {
    let mut config = Config::single(export());
    config.limits.option_bytes = 16;
    config.limits.skip_bytes = 32;
    let junk = "61".repeat(32);
    check_with(
        &config,
        &format!("OPT 00000007 00000020 {junk} OPT 00000002 00000000"),
        "REP 00000007 80000009 00000016 'the option is too long'
         REP 00000002 00000001 00000000",
    );
    // One that is too long selects nothing, as any that fails.
    let mut roomy = config.clone();
    roomy.limits.option_bytes = 31;
    let set = "OPT 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
    let long = format!("OPT 0000000a 00000020 {junk}");
    let go = "OPT 00000007 0000000a 00000004 'disk' 0000";
    let sent = format!("00000003 OPT 00000008 00000000 {set} {long} {go}").replace("OPT", OPT);
    let (_, steps, _) = serve(&roomy, &bytes(&sent), Split::Bytes);
    let Some(Step::Transmission { session, .. }) = steps.last() else { panic!("{steps:?}") };
    assert!(session.contexts.is_empty());
    let longer = bytes(&format!("00000003 {OPT} 00000007 00000021"));
    let (_, steps, _) = serve(&config, &longer, Split::Bytes);
    assert_eq!(steps, [Step::HangUp(Reason::OptionTooLong)]);
    let name = bytes(&format!("00000003 {OPT} 00000001 00000011"));
    let (_, steps, _) = serve(&config, &name, Split::Bytes);
    assert_eq!(steps, [Step::HangUp(Reason::ExportName)]);

    let config = Config::single(export());
    let name = "61".repeat(4097);
    check_with_whole(
        &config,
        &format!("OPT 00000007 00001007 00001001 {name} 0000"),
        "REP 00000007 80000009 0000001b 'a string is over 4096 bytes'",
    );
}

fn check_with_whole(config: &Config, sent: &str, expected: &str) {
    let stream = bytes(&format!("00000003 {}", sent.replace("OPT", OPT)));
    let (out, ..) = serve(config, &stream, Split::Random(1));
    assert_eq!(out, bytes(&format!("{GREETING} {}", expected.replace("REP", REP))));
}

#[test]
fn hang_ups() {
    let config = Config::single(export());
    for (sent, reason) in [
        ("00000004", Reason::ClientFlags),
        ("80000003", Reason::ClientFlags),
        ("00000003 49484156454f5055 00000003 00000000", Reason::Magic),
        ("00000002 OPT 00000003 00000000", Reason::NotFixedNewstyle),
        ("00000003 OPT 00000001 00000004 'none'", Reason::ExportName),
        ("00000003 OPT 00000001 00000001 ff", Reason::ExportName),
        ("00000003 OPT 0000000b 00000000 OPT 00000001 00000004 'disk'", Reason::ExportName),
        ("00000003 OPT 00000007 ffffffff", Reason::OptionTooLong),
    ] {
        for split in [Split::Whole, Split::Bytes, Split::Random(7)] {
            let (_, steps, _) = serve(&config, &bytes(&sent.replace("OPT", OPT)), split);
            assert_eq!(steps.last(), Some(&Step::HangUp(reason)), "{sent}");
        }
    }
    let mut config = config;
    config.limits.options = 3;
    let sent = format!("00000003 {}", format!("{OPT} 00000003 00000000").repeat(4));
    let (_, steps, _) = serve(&config, &bytes(&sent), Split::Whole);
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[3], Step::HangUp(Reason::TooManyOptions));
}

#[test]
fn tls_required() {
    let mut config = Config::single(export());
    config.tls = Tls::Required;
    let steps = check_with(
        &config,
        "OPT 00000007 0000000a 00000004 'disk' 0000
         OPT 00000063 00000000
         OPT 00000005 00000001 00
         OPT 00000005 00000000
         OPT 00000005 00000000
         OPT 00000007 0000000a 00000004 'disk' 0000",
        "REP 00000007 80000005 0000000f 'TLS is required'
         REP 00000063 80000005 0000000f 'TLS is required'
         REP 00000005 80000003 00000014 'STARTTLS has no data'
         REP 00000005 00000001 00000000
         REP 00000005 80000003 00000015 'TLS is already in use'
         REP 00000007 00000003 0000000c 0000 0000000000100000 0d6d
         REP 00000007 00000001 00000000",
    );
    assert!(matches!(steps[3], Step::StartTls) && matches!(steps[5], Step::Transmission { .. }));
    let (_, steps, _) =
        serve(&config, &bytes(&format!("00000003 {OPT} 00000001 00000004 'disk'")), Split::Whole);
    assert_eq!(steps, [Step::HangUp(Reason::ExportName)]);
}

#[test]
fn tls_forgets_what_was_negotiated_and_opens_what_needs_it() {
    let mut config = Config::single(export());
    config.tls = Tls::Offered;
    config.exports[0].tls_only = true;
    check_with(
        &config,
        "OPT 00000008 00000000
         OPT 00000007 0000000a 00000004 'disk' 0000
         OPT 00000005 00000000
         OPT 00000007 0000000a 00000004 'disk' 0000",
        "REP 00000008 00000001 00000000
         REP 00000007 80000005 00000018 'this export requires TLS'
         REP 00000005 00000001 00000000
         REP 00000007 00000003 0000000c 0000 0000000000100000 0d6d
         REP 00000007 00000001 00000000",
    );
}

#[test]
fn contexts_selected_before_tls_are_forgotten() {
    let mut config = Config::single(export());
    config.tls = Tls::Offered;
    let set = "OPT 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
    let sent = format!(
        "00000003 OPT 00000008 00000000 {set} OPT 00000005 00000000 OPT 00000008 00000000
         OPT 00000007 0000000a 00000004 'disk' 0000"
    );
    let (_, steps, _) = serve(&config, &bytes(&sent.replace("OPT", OPT)), Split::Random(3));
    let Some(Step::Transmission { session, .. }) = steps.last() else { panic!("{steps:?}") };
    assert_eq!((session.mode, session.contexts.len()), (Mode::Structured, 0));

    config.exports[0].tls_only = true;
    let name = bytes(&format!("00000003 {OPT} 00000001 00000004 'disk'"));
    let (_, steps, _) = serve(&config, &name, Split::Whole);
    assert_eq!(steps, [Step::HangUp(Reason::ExportName)]);
}

#[test]
fn minimum_block_size_must_be_asked_for() {
    let mut config = Config::single(export());
    config.exports[0].block.minimum = 512;
    let text = "ask for NBD_INFO_BLOCK_SIZE";
    check_with(
        &config,
        "OPT 00000007 0000000a 00000004 'disk' 0000
         OPT 00000006 0000000a 00000004 'disk' 0000
         OPT 00000007 0000000c 00000004 'disk' 0001 0003",
        &format!(
            "REP 00000007 80000008 0000001b '{text}'
             REP 00000006 00000003 0000000c 0000 0000000000100000 0d6d
             REP 00000006 00000001 00000000
             REP 00000007 00000003 0000000c 0000 0000000000100000 0d6d
             REP 00000007 00000003 0000000e 0003 00000200 00001000 02000000
             REP 00000007 00000001 00000000"
        ),
    );
}

#[test]
fn a_set_that_fails_or_names_another_export_selects_nothing() {
    let mut config = Config::single(export());
    config.exports.push(export());
    config.exports[1].name = "b".to_string();
    let set = "OPT 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
    let set_b = "OPT 0000000a 0000001c 00000001 'b' 00000001 0000000f 'base:allocation'";
    let bad = "OPT 0000000a 00000001 00";
    let go = "OPT 00000007 0000000a 00000004 'disk' 0000";
    for (options, expected) in [
        (vec![set, go], 1),
        (vec![set, set_b, go], 0),
        (vec![set_b, set, go], 1),
        (vec![set, bad, go], 0),
    ] {
        let sent = format!("00000003 OPT 00000008 00000000 {}", options.join(" "));
        let (_, steps, _) = serve(&config, &bytes(&sent.replace("OPT", OPT)), Split::Random(3));
        let Some(Step::Transmission { session, .. }) = steps.last() else { panic!("{steps:?}") };
        assert_eq!(session.contexts.len(), expected, "{sent}");
    }
}
