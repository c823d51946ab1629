//! Devices that went back in time, were cut short or were used apart, on the built program: each is
//! refused, with a way out that says what it loses (docs/durability.md, "Marks").

mod common;

use common::array::{Array, flip, status};
use common::{destage, fails};

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
    assert_eq!(status(&array)["state"], "clean");
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
        let told = array.asks(&["recover", "tank", "--inspect"]);
        assert!(told.contains("damaged superblock"), "{told}");
        array.serve(&[]);
        let alarms = status(&array)["alarms"].to_string();
        assert!(alarms.contains("superblock-repaired"), "{alarms}");
        assert!(alarms.contains(&array.path(name)), "{alarms}");
        array.stop();
    }
    assert!(!array.asks(&["recover", "tank", "--inspect"]).contains("damaged superblock"));
}
