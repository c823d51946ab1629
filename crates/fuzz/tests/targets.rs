//! Every target on fixed cases: its seeds, seeds that a generator has changed, and the inputs that
//! once found something. FUZZ_CASES and FUZZ_SEED ask for other cases than those of each build.

mod bounded;

use bounded::checked;
use destage_fuzz::{Rng, TARGETS, Target};
use destage_workload::random::Seeded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

const SEED: u64 = 17;

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Checks an input; where it fails, says which it was.
fn holds(target: &Target, input: &[u8], what: &str) -> bool {
    let checked = catch_unwind(AssertUnwindSafe(|| checked(target.name, input)));
    checked.unwrap_or_else(|_| {
        let name = format!("failed-{}.input", target.name);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, input).expect("written");
        panic!("{}: {what}: the input is in {}", target.name, file.display());
    })
}

/// What failed once: the files of `tests/found/TARGET`.
fn found(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found").join(target.name);
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = files.map(|file| file.expect("an entry").path());
    paths.map(|path| (path.display().to_string(), std::fs::read(&path).expect("read"))).collect()
}

/// One test, because the allocator counts for the process.
#[test]
fn every_target_holds_on_fixed_cases() {
    let seed = number("FUZZ_SEED", SEED);
    for target in TARGETS {
        let cases = number("FUZZ_CASES", target.cases);
        let begun = Instant::now();
        let seeds = (target.seeds)();
        let understood = seeds.iter().filter(|seed| holds(target, seed, "a seed")).count();
        assert!(2 * understood >= seeds.len(), "{}: {understood} seeds", target.name);
        let before = found(target);
        before.iter().for_each(|(path, input)| {
            holds(target, input, path);
        });
        let mut counts = [0u64; 2];
        for case in 0..cases {
            let mut rng = Rng(Seeded::new(seed << 32 | case, "fuzz-cases"));
            let input = rng.changed(&seeds);
            let what = format!("FUZZ_SEED={seed}, case {case}");
            counts[usize::from(holds(target, &input, &what))] += 1;
        }
        let [refused, understood] = counts;
        println!(
            "{}: {} seeds, {} found before, {understood} cases understood, {refused} refused, {:?}",
            target.name,
            seeds.len(),
            before.len(),
            begun.elapsed()
        );
        assert!(understood > cases / 100 && refused > cases / 100, "the cases miss something");
    }
}
