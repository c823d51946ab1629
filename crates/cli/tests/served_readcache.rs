//! The read cache of an array as operators run it. Hits touch no member, and a read sees at once
//! what was written. Pages of a lost member count more. The cache changes while serving, `status`
//! shows it, and the server refuses an invalid choice with a reason.

mod common;

use common::array::{Array, status};
use common::fails;
use destage_client::Client;
use destage_nbd::Mode;
use destage_nbd::request::Command;
use destage_server::array::control::{Fail, ask};

const PAGE: usize = 4096;

fn client(array: &Array) -> Client {
    Client::connect(&array.uri().parse().expect("a URI"), Mode::Structured).expect("connects")
}

fn write(client: &mut Client, page: u64, bytes: &[u8]) {
    let (offset, length) = (page * PAGE as u64, bytes.len() as u32);
    client.call(Command::Write { offset, length, fua: false }, bytes).expect("WRITE");
}

fn read(client: &mut Client, page: u64, pages: usize) -> Vec<u8> {
    let (offset, length) = (page * PAGE as u64, (pages * PAGE) as u32);
    client.call(Command::Read { offset, length, dont_fragment: false }, &[]).expect("READ")
}

/// Member reads so far.
fn member_reads(array: &Array) -> u64 {
    status(array)["disk_reads"].as_u64().expect("a number")
}

#[test]
fn the_second_read_touches_no_member_and_new_bytes_are_seen() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--read-cache", "lru", "--read-cache-size", "1M", "--vdf", "paper"]);
    let mut client = client(&array);
    let old: Vec<u8> = (0..8 * PAGE).map(|i| (i / 7) as u8).collect();
    write(&mut client, 100, &old);
    array.asks(&["flush", "tank"]);
    assert_eq!(read(&mut client, 100, 8), old);
    let reads = member_reads(&array);
    assert_eq!(read(&mut client, 100, 8), old);
    assert_eq!(member_reads(&array), reads, "the second read touches no member");
    // Part of a page, whole pages, zeros, a trim; before and after they are on the members.
    let mut now = old.clone();
    let (offset, length) = (101 * PAGE as u64 + 10, 5000);
    client.call(Command::Write { offset, length, fua: false }, &vec![9; 5000]).expect("WRITE");
    now[PAGE + 10..PAGE + 5010].fill(9);
    let (offset, length) = (104 * PAGE as u64, PAGE as u64);
    let zeros =
        Command::WriteZeroes { offset, length, fua: false, no_hole: true, fast_zero: false };
    client.call(zeros, &[]).expect("WRITE_ZEROES");
    now[4 * PAGE..5 * PAGE].fill(0);
    write(&mut client, 107, &[3; PAGE]);
    now[7 * PAGE..].fill(3);
    for _ in 0..2 {
        assert_eq!(read(&mut client, 100, 8), now);
        array.asks(&["flush", "tank"]);
    }
    assert_eq!(read(&mut client, 100, 8), now);
    // What is trimmed may read as anything, but the same, and what is written then is seen.
    let (offset, length) = (102 * PAGE as u64, PAGE as u64);
    client.call(Command::Trim { offset, length, fua: false }, &[]).expect("TRIM");
    let trimmed = read(&mut client, 102, 1);
    assert_eq!(read(&mut client, 102, 1), trimmed);
    write(&mut client, 102, &[4; PAGE]);
    assert_eq!(read(&mut client, 102, 1), [4; PAGE]);
    // With a member lost, what is cached of it needs no row, and the rest of it still reads right.
    array.asks(&["flush", "tank"]);
    let _ = read(&mut client, 100, 8);
    let cached = read(&mut client, 96, 16);
    let before = member_reads(&array);
    let socket = array.path("tank.control");
    ask(socket.as_ref(), "tank", &Fail { disk: "1".to_string() }, |_| {}).expect("given up");
    assert_eq!(read(&mut client, 96, 16), cached);
    assert_eq!(member_reads(&array), before);
    let cache = &status(&array)["read_cache"];
    assert_eq!((&cache["policy"], &cache["pages"]), (&"vdf-lru".into(), &256.into()), "{cache}");
    assert_eq!((&cache["weight"], &cache["since_change"]["rgr"]), (&2.0.into(), &0.0.into()));
    assert!(cache["since_start"]["rgr"].as_f64() > Some(0.1), "{cache}");
    assert!(cache["memory_bytes"].as_u64() <= Some((1 << 20) + 256 * 200), "{cache}");
    let table = array.asks(&["status", "tank"]);
    assert!(
        table.contains("since last failure or repair") && table.contains("RGR 0.0000"),
        "{table}"
    );
}

#[test]
fn it_is_changed_while_serving_and_what_makes_none_is_refused() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let mut client = client(&array);
    write(&mut client, 5, &[1; 4 * PAGE]);
    array.asks(&["flush", "tank"]);
    assert!(status(&array)["read_cache"].is_null());
    let folder = array.path("");
    let set = |words: &[&str]| array.asks(&[&["set", "tank"], words].concat());
    let said = set(&["--read-cache", "sieve", "--read-cache-size", "64K", "--vdf", "adaptive"]);
    assert!(said.contains("read cache adaptive-sieve of 16 pages"), "{said}");
    assert_eq!(read(&mut client, 5, 4), [1; 4 * PAGE]);
    assert_eq!(status(&array)["read_cache"]["held_pages"], 4);
    // Destaged pages stay; another cache begins empty.
    set(&["--read-cache-writes", "keep"]);
    assert_eq!(status(&array)["read_cache"]["held_pages"], 0);
    write(&mut client, 50, &[2; 2 * PAGE]);
    array.asks(&["flush", "tank"]);
    let reads = member_reads(&array);
    assert_eq!(read(&mut client, 50, 2), [2; 2 * PAGE]);
    assert_eq!(member_reads(&array), reads, "without a read of a member");
    assert!(set(&["--read-cache", "off"]).contains("read cache off"));
    assert_eq!(read(&mut client, 50, 2), [2; 2 * PAGE]);
    assert!(member_reads(&array) > reads);
    for (words, names) in [
        (&["--read-cache", "lro"][..], "lru"),
        (&["--read-cache", "lru", "--read-cache-size", "1000"], "read-cache-size"),
        (&["--vdf", "perhaps"], "paper"),
        (&[], "nothing to set"),
    ] {
        let words = [&["set", "tank"], words, &["--config-dir", &folder]].concat();
        let error = fails(2, &words);
        assert!(error.contains(names), "{error}");
    }
    assert!(status(&array)["read_cache"].is_null(), "and nothing was changed");
}
