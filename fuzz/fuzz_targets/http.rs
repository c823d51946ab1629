//! cargo-fuzz: the target `http` of crates/fuzz.
#![no_main]

#[path = "../../crates/fuzz/tests/bounded/mod.rs"]
mod bounded;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    bounded::checked("http", input);
});
