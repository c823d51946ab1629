//! Sweeps and advice: keys, rows that are complete or absent, the sampled curve against the
//! exact one, answers that hold.

use destage_engine::policy;
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{Page, PageCount};
use destage_engine::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use destage_report::advice::AdvisedRun;
use destage_sim::advise::curve::{CurveSetup, SAMPLE_GROUPS, Writes};
use destage_sim::advise::goal::Goal;
use destage_sim::advise::{Question, advise, ladder};
use destage_sim::compare::run_one;
use destage_sim::options::{OPTIONS, RunOptions};
use destage_sim::sources::make_source;
use destage_sim::sweep::{Dataset, Sweep, SweepPoint, run};
use destage_workload::random::Seeded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn options(pairs: &[(&str, &str)]) -> RunOptions {
    let mut options = RunOptions::default();
    for (name, value) in [("warmup", "1"), ("measure", "3")].iter().chain(pairs) {
        options.set(name, value).expect("an option");
    }
    options
}

fn points(base: RunOptions, axes: &[(&str, &[&str])], seeds: u32) -> Vec<SweepPoint> {
    let axis = |(name, values): &(&str, &[&str])| {
        (name.to_string(), values.iter().map(ToString::to_string).collect())
    };
    let sweep = Sweep { base, axes: axes.iter().map(axis).collect(), seeds };
    sweep.points(&BTreeMap::new(), &BTreeMap::new()).expect("points")
}

#[test]
fn every_option_is_part_of_the_key() {
    let key = |pairs: &[(&str, &str)]| points(options(pairs), &[], 1).remove(0).key;
    let mut keys = BTreeSet::from([key(&[])]);
    let others: &[(&str, &str)] = &[
        ("policy", "wow"),
        ("policy", "wow:1"),
        ("rate", "linear:90/70"),
        ("nvs", "16384"),
        ("level", "6"),
        ("disks", "6"),
        ("disk", "wow-ref"),
        ("strip", "32"),
        ("group-stripes", "2"),
        ("disk-fraction", "0.5"),
        ("queue-depth", "10"),
        ("count", "groups"),
        ("issue", "runs"),
        ("detector", "adjacent-groups"),
        ("seq-threshold", "8"),
        ("window", "4"),
        ("scheduler", "fcfs"),
        ("spindles", "free"),
        ("order", "reads-first"),
        ("protocol", "safe"),
        ("nvs-latency", "5"),
        ("workload", "uniform"),
        ("iops", "77"),
        ("requests", "9"),
        ("interval", "2"),
        ("seed", "2"),
        ("measure", "4"),
        ("warmup", "2"),
    ];
    for pair in others {
        assert!(OPTIONS.iter().any(|option| option.name == pair.0));
        assert!(keys.insert(key(&[*pair])), "{pair:?} makes no other key");
    }
    assert_eq!(key(&[("policy", "wow")]), key(&[("policy", "wow:initial-bit=0")]));
    assert_eq!(key(&[("spindles", "aligned")]), key(&[]));
}

#[test]
fn points_are_every_combination_once() {
    let all = points(options(&[]), &[("policy", &["lrw", "wow"]), ("nvs", &["64", "128"])], 3);
    let of = |p: &SweepPoint| ["policy", "nvs", "seed"].map(|name| p.options.get(name).to_string());
    assert_eq!(all.len(), 12);
    assert_eq!(of(&all[0]), ["lrw", "64", "1"]);
    assert_eq!(of(&all[4]), ["lrw", "128", "2"]);
    assert_eq!(of(&all[11]), ["wow", "128", "3"]);
    assert_eq!(all.iter().map(|p| &p.key).collect::<BTreeSet<_>>().len(), 12);
}

