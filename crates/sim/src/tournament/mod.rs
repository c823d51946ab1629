//! A tournament: any policies over a fixed grid of cells, each with its best setting, compared with
//! the better of some references (docs/tournament.md). Every run is a row of a dataset, so nothing
//! is run twice.

pub mod grid;
mod score;

use crate::compare::{CompareError, RunBy};
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::settling::reaches;
use crate::sources::make_source;
use crate::sweep::{self, Dataset, Sweep};
use destage_report::Format;
use destage_report::model::SCHEMA;
use destage_report::tournament::{Figure, ProtocolCard, ScoreCard};
use grid::{Cell, Grid, Kind};
use score::{Played, score};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The mean response time at which throughput is read, in ms.
const LEVEL_MS: f64 = 20.0;

/// Longest mean wait at the host, in ms: a policy must not hide delay there.
const HOST_WAIT_MS: f64 = 1.0;

/// Share of its target that a run must serve, but for the chance of random arrivals.
const SERVED: f64 = 0.99;

/// The balance of a run whose dirty pages rise.
const RISING: &str = "rising";

/// A run whose dirty pages rise is measured again, this many times as long.
const LONGER: f64 = 5.0;

/// Settings whose figure with the first seed is further from the best one's than this share of it
/// do not play the other seeds.
const BEHIND: f64 = 0.1;

/// Percentages of the references' throughput at which response times are compared.
const SHARES: [u32; 5] = [60, 70, 80, 90, 95];

/// Who plays what.
pub struct Tournament<'a> {
    /// The grid.
    pub grid: &'a Grid,
    /// The policies that are judged.
    pub policies: Vec<String>,
    /// Those that they are compared with.
    pub against: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Where traces are; without it their cells are skipped.
    pub traces: Option<PathBuf>,
    /// Digests of policies that are in no table.
    pub own: BTreeMap<String, String>,
    /// The command that makes it again.
    pub command: String,
}

/// How a tournament runs.
pub struct Play<'a> {
    /// Where rows are kept.
    pub dataset: &'a Dataset,
    /// Threads.
    pub threads: usize,
    /// Makes a run.
    pub run: &'a RunBy<'a>,
    /// Hears how many plays are done, and of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// Writes the card into a folder: as a page, and for programs.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, card: &ScoreCard) -> Result<(), destage_report::WriteError> {
    for (name, format) in
        [("card.json", Format::Json), ("card.csv", Format::Csv), ("card.txt", Format::Table)]
    {
        destage_report::write_file(&folder.join(name), card.render(format).as_bytes())?;
    }
    let page = destage_render::tournament_html(card);
    destage_report::write_file(&folder.join("index.html"), page.as_bytes())
}

/// One policy in one cell, with one setting and seed.
struct Job<'a> {
    cell: usize,
    protocol: &'a str,
    policy: usize,
    setting: usize,
    seed: u64,
    /// At these rates, with their percentages; none: the cell's own figure.
    rates: Vec<(u32, u64)>,
    /// What another seed showed: where a search begins.
    near: Option<f64>,
}

/// What a run showed.
#[derive(Clone, Copy, Debug)]
struct Row {
    iops: f64,
    target: Option<f64>,
    measured_s: f64,
    mean_ms: f64,
    host_wait_ms: f64,
    /// Dirty pages rise: the NVS only postpones what the disks cannot take.
    rises: bool,
}

impl Row {
    /// Whether the load was served, and no delay hidden at the host. A trace may leave the NVS
    /// fuller than it was.
    fn is_served(&self) -> bool {
        self.keeps_up() && !(self.target.is_some() && self.rises)
    }

    /// Whether it would be served if its dirty pages did not rise.
    fn keeps_up(&self) -> bool {
        let is_met = |target: f64| reaches(SERVED, target, self.iops, self.measured_s);
        self.target.is_none_or(is_met) && self.host_wait_ms <= HOST_WAIT_MS
    }
}

