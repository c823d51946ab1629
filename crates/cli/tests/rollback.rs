//! Devices that went back in time, were cut short or were used apart, on the built program: each is
//! refused, with a way out that says what it loses (docs/durability.md, "Marks").

mod common;

use common::array::{Array, becomes_clean, flip, status};
use common::{destage, fails};
use destage_nvslog::superblock::Superblock;

/// Random writes for half a second.
fn write(array: &Array) {
    let uri = array.uri();
    let words = ["bench", &uri, "--rw", "randwrite", "--time", "0.5s", "--depth", "4"];
    let output = destage(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn copy(array: &Array, from: &str, to: &str) {
    std::fs::copy(array.path(from), array.path(to)).expect("copied");
}

fn refusal(array: &Array, more: &[&str]) -> String {
    let (listen, folder) = (format!("unix:{}", array.path("other.sock")), array.path(""));
    let words = ["serve", "tank", "--nbd", &listen, "--config-dir", &folder];
    fails(1, &[&words[..], more].concat())
}

#[test]
fn an_nvs_that_went_back_in_time_is_refused_until_its_loss_is_accepted() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    write(&array);
    array.stop();
    copy(&array, "nvs", "nvs.old");
    array.serve(&[]);
    write(&array);
    array.kill();
    copy(&array, "nvs", "nvs.new");
    copy(&array, "nvs.old", "nvs");
    let nvs = array.path("nvs");
    let text = array.refuses_to_serve();
    assert!(text.contains(&nvs) && text.contains("is out of date"), "{text}");
    assert!(text.contains(&format!("--use-nvs {nvs} --accept-loss")), "{text}");
    // The way out says first what it loses.
    let text = refusal(&array, &["--use-nvs", &nvs]);
    assert!(text.contains("Lost: every acknowledged write"), "{text}");
    assert!(text.contains("dirty pages") && text.contains("add --accept-loss"), "{text}");
    let (nbd, folder) = (array.path("other.sock"), array.path(""));
    let nbd = format!("unix:{nbd}");
    let words = ["serve", "tank", "--nbd", &nbd, "--accept-loss", "--config-dir", &folder];
    assert!(fails(2, &words).contains("goes with --use-nvs"));
    // The right one is served without a word.
    copy(&array, "nvs.new", "nvs");
    array.serve(&[]);
    becomes_clean(&array);
    array.stop();
    // Accepted, it is served, and the next start is as any.
    copy(&array, "nvs.old", "nvs");
    array.serve(&["--use-nvs", &nvs, "--accept-loss"]);
    assert!(array.said.contains("Lost: every acknowledged write"), "{}", array.said);
    array.stop();
    array.serve(&[]);
    array.stop();
}

#[test]
fn an_nvs_as_it_was_before_the_last_stop_is_out_of_date() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    write(&array);
    array.asks(&["flush", "tank"]);
    copy(&array, "nvs", "nvs.running");
    write(&array);
    array.stop();
    copy(&array, "nvs.running", "nvs");
    let text = array.refuses_to_serve();
    assert!(text.contains(&array.path("nvs")) && text.contains("is out of date"), "{text}");
}

#[test]
fn a_member_that_went_back_in_time_or_was_cut_short_is_left_out_or_refused() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.stop();
    copy(&array, "d1", "d1.old");
    array.serve(&[]);
    write(&array);
    array.asks(&["flush", "tank"]);
    array.stop();
    copy(&array, "d1", "d1.new");
    copy(&array, "d1.old", "d1");
    let text = array.refuses_to_serve();
    assert!(text.contains(&array.path("d1")) && text.contains("is out of date"), "{text}");
    assert!(text.contains("--degraded"), "{text}");
    copy(&array, "d1.new", "d1");
    let file = std::fs::OpenOptions::new().write(true).open(array.path("d1")).expect("opened");
    file.set_len(30 << 20).expect("cut");
    let text = array.refuses_to_serve();
    assert!(text.contains(&array.path("d1")) && text.contains("cut short"), "{text}");
    array.serve(&["--degraded"]);
    assert_eq!(status(&array)["state"], "degraded");
    array.stop();
    // Made larger again it is still not what it was.
    file.set_len(32 << 20).expect("grown");
    array.serve(&[]);
    assert_eq!(status(&array)["state"], "degraded");
    array.stop();
}