fn rows(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("listed").map(|e| e.expect("an entry"));
    entries
        .map(|e| {
            let bytes = std::fs::read(e.path()).expect("read");
            (e.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

#[test]
fn rows_that_are_missing_or_cut_short_are_run_again_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = Dataset::open(folder.path()).expect("opened");
    let all = points(options(&[("nvs", "512")]), &[("policy", &["lrw", "wow", "stow"])], 2);
    let one = |label: &str, options: &RunOptions| run_one(label, options, &make_source);
    let swept = |threads| run(&all, &dataset, threads, &one, &|_, _| {}).expect("swept");
    assert_eq!((swept(1).run, swept(2).run), (6, 0));
    let whole = rows(folder.path());
    assert_eq!(whole.len(), 6);
    // Every prefix of a row counts as absent; so does a temporary file.
    let path = dataset.path(&all[3].key);
    let bytes = std::fs::read(&path).expect("a row");
    for length in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        std::fs::write(&path, &bytes[..length]).expect("cut");
        assert_eq!(dataset.keys().expect("listed").len(), 5, "{length} bytes");
    }
    std::fs::remove_file(dataset.path(&all[0].key)).expect("removed");
    std::fs::write(folder.path().join(format!(".{}.parquet.1.tmp", all[0].key)), &bytes[..9])
        .expect("left over");
    let again = swept(3);
    assert_eq!((again.found, again.run), (4, 2));
    let mut after = rows(folder.path());
    after.retain(|name, _| name.ends_with(".parquet"));
    assert_eq!(after, whole, "the same bytes on any number of threads");
}

/// Writes with a hot part and streams.
fn load(requests: u64, span: u64) -> Vec<PageRange> {
    let mut random = Seeded::new(5, "plan");
    let mut stream = 0;
    let mut request = || match random.below(10) {
        0..=2 => {
            stream = (stream + 8) % span;
            PageRange::new(Page(stream.min(span - 8)), 8)
        }
        3..=7 => PageRange::new(Page(random.below(span / 10)), 1),
        _ => PageRange::new(Page(random.below(span - 4)), 1 + random.below(4) as u32),
    };
    (0..requests).map(|_| request()).collect()
}

struct Count(u64);

impl ReplayEvents for Count {
    fn destaged(&mut self, picked: Picked, _mask: &[u64]) {
        self.0 += picked.pages;
    }
    fn admitted(&mut self, _admitted: Admitted) {}
}

#[test]
fn the_exact_curve_is_a_replay_and_the_sampled_one_is_near_it() {
    let config = options(&[]).build().expect("a configuration").controller;
    let geometry = config.geometry;
    let ranges = load(400_000, 1_000_000);
    let written: u64 = ranges.iter().map(|range| u64::from(range.pages)).sum();
    let context = policy::PolicyContext {
        nvs_pages: 1,
        groups: geometry.groups(),
        group_pages: geometry.pages_per_group(),
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
    };
    let shape = CurveSetup { context, detector: DetectorKind::Pages, threshold: 16 };
    let writes = Writes::new(&ranges, geometry, &shape, SAMPLE_GROUPS);
    let finer = Writes::new(&ranges, geometry, &shape, SAMPLE_GROUPS / 2);
    for name in ["lrw", "cscan", "wow", "stow"] {
        let choice = policy::choose(name).expect("a policy");
        for size in [4096u64, 131_072, 262_144] {
            let context = policy::PolicyContext { nvs_pages: size, ..context };
            let mut cache = WriteCache::new(
                destage_engine::nvs::directory::Directory::new(
                    PageCount(size),
                    64,
                    geometry.groups(),
                ),
                Detector::new(DetectorKind::Pages, 16, 64),
                choice.build(&context).expect("made"),
            );
            let mut count = Count(0);
            cache.replay(&ranges, &mut count);
            let whole = count.0 as f64 / written as f64;
            let point = writes.point(&choice, &shape, size, true).expect("a point");
            let replayed = point.unsampled_per_page.expect("asked for");
            // Requests over two groups are admitted in parts, which is all that differs.
            assert!((replayed - whole).abs() < 0.002 * whole, "{name} {size}: {replayed} {whole}");
            let sampled = finer.point(&choice, &shape, size, false).expect("a point");
            assert_eq!(sampled.sampled_share < 1.0, size > 4096, "{}", sampled.sampled_share);
            let off = (sampled.destaged_per_page - whole).abs();
            assert!(off < 0.05 * whole, "{name} {size}: {} {whole}", sampled.destaged_per_page);
        }
    }
}

fn question(goal: &str, sizes: (u64, u64)) -> Question {
    Question {
        base: options(&[("iops", "700"), ("warmup", "settled"), ("measure", "20")]),
        goal: Goal::parse(goal).expect("a goal"),
        policies: vec!["cscan".into(), "stow".into()],
        thresholds: vec!["90/80".into(), "70/40".into()],
        sizes_pages: ladder(sizes.0, sizes.1),
        seeds: 2,
        check_curve: false,
        sample_groups: SAMPLE_GROUPS,
        load_factor: 1.0,
        prices: None,
    }
}

#[test]
fn an_answer_holds_and_is_the_same_on_any_number_of_threads() {
    let question = question("p99<80ms", (512, 65_536));
    let one = advise(&question, 1, &make_source, &|_| {}).expect("advice");
    let (answer, below) = (one.answer.clone().expect("an answer"), one.below.clone().expect("one"));
    assert!(answer.reached && answer.value.expect("a value") < 80.0);
    assert!(!below.reached && below.nvs_pages < answer.nvs_pages);
    let place = one.sizes_pages.iter().position(|size| *size == answer.nvs_pages).expect("tried");
    assert_eq!(one.sizes_pages[place - 1], below.nvs_pages, "neighbours");
    let at_below = |run: &&AdvisedRun| run.nvs_pages == below.nvs_pages && run.seed == 1;
    let at_below = one.runs.iter().filter(at_below).filter(|run| run.length == 1);
    assert_eq!(at_below.count(), 4, "every variant was simulated one step below");
    let of_answer = |run: &&AdvisedRun| {
        let thresholds = &answer.thresholds;
        (run.nvs_pages, &run.thresholds, run.length) == (answer.nvs_pages, thresholds, 10)
    };
    let mut longer = one.runs.iter().filter(of_answer);
    assert!(longer.any(|run| run.reached), "it holds over ten times the window");
    // The load is in the workload's text or in an option of its own: it is scaled all the same.
    let mut in_text = question.clone();
    in_text.base.set("iops", "").expect("an option");
    in_text.base.set("workload", "spc1:iops=700").expect("an option");
    let scaled = advise(&in_text, 2, &make_source, &|_| {}).expect("advice");
    let loads = |runs: &[AdvisedRun]| -> Vec<Option<f64>> {
        runs.iter().filter(|run| run.load > 1.0).map(|run| run.target_iops).collect()
    };
    assert_eq!(loads(&scaled.runs), loads(&one.runs));
    assert!(loads(&one.runs).contains(&Some(735.0)));
    assert_eq!(scaled.holds_to_load, one.holds_to_load);
    let three = advise(&question, 3, &make_source, &|_| {}).expect("advice");
    assert_eq!((three.answer, three.below), (one.answer, one.below));
}

#[test]
fn what_cannot_be_answered_says_so() {
    let none = advise(&question("p99<1us", (512, 1024)), 2, &make_source, &|_| {}).expect("advice");
    assert!(none.answer.is_none() && none.margin.is_none() && none.below.is_some());
    let easy =
        advise(&question("p99<99s", (4096, 8192)), 2, &make_source, &|_| {}).expect("advice");
    assert!(easy.below.is_none(), "nothing is below the smallest size");
    let mut bad = question("p99<1ms", (512, 1024));
    bad.sizes_pages.clear();
    assert!(advise(&bad, 1, &make_source, &|_| {}).is_err());
    let mut bad = question("p99<1ms", (512, 1024));
    bad.policies = vec!["wov".into()];
    assert!(advise(&bad, 1, &make_source, &|_| {}).unwrap_err().to_string().contains("known: wow"));
}

#[test]
fn advice_warns_of_the_kind_of_the_disks_once() {
    let mut asked = question("p99<1us", (4096, 4096));
    asked.base.set("disk", "exos-2x18-unit").expect("an option");
    (asked.policies, asked.thresholds) = (vec!["stow".into()], vec!["70/40".into()]);
    let advice = advise(&asked, 2, &make_source, &|_| {}).expect("advice");
    let unit = |said: &&String| said.contains("one of 2 logical units");
    assert_eq!(advice.warnings.iter().filter(unit).count(), 1, "{:?}", advice.warnings);
    assert_eq!(advice.sure.iter().filter(unit).count(), 0, "{:?}", advice.sure);
}

/// An answer with headroom holds at the greater load and at the load itself, and a load without a
/// rate has none.
#[test]
fn headroom_is_part_of_the_goal() {
    let plain = question("p99<80ms", (512, 65_536));
    let asked = Question { load_factor: 1.1, ..plain.clone() };
    let advice = advise(&asked, 2, &make_source, &|_| {}).expect("advice");
    let answer = advice.answer.clone().expect("an answer");
    let without = advise(&plain, 2, &make_source, &|_| {}).expect("advice").answer.expect("one");
    assert!(answer.nvs_pages >= without.nvs_pages);
    let of_answer = |run: &&AdvisedRun| {
        (run.nvs_pages, &run.policy, &run.thresholds)
            == (answer.nvs_pages, &answer.policy, &answer.thresholds)
    };
    let held: Vec<(f64, u64)> = advice
        .runs
        .iter()
        .filter(of_answer)
        .filter(|run| run.reached)
        .map(|run| (run.load, run.length))
        .collect();
    assert!(held.contains(&(1.0, 10)) && held.contains(&(1.1, 10)));
    let target = advice.runs.iter().find(|run| run.load == 1.1).and_then(|run| run.target_iops);
    assert!((target.expect("a rate") - 770.0).abs() < 1e-6, "{target:?}");
    // Why the size below misses, from its run.
    let below = advice.below.clone().expect("one below");
    assert!(["disk time", "NVS", "rate"].contains(&below.limit.as_str()), "{below:?}");
    assert!(advice.missed.expect("a reason").contains(&below.because));
    let reached: Vec<bool> = advice.by_size.iter().map(|size| size.run.reached).collect();
    assert!(reached.is_sorted() && reached.contains(&true) && reached.contains(&false));
    let mut closed = asked.clone();
    closed.base.set("iops", "").expect("an option");
    closed.base.set("workload", "random").expect("an option");
    let refused = advise(&closed, 2, &make_source, &|_| {}).unwrap_err().to_string();
    assert!(refused.contains("--load-factor needs a load with a rate"), "{refused}");
    let less = Question { load_factor: 0.5, ..plain };
    let refused = advise(&less, 2, &make_source, &|_| {}).unwrap_err().to_string();
    assert!(refused.contains("--load-factor is headroom"), "{refused}");
}

/// A policy that is added to the engine's table needs a colour of its own.
#[test]
fn every_policy_has_a_look_of_its_own() {
    let names: Vec<&str> = policy::POLICIES.iter().map(|policy| policy.entry.name).collect();
    let looks = destage_report::look::LOOKS;
    for name in &names {
        assert!(looks.iter().any(|(known, _)| known == name), "{name} is not in LOOKS");
    }
    let places: std::collections::HashSet<usize> = looks.iter().map(|look| look.1).collect();
    assert_eq!(places.len(), looks.len(), "no two alike");
}