impl Tournament<'_> {
    /// All policies, the references behind the others.
    fn all(&self) -> Vec<String> {
        let others = self.against.iter().filter(|name| !self.policies.contains(name));
        self.policies.iter().chain(others).cloned().collect()
    }

    /// Plays what is missing, and counts.
    ///
    /// # Errors
    /// A policy or an option that does not fit, before anything runs; or the first run that fails.
    pub fn run(&self, play: &Play<'_>) -> Result<ScoreCard, CompareError> {
        if self.policies.is_empty() || self.against.is_empty() {
            let message = "a tournament needs policies, and others to compare them with";
            return Err(OptionError::usage(message.into()).into());
        }
        for names in [&self.policies, &self.against, &self.grid.protocols] {
            let twice = |(index, name): &(usize, &String)| names[..*index].contains(*name);
            if let Some((_, name)) = names.iter().enumerate().find(twice) {
                return Err(OptionError::usage(format!("{name} is listed twice")).into());
            }
        }
        let cells = self.grid.cells().map_err(OptionError::usage)?;
        let (cells, skipped) = self.playable(cells);
        let keys = Keys { tournament: self, cells: &cells, digests: self.digests(&cells) };
        let jobs = self.jobs(&cells);
        for job in &jobs {
            let cell = &cells[job.cell];
            keys.check(job, cell.rates.first().copied())
                .map_err(|why| CompareError::from(why).at(&cell.name))?;
        }
        // At most: settings that are far behind, and cells that nobody serves, play less.
        let most = |jobs: &[Job<'_>]| jobs.iter().map(|job| self.seeds(&cells[job.cell])).sum();
        let shared: usize = most(&self.shared_jobs(&cells, &[]));
        let done = AtomicUsize::new(0);
        let before: usize = most(&jobs);
        let mut played = self.play_seeds(jobs, &keys, play, (&done, before + shared))?;
        done.store(before, Ordering::Relaxed);
        let jobs = self.shared_jobs(&cells, &played);
        played.extend(self.play_seeds(jobs, &keys, play, (&done, before + shared))?);
        let names = self.all();
        let protocols = self.grid.protocols.iter().map(|protocol| {
            let rows = score(&cells, &self.against, &names, &self.grid.settings, protocol, &played);
            ProtocolCard::of(protocol, &names, rows)
        });
        let protocols: Vec<ProtocolCard> = protocols.collect();
        let warnings = protocols.iter().flat_map(|card| ends_of_rates(&cells, card)).collect();
        Ok(ScoreCard {
            schema: SCHEMA,
            title: self.grid.title.clone(),
            command: self.command.clone(),
            references: self.against.clone(),
            seeds: self.grid.seeds,
            protocols,
            skipped,
            warnings,
        })
    }

    /// The cells whose traces are there, and why others are not run.
    fn playable(&self, cells: Vec<Cell>) -> (Vec<Cell>, Vec<String>) {
        let (mut there, mut skipped) = (Vec::new(), Vec::new());
        for cell in cells {
            let path = self.traces.as_ref().map(|folder| folder.join(&cell.trace));
            match path {
                _ if cell.trace.is_empty() => there.push(cell),
                Some(path) if path.is_file() => there.push(cell),
                Some(path) => skipped.push(format!("{}: no file {}", cell.name, path.display())),
                None => skipped.push(format!("{}: needs --traces DIR", cell.name)),
            }
        }
        (there, skipped)
    }

    /// Of each trace; what cannot be read is noticed when it is run.
    fn digests(&self, cells: &[Cell]) -> BTreeMap<String, String> {
        let paths = cells.iter().filter_map(|cell| self.trace_of(cell));
        let digest = |path: PathBuf| {
            let bytes = std::fs::read(&path).ok()?;
            Some((path.display().to_string(), sweep::sha256_hex(&bytes)))
        };
        paths.filter_map(digest).collect()
    }

    fn trace_of(&self, cell: &Cell) -> Option<PathBuf> {
        let folder = self.traces.as_ref().filter(|_| !cell.trace.is_empty())?;
        Some(folder.join(&cell.trace))
    }

    /// How many seeds play a cell.
    fn seeds(&self, cell: &Cell) -> usize {
        if cell.trace.is_empty() { self.grid.seeds as usize } else { 1 }
    }

    /// Each policy in each cell with each setting and the first seed.
    fn jobs(&self, cells: &[Cell]) -> Vec<Job<'_>> {
        (0..cells.len()).flat_map(|cell| self.jobs_of(cell, &[])).collect()
    }

    fn jobs_of(&self, cell: usize, rates: &[(u32, u64)]) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for protocol in &self.grid.protocols {
            for policy in 0..self.all().len() {
                jobs.extend((0..self.grid.settings.len()).map(|setting| Job {
                    cell,
                    protocol,
                    policy,
                    setting,
                    seed: self.seed,
                    rates: rates.to_vec(),
                    near: None,
                }));
            }
        }
        jobs
    }

    /// What is left to play with the other seeds: settings that the first seed has not shown to be
    /// far behind. What it has shown of those is struck.
    fn others<'a>(
        &self,
        jobs: Vec<Job<'a>>,
        played: &mut Vec<Played>,
        cells: &[Cell],
    ) -> Vec<Job<'a>> {
        if self.grid.seeds < 2 {
            return Vec::new();
        }
        let near_best = near_best(played);
        let mut near = near_best.iter();
        played.retain(|_| *near.next().expect("one of each"));
        let mut left = Vec::new();
        for job in jobs {
            let of_job = |one: &&Played| {
                (one.cell, one.policy, one.setting) == (job.cell, job.policy, job.setting)
                    && one.protocol == job.protocol
            };
            let figures: Vec<&Played> = played.iter().filter(of_job).collect();
            let is_left = |(percent, _): &(u32, u64)| {
                figures.iter().any(|one| one.figure == Figure::ResponseAt(*percent))
            };
            let rates: Vec<(u32, u64)> = job.rates.iter().copied().filter(is_left).collect();
            if figures.is_empty() {
                continue;
            }
            let near = figures[0].value.filter(|_| rates.is_empty());
            left.extend((1..self.seeds(&cells[job.cell]) as u64).map(|seed| Job {
                seed: self.seed.wrapping_add(seed),
                rates: rates.clone(),
                near,
                ..job
            }));
        }
        left
    }

    /// Open loads at shares of the best reference's throughput at 20 ms. Without any played yet,
    /// as many as there may be.
    fn shared_jobs(&self, cells: &[Cell], played: &[Played]) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        let judged = &self.grid.protocols[0];
        let names = self.all();
        let rows = score(cells, &self.against, &names, &self.grid.settings, judged, played);
        let open = cells.iter().enumerate().filter(|(_, cell)| cell.kind == Kind::Open);
        for (index, cell) in open {
            let of_cell = rows.iter().find(|row| row.cell == cell.name);
            let limit = of_cell.and_then(|row| row.reference);
            let rate =
                |percent: u32| limit.map_or(0, |x| (x * f64::from(percent) / 100.0) as u64).max(1);
            if limit.is_some() || played.is_empty() {
                let shares = SHARES.into_iter().step_by(self.grid.every_share);
                let rates: Vec<_> = shares.map(|percent| (percent, rate(percent))).collect();
                jobs.extend(self.jobs_of(index, &rates));
            }
        }
        jobs
    }

    /// Plays jobs with the first seed, and then what is left with the others.
    fn play_seeds(
        &self,
        jobs: Vec<Job<'_>>,
        keys: &Keys<'_>,
        play: &Play<'_>,
        count: (&AtomicUsize, usize),
    ) -> Result<Vec<Played>, CompareError> {
        let mut played = self.play(&jobs, keys, play, count)?;
        let others = self.others(jobs, &mut played, keys.cells);
        played.extend(self.play(&others, keys, play, count)?);
        Ok(played)
    }

    fn play(
        &self,
        jobs: &[Job<'_>],
        keys: &Keys<'_>,
        play: &Play<'_>,
        (done, total): (&AtomicUsize, usize),
    ) -> Result<Vec<Played>, CompareError> {
        let names = self.all();
        (play.progress)(done.load(Ordering::Relaxed), total);
        let work = |job: &Job<'_>| -> Result<Vec<Played>, CompareError> {
            let setting = &self.grid.settings[job.setting].name;
            let place = format!(
                "{}, {}, {setting}, protocol {}, seed {}",
                keys.cells[job.cell].name, names[job.policy], job.protocol, job.seed
            );
            let measure = |rate| keys.measure(job, rate, play).map_err(|error| error.at(&place));
            let figures = figures(&keys.cells[job.cell], job, &measure)?;
            (play.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            let played = |Shown { figure, value, is_bound }| Played {
                cell: job.cell,
                protocol: job.protocol.to_string(),
                policy: job.policy,
                setting: job.setting,
                seed: job.seed,
                figure,
                value,
                is_bound,
            };
            Ok(figures.into_iter().map(played).collect())
        };
        let results = in_parallel(jobs, play.threads, &work, Result::is_err, &|_| {});
        Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Makes a run's options and keys.
struct Keys<'a> {
    tournament: &'a Tournament<'a>,
    cells: &'a [Cell],
    digests: BTreeMap<String, String>,
}

impl Keys<'_> {
    /// Whether a run can be made; its trace is not read.
    fn check(&self, job: &Job<'_>, rate: Option<u64>) -> Result<(), OptionError> {
        let mut options = self.options(job, rate)?;
        if self.tournament.own.contains_key(options.get("policy")) {
            options = sweep::with_own_policy(&options);
        }
        let config = options.build()?;
        if options.get("trace").is_empty() {
            make_source(&options, &config)?;
        }
        Ok(())
    }

    /// The options of a run.
    fn options(&self, job: &Job<'_>, rate: Option<u64>) -> Result<RunOptions, OptionError> {
        let (tournament, cell) = (self.tournament, &self.cells[job.cell]);
        let mut options = RunOptions::default();
        let own =
            [("policy", tournament.all()[job.policy].clone()), ("protocol", job.protocol.into())];
        let chosen = crate::reproduce::settings(&tournament.grid.settings[job.setting].options);
        let is_mean = cell.kind == Kind::Fixed || !job.rates.is_empty();
        let means = if is_mean { cell.means.as_slice() } else { &[] };
        let trace = tournament.trace_of(cell).map(|path| path.display().to_string());
        let seed = cell.trace.is_empty().then(|| job.seed.to_string());
        let more = [("trace", trace), ("seed", seed), ("iops", rate.map(|rate| rate.to_string()))];
        let more = more.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
        let own = own.into_iter().map(|(name, value)| (name.to_string(), value));
        let of_cell = cell.options.iter().chain(means).cloned();
        for (name, value) in of_cell.chain(chosen).chain(own).chain(more) {
            options.set(&name, &value)?;
        }
        Ok(options)
    }

    /// What a run shows. If dirty pages rise, a longer one decides: in a short one they may by
    /// chance.
    fn measure(
        &self,
        job: &Job<'_>,
        rate: Option<u64>,
        play: &Play<'_>,
    ) -> Result<Row, CompareError> {
        let mut options = self.options(job, rate)?;
        let row = self.row(&options, play)?;
        let is_closed = self.cells[job.cell].kind == Kind::Closed;
        match options.get("measure").parse::<f64>() {
            Ok(seconds) if row.rises && (is_closed || row.keeps_up()) => {
                options.set("measure", &(seconds * LONGER).to_string())?;
                self.row(&options, play)
            }
            _ => Ok(row),
        }
    }

    /// The row of a run, made if it is not there.
    fn row(&self, options: &RunOptions, play: &Play<'_>) -> Result<Row, CompareError> {
        let base = options.clone();
        let sweep = Sweep { base, axes: Vec::new(), seeds: 1 };
        let points = sweep.points(&self.digests, &self.tournament.own)?;
        let point = &points[0];
        if !play.dataset.has(&point.key) {
            play.dataset.put(&point.key, &sweep::row(point, play.run)?)?;
        }
        Ok(read(&play.dataset.path(&point.key))?)
    }
}

