//! What must hold of everything that comes from outside: the images of devices, NBD peers, traces,
//! configuration, HTTP and the control socket. Each target is a function of some bytes that panics
//! if a property does not hold. `cargo test` runs them on fixed cases, `make fuzz` on those that
//! libFuzzer finds (docs/fuzzing.md).
#![forbid(unsafe_code)]

mod config;
mod control;
mod devices;
mod edits;
mod feed;
mod http;
mod labels;
mod mutate;
mod nbd;
mod nvs;
mod traces;

pub use mutate::Rng;

/// One kind of input.
pub struct Target {
    /// Its name, also that of the program of cargo-fuzz.
    pub name: &'static str,
    /// Checks one input: true if it was understood, false if it was refused. What must not be is a
    /// panic.
    pub check: fn(&[u8]) -> bool,
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Changed seeds that `cargo test` checks.
    pub cases: u64,
    /// Most bytes of memory that one input may cost.
    pub memory: usize,
}

const MIB: usize = 1 << 20;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "nvs", check: nvs::check, seeds: nvs::seeds, cases: 1000, memory: 64 * MIB },
    Target {
        name: "labels",
        check: labels::check,
        seeds: labels::seeds,
        cases: 20_000,
        memory: MIB,
    },
    Target {
        name: "nbd-server",
        check: nbd::check_server,
        seeds: nbd::seeds_of_server,
        cases: 40_000,
        memory: MIB,
    },
    Target {
        name: "nbd-client",
        check: nbd::check_client,
        seeds: nbd::seeds_of_client,
        cases: 40_000,
        memory: MIB,
    },
    Target {
        name: "traces",
        check: traces::check,
        seeds: traces::seeds,
        cases: 10_000,
        memory: 256 * MIB,
    },
    Target {
        name: "config",
        check: config::check,
        seeds: config::seeds,
        cases: 3000,
        memory: 256 * MIB,
    },
    Target {
        name: "http",
        check: http::check,
        seeds: http::seeds,
        cases: 10_000,
        memory: 16 * MIB,
    },
    Target {
        name: "control",
        check: control::check,
        seeds: control::seeds,
        cases: 5000,
        memory: 2 * MIB,
    },
];