#[test]
fn a_lost_nvs_mirror_that_comes_back_alone_is_refused() {
    let mut array = Array::create(&["n0", "n1"]);
    array.serve(&[]);
    write(&array);
    array.stop();
    let folder = array.path("");
    let place = |name: &str| std::path::Path::new(&folder).join(name);
    let hide = |name: &str| {
        std::fs::rename(place(name), place(&format!("{name}.away"))).expect("moved");
    };
    let show = |name: &str| {
        std::fs::rename(place(&format!("{name}.away")), place(name)).expect("moved");
    };
    hide("n1");
    array.serve(&["--degraded"]);
    write(&array);
    array.asks(&["flush", "tank"]);
    array.kill();
    hide("n0");
    show("n1");
    let text = array.refuses_to_serve();
    assert!(text.contains(&array.path("n0")) && text.contains("bring it back"), "{text}");
    show("n0");
    array.serve(&[]);
    let now = status(&array);
    assert_ne!(now["state"], "clean", "the mirror is missing: {now}");
    array.stop();
}

#[test]
fn a_damaged_superblock_copy_is_reported_and_repaired() {
    let mut array = Array::create(&["nvs"]);
    for (name, at) in [("nvs", 100), ("d0", 12_288 + 100), ("nvs", 12_288 + 100), ("d0", 100)] {
        flip(array.path(name), at);
        let report = array.asks(&["recover", "tank", "--inspect"]);
        assert!(report.contains("damaged superblock"), "{report}");
        array.serve(&[]);
        let alarms = status(&array)["alarms"].to_string();
        assert!(alarms.contains("superblock-repaired"), "{alarms}");
        assert!(alarms.contains(&array.path(name)), "{alarms}");
        array.stop();
    }
    assert!(!array.asks(&["recover", "tank", "--inspect"]).contains("damaged superblock"));
}

#[test]
fn an_nvs_that_cannot_be_used_is_not_left_out_by_naming_it() {
    let mut array = Array::create(&["n0", "n1"]);
    array.serve(&[]);
    write(&array);
    array.kill();
    copy(&array, "n0", "n0.whole");
    let n0 = array.path("n0");
    let file = std::fs::OpenOptions::new().write(true).open(&n0).expect("opened");
    file.set_len(1 << 20).expect("cut");
    for more in [&["--use-nvs", &n0][..], &["--use-nvs", &n0, "--accept-loss", "--degraded"]] {
        let text = refusal(&array, more);
        assert!(text.contains(&n0) && text.contains("cut short"), "{text}");
    }
    copy(&array, "n0.whole", "n0");
    array.serve(&[]);
    becomes_clean(&array);
    // Nor is one that needs no such word taken as if it did.
    array.stop();
    let text = refusal(&array, &["--use-nvs", &n0]);
    assert!(text.contains("Lost: every acknowledged write"), "{text}");
    let disk = array.path("d0");
    let text = refusal(&array, &["--use-disk", &disk]);
    assert!(text.contains(&disk) && text.contains("in sync"), "{text}");
}

#[test]
fn what_is_left_of_a_damaged_log_is_used_when_the_loss_is_accepted() {
    let mut array = Array::create(&["nvs"]);
    // Several epochs, and several times round the ring: anchors say what was durable.
    for _ in 0..3 {
        array.serve(&[]);
        (0..2).for_each(|_| write(&array));
        array.kill();
    }
    // The first commit that is still needed, and some behind it.
    let shown = array.asks(&["recover", "tank", "--inspect"]);
    let number = |row: &str, before: &str| -> u64 {
        let line = shown.lines().find(|line| line.starts_with(row)).expect("a row");
        let (_, rest) = line.split_once(before).expect("a number");
        rest.split_whitespace().next().expect("a word").parse().expect("a number")
    };
    let (tail, ring) = (number("tail", "at block "), number("ring", "ring"));
    for block in tail + 30..tail + 90 {
        flip(array.path("nvs"), (1 << 20) + 512 * (block % ring) + 7);
    }
    let nvs = array.path("nvs");
    let text = array.refuses_to_serve();
    assert!(text.contains("--use-nvs PATH --accept-loss"), "{text}");
    let text = refusal(&array, &["--use-nvs", &nvs]);
    assert!(text.contains("Lost: every acknowledged write"), "{text}");
    array.serve(&["--use-nvs", &nvs, "--accept-loss"]);
    array.stop();
    array.serve(&[]);
    array.stop();
}