/// The figures that are judged, of a row in a file.
fn read(path: &Path) -> Result<Row, OptionError> {
    let failed = |why: &dyn std::fmt::Display| {
        OptionError::input(format!("{}: {why}. Remove it to run it again", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|why| failed(&why))?;
    let rows = destage_render::parquet_read(file).map_err(|why| failed(&why))?;
    let row: BTreeMap<String, _> =
        rows.into_iter().next().unwrap_or_default().into_iter().collect();
    let number = |name: &str| row.get(name).and_then(|value| value.as_f64());
    let wanted = |name: &str| number(name).ok_or_else(|| failed(&format!("it has no {name}")));
    Ok(Row {
        iops: wanted("iops")?,
        target: number("target_iops"),
        measured_s: wanted("measured_s")?,
        mean_ms: wanted("response_mean_ms")?,
        host_wait_ms: wanted("host_wait_mean_ms")?,
        rises: row.get("balance").and_then(|value| value.as_str()) == Some(RISING),
    })
}

/// Of each figure: whether no other setting has shown a much better one.
fn near_best(played: &[Played]) -> Vec<bool> {
    let rivals = |one: &Played, other: &Played| {
        (one.cell, one.policy, one.figure) == (other.cell, other.policy, other.figure)
            && one.protocol == other.protocol
    };
    let is_far = |one: &Played, best: f64| match one.value {
        None => true,
        Some(own) if one.figure.more_is_better() => own < best * (1.0 - BEHIND),
        Some(own) => own > best * (1.0 + BEHIND),
    };
    let is_near = |one: &Played| {
        let mut others = played.iter().filter(|other| rivals(one, other));
        !others.any(|other| other.value.is_some_and(|value| is_far(one, value)))
    };
    played.iter().map(is_near).collect()
}

/// The cells of which the rates end before the response time is [`LEVEL_MS`], a sentence each.
fn ends_of_rates(cells: &[Cell], card: &ProtocolCard) -> Vec<String> {
    let mut said = Vec::new();
    for row in &card.rows {
        let of_row = card.totals.iter().zip(&row.entries).filter(|(_, entry)| entry.is_bound);
        let names: Vec<&str> = of_row.map(|(total, _)| total.policy.as_str()).collect();
        let cell = cells.iter().find(|cell| cell.name == row.cell);
        let Some(last) = cell.and_then(|cell| cell.rates.last()) else { continue };
        if names.is_empty() {
            continue;
        }
        let then = match row.reference {
            None => "A reference is one of them, so the cell compares nothing.",
            Some(_) => "Their ratios are lower bounds.",
        };
        said.push(format!(
            "{}, protocol {}: the rates end at {last}, where the mean is still within 20 ms with \
             {}. {then} Extend the cell's rates in the grid",
            row.cell,
            card.protocol,
            names.join(", ")
        ));
    }
    said
}

/// A figure that a policy shows in a cell.
struct Shown {
    figure: Figure,
    value: Option<f64>,
    /// The rates end there: it may be more.
    is_bound: bool,
}

/// What a policy shows in a cell, with one setting and seed.
fn figures(
    cell: &Cell,
    job: &Job<'_>,
    measure: &dyn Fn(Option<u64>) -> Result<Row, CompareError>,
) -> Result<Vec<Shown>, CompareError> {
    let shown = |figure, value| Shown { figure, value, is_bound: false };
    if !job.rates.is_empty() {
        let at = |(percent, rate): &(u32, u64)| {
            let row = measure(Some(*rate))?;
            Ok(shown(Figure::ResponseAt(*percent), row.is_served().then_some(row.mean_ms)))
        };
        return job.rates.iter().map(at).collect();
    }
    Ok(vec![match cell.kind {
        Kind::Open => {
            let found = throughput_at(&cell.rates, job.near, &|rate| measure(Some(rate)))?;
            let is_bound = found.is_some_and(|found| found.is_bound);
            let value = found.map(|found| found.iops);
            Shown { figure: Figure::ThroughputAt20Ms, value, is_bound }
        }
        Kind::Closed => shown(Figure::Throughput, Some(measure(None)?.iops)),
        Kind::Fixed => {
            let row = measure(None)?;
            shown(Figure::Response, row.is_served().then_some(row.mean_ms))
        }
    }])
}

/// A throughput that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    iops: f64,
    /// No rate was too much: it may be more.
    is_bound: bool,
}

/// The throughput at which the mean response time is [`LEVEL_MS`], by bisection of the rates: the
/// load's behaviour worsens with its rate. Interpolated if the next rate is served, and only
/// slower. `None` if the first rate is too much. It begins `near` a throughput, if there is one,
/// and widens its steps from there.
fn throughput_at<E>(
    rates: &[u64],
    near: Option<f64>,
    measure: &dyn Fn(u64) -> Result<Row, E>,
) -> Result<Option<Found>, E> {
    let (mut good, mut bad) = (None, None);
    let (mut low, mut high) = (0, rates.len());
    let mut next = near.map(|near| rates.partition_point(|rate| *rate as f64 <= near));
    let mut step = 1;
    while low < high {
        let middle =
            next.filter(|at| (low..high).contains(at)).unwrap_or(usize::midpoint(low, high));
        let row = measure(rates[middle])?;
        if row.is_served() && row.mean_ms <= LEVEL_MS {
            (good, low) = (Some(row), middle + 1);
            next = next.map(|_| middle + step);
        } else {
            (bad, high) = (Some(row), middle);
            next = next.map(|_| middle.saturating_sub(step));
        }
        step *= 2;
    }
    let Some(good) = good else { return Ok(None) };
    let is_bound = bad.is_none();
    let slower = bad.filter(|row| row.is_served() && row.iops > good.iops);
    let between = |row: Row| {
        let share = (LEVEL_MS - good.mean_ms) / (row.mean_ms - good.mean_ms);
        good.iops + (row.iops - good.iops) * share
    };
    Ok(Some(Found { iops: slower.map_or(good.iops, between), is_bound }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_report::model::BalanceState;
    use destage_report::tournament::{Entry, ScoreRow};
    use std::cell::Cell as Counter;
    use std::convert::Infallible;

    fn row(rate: u64, mean_ms: f64) -> Row {
        let target = Some(rate as f64);
        let (iops, host_wait_ms, rises) = (rate as f64, 0.0, false);
        Row { iops, target, measured_s: 1e9, mean_ms, host_wait_ms, rises }
    }

    fn found(limit: f64, near: Option<f64>, runs: &Counter<u32>) -> Option<f64> {
        let rates: Vec<u64> = (100..=2000).step_by(100).collect();
        let measure = |rate: u64| -> Result<Row, Infallible> {
            runs.set(runs.get() + 1);
            // 20 ms at the limit.
            Ok(row(rate, 20.0 * rate as f64 / limit))
        };
        let found = throughput_at(&rates, near, &measure).unwrap();
        assert!(found.is_none_or(|found| found.is_bound == (limit >= 2000.0)), "{limit}");
        found.map(|found| found.iops)
    }

    #[test]
    fn the_throughput_at_a_response_time_is_found_between_two_rates() {
        let runs = Counter::new(0);
        for limit in [150.0, 1_000.0, 1_234.0, 1_999.0] {
            runs.set(0);
            let got = found(limit, None, &runs).unwrap();
            assert!((got - limit).abs() < 1e-6, "{got} for {limit}");
            assert!(runs.get() <= 5, "{} runs of 20 rates", runs.get());
        }
        assert_eq!(found(50.0, None, &runs), None);
        assert_eq!(found(5_000.0, None, &runs), Some(2000.0), "as far as the rates go");
    }

    #[test]
    fn a_search_that_begins_near_finds_the_same_sooner() {
        let runs = Counter::new(0);
        for limit in [150.0, 1_000.0, 1_234.0, 1_999.0] {
            for near in [50.0, 100.0, limit, 1_310.0, 9_999.0] {
                runs.set(0);
                assert_eq!(found(limit, Some(near), &runs), found(limit, None, &Counter::new(0)));
                let most = if limit == near { 2 } else { 8 };
                assert!(runs.get() <= most, "{} runs for {limit} near {near}", runs.get());
            }
        }
        assert_eq!(found(50.0, Some(1_000.0), &runs), None);
        assert_eq!(found(5_000.0, Some(100.0), &runs), Some(2000.0));
    }

    #[test]
    fn a_cell_whose_rates_end_too_early_is_named() {
        let cell = Cell {
            name: "open".into(),
            kind: Kind::Open,
            rates: vec![100, 200],
            trace: String::new(),
            options: Vec::new(),
            means: Vec::new(),
        };
        let entry = |is_bound| Entry { is_bound, ..Entry::default() };
        let said = |bounds: [bool; 2], reference: Option<f64>| {
            let entries = bounds.map(entry).to_vec();
            let row = ScoreRow { cell: "open".into(), reference, entries, ..ScoreRow::default() };
            let names = ["ebb", "stow"].map(String::from);
            ends_of_rates(std::slice::from_ref(&cell), &ProtocolCard::of("safe", &names, vec![row]))
        };
        assert!(said([false, false], Some(150.0)).is_empty());
        let both = "open, protocol safe: the rates end at 200, where the mean is still within 20 \
                    ms with ebb, stow. A reference is one of them, so the cell compares nothing. \
                    Extend the cell's rates in the grid";
        assert_eq!(said([true, true], None), [both]);
        let of_ebb = said([true, false], Some(150.0));
        assert!(of_ebb[0].contains(" with ebb. Their ratios are lower bounds."), "{of_ebb:?}");
    }

    #[test]
    fn settings_that_are_far_behind_play_no_other_seed() {
        let played = |policy, setting, figure, value| Played {
            cell: 0,
            protocol: "safe".into(),
            policy,
            setting,
            seed: 1,
            figure,
            value,
            is_bound: false,
        };
        let rate = |policy, setting, value| played(policy, setting, Figure::Throughput, value);
        let time = |setting, value| played(0, setting, Figure::ResponseAt(60), Some(value));
        let all = [
            rate(0, 0, Some(100.0)),
            rate(0, 1, Some(91.0)),
            rate(0, 2, Some(89.0)),
            rate(0, 3, None),
            rate(1, 0, Some(50.0)),
            rate(2, 0, None),
            time(0, 10.0),
            time(1, 10.9),
            time(2, 11.1),
        ];
        let near = near_best(&all);
        assert_eq!(near, [true, true, false, false, true, true, true, true, false]);
    }

    #[test]
    fn what_is_not_served_does_not_count_and_nothing_is_interpolated_to_it() {
        let rates = [100, 200, 300];
        let measure = |rate: u64| -> Result<Row, Infallible> {
            Ok(Row { host_wait_ms: if rate > 200 { 1.5 } else { 0.0 }, ..row(rate, 5.0) })
        };
        let found = Found { iops: 200.0, is_bound: false };
        assert_eq!(throughput_at(&rates, None, &measure).unwrap(), Some(found));
        assert!(!Row { iops: 98.0, ..row(100, 1.0) }.is_served());
        assert!(Row { iops: 99.0, ..row(100, 1.0) }.is_served());
        assert!(Row { target: None, rises: true, ..row(100, 1.0) }.is_served());
        assert!(!Row { rises: true, ..row(100, 1.0) }.is_served(), "the NVS only postpones it");
        assert_eq!(RISING, BalanceState::Rising.to_string());
        let short = Row { iops: 95.0, measured_s: 100.0, ..row(100, 1.0) };
        assert!(
            !short.is_served() && Row { iops: 97.0, ..short }.is_served(),
            "chance: 3 a second"
        );
    }
}
