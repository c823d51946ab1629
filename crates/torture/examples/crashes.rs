//! Random torture with seeds from FIRST on until it has had CRASHES power failures, on one thread:
//! what `destage torture` does, without the program around it. A suite of `make mutants`.

use destage_torture::case::Wanted;
use destage_torture::run::Counts;
use destage_torture::torture;
use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [first, crashes] = numbers[..] else {
        eprintln!("Usage: crashes FIRST CRASHES");
        return ExitCode::from(2);
    };
    let wanted =
        Wanted { scrubs: true, rebuilds: true, mishaps: true, relogs: true, ..Wanted::default() };
    let mut counts = Counts::default();
    let mut seed = first;
    while counts.crashes < crashes {
        let outcome = torture(seed, 8, &wanted);
        if let Some(why) = outcome.failure {
            println!("seed {seed}: {why} ({})", outcome.case);
            return ExitCode::FAILURE;
        }
        counts.add(&outcome.counts);
        seed += 1;
    }
    println!(
        "{} cases from seed {first}, {} crashes: no check failed",
        seed - first,
        counts.crashes
    );
    ExitCode::SUCCESS
}