#[test]
fn a_member_given_up_is_used_again_when_too_many_others_are_lost() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.asks(&["fail", "tank", &array.path("d0")]);
    array.stop();
    std::fs::rename(array.path("d1"), array.path("d1.dead")).expect("moved");
    let disk = array.path("d0");
    let text = refusal(&array, &["--degraded"]);
    assert!(text.contains(&array.path("d1")), "{text}");
    let text = refusal(&array, &["--degraded", "--use-disk", &disk]);
    assert!(text.contains("Lost: what was written to it since"), "{text}");
    array.serve(&["--degraded", "--use-disk", &disk, "--accept-loss"]);
    let devices = status(&array)["devices"].to_string();
    assert!(devices.matches("in use").count() == 3, "two members and the NVS: {devices}");
    array.stop();
}

#[test]
fn halves_that_were_used_apart_are_refused() {
    let mut array = Array::of_level("10", 2, &[]);
    array.serve(&[]);
    array.stop();
    let (away, back) = (array.path("d0.away"), array.path("d1.away"));
    let [first, second] = ["d0", "d1"].map(|name| array.path(name));
    let rename = |from: &str, to: &str| std::fs::rename(from, to).expect("moved");
    rename(&second, &back);
    array.serve(&["--degraded"]);
    write(&array);
    array.stop();
    rename(&first, &away);
    rename(&back, &second);
    array.serve(&["--degraded"]);
    write(&array);
    array.stop();
    rename(&away, &first);
    let text = array.refuses_to_serve();
    assert!(text.contains("used apart"), "{text}");
}

/// All superblocks say that pages are lost, and neither copy of a member's record says which.
fn forget_lost_pages(array: &Array, member: &str) {
    for name in ["d0", "d1", "d2", "nvs"] {
        let mut bytes = std::fs::read(array.path(name)).expect("read");
        for copy in [0, 12_288] {
            let mut said = Superblock::decode(&bytes[copy..copy + 512]).expect("a superblock");
            said.lost_pages = true;
            bytes[copy..copy + 512].copy_from_slice(&said.encode());
        }
        if name == member {
            for at in [16_384, 20_480] {
                bytes[at..at + 8].copy_from_slice(b"DSTGMEMB");
            }
        }
        std::fs::write(array.path(name), bytes).expect("written");
    }
}

#[test]
fn a_member_whose_lost_pages_are_not_known_is_left_out_or_used_without() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.stop();
    forget_lost_pages(&array, "d1");
    let disk = array.path("d1");
    let text = array.refuses_to_serve();
    let says = "its record of lost pages cannot be read: start without it (--degraded)";
    assert!(text.contains(&disk) && text.contains(says), "{text}");
    // Without redundancy it can only be used as it is.
    std::fs::rename(array.path("d0"), array.path("d0.dead")).expect("moved");
    let text = refusal(&array, &["--degraded"]);
    assert!(text.contains(&format!("--degraded --use-disk {disk} --accept-loss")), "{text}");
    let text = refusal(&array, &["--degraded", "--use-disk", &disk]);
    assert!(text.contains("Lost: which pages these are: they read as zeros"), "{text}");
    array.serve(&["--degraded", "--use-disk", &disk, "--accept-loss"]);
    array.stop();
    // Where redundancy is left, it is left out.
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.stop();
    forget_lost_pages(&array, "d1");
    array.serve(&["--degraded"]);
    let devices = status(&array)["devices"].to_string();
    assert!(devices.matches("in use").count() == 3, "two members and the NVS: {devices}");
    array.stop();
}
