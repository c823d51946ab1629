//! One input of a target, with the bound on its memory.

#[path = "../../../engine/tests/counting/mod.rs"]
mod counting;

use destage_fuzz::TARGETS;

/// Checks an input: whether it was understood.
pub fn checked(name: &str, input: &[u8]) -> bool {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let mut understood = false;
    let most = counting::most_during(|| understood = (target.check)(input));
    assert!(most <= target.memory, "{name}: {most} bytes of memory for {} bytes", input.len());
    understood
}
