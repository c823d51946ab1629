//! What a cache must reach, as in `p99<30ms` or `reads.p99<20ms,full<1%`.

use crate::options::OptionError;
use crate::settling::{SERVED, reaches};
use destage_report::advice::AdvisedRun;
use destage_report::model::{Latency, RunReport};

/// Which requests a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    All,
    Reads,
    Writes,
}

/// One figure.
#[derive(Clone, Copy, Debug)]
enum GoalFigure {
    /// A response time in ms, and the number of requests that it needs at least.
    Response(Class, OfLatency, u64),
    /// Time in which a write waited for space, in per cent.
    Full,
}

/// A figure and what it must stay below.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    figure: GoalFigure,
    limit: f64,
}

/// A goal: every part must hold.
#[derive(Clone, Debug)]
pub struct Goal {
    /// As written.
    pub text: String,
    parts: Vec<Part>,
}

/// A run measured against a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The figure farthest from its limit.
    pub figure: String,
    /// Its value.
    pub value: f64,
    /// Its value over its limit.
    pub ratio: f64,
    /// Why the goal is missed although the figure meets it: the load was not served.
    pub why: String,
}

impl Judgement {
    /// Whether the goal is reached.
    pub fn reached(&self) -> bool {
        self.ratio < 1.0 && self.why.is_empty()
    }
}

/// A figure of a response time, in ms.
type OfLatency = fn(&Latency) -> f64;

/// Figures by name, and the number of requests that each needs at least: with it, ten requests are
/// beyond a percentile. The mean and the maximum need as many as the median.
const RESPONSES: [(&str, OfLatency, u64); 6] = [
    ("mean", |l| l.mean_ms, 20),
    ("p50", |l| l.p50_ms, 20),
    ("p95", |l| l.p95_ms, 200),
    ("p99", |l| l.p99_ms, 1000),
    ("p99.9", |l| l.p999_ms, 10_000),
    ("max", |l| l.max_ms, 20),
];

impl Goal {
    /// Reads it.
    ///
    /// # Errors
    /// An unknown figure, a limit without a unit, or one that no run or every run reaches.
    pub fn parse(text: &str) -> Result<Goal, OptionError> {
        let parts = text.split(',').map(|text| -> Result<Part, OptionError> {
            let part = parse_part(text.trim()).ok_or_else(|| {
                OptionError::usage(format!(
                    "--goal takes FIGURE<LIMIT, more of them joined by commas, where FIGURE is \
                     [reads.|writes.]mean, p50, p95, p99, p99.9 or max with a LIMIT in us, ms or \
                     s, or full with one in %: not `{text}`"
                ))
            })?;
            part.check(text.trim())?;
            Ok(part)
        });
        Ok(Goal { text: text.to_string(), parts: parts.collect::<Result<_, _>>()? })
    }

    /// Judges a run.
    ///
    /// # Errors
    /// The run has no requests of the kind that the goal is about.
    pub fn judge(&self, run: &RunReport) -> Result<Judgement, OptionError> {
        let mut worst: Option<Judgement> = None;
        for part in &self.parts {
            let value = part.value(run).ok_or_else(|| {
                OptionError::input(format!(
                    "the load has no requests in the measured window that `{}` is about",
                    part.name
                ))
            })?;
            let ratio = value / part.limit;
            if worst.as_ref().is_none_or(|worst| ratio > worst.ratio) {
                let (figure, why) = (part.name.clone(), String::new());
                worst = Some(Judgement { figure, value, ratio, why });
            }
        }
        let mut worst = worst.expect("a goal has a part");
        if let Some(target) = run.target_iops
            && !reaches(SERVED, target, run.iops, run.measured_s)
        {
            worst.why = format!("overloaded: {:.0} of {target:.0} I/O/s served", run.iops);
        } else if let Some(waited) = run.host_wait.too_much(run.response.all.count) {
            worst.why = waited;
        }
        Ok(worst)
    }

    /// A warning for each figure that a run has of too few requests; `more` is the way out.
    pub fn of_too_few(&self, run: &AdvisedRun, more: &str) -> Vec<String> {
        let warning = |part: &Part| {
            let GoalFigure::Response(class, _, least) = part.figure else { return None };
            let (count, what) = match class {
                Class::All => (run.reads + run.writes, "requests"),
                Class::Reads => (run.reads, "reads"),
                Class::Writes => (run.writes, "writes"),
            };
            let name = &part.name;
            let said = format!("{count} {what} only, and needs at least {least}: {more}");
            (count < least).then(|| format!("the goal's {name} is of {said}"))
        };
        self.parts.iter().filter_map(warning).collect()
    }
}

impl Part {
    /// Refuses a limit that every run reaches, or none.
    fn check(&self, text: &str) -> Result<(), OptionError> {
        let limit = self.limit;
        let message = match self.figure {
            GoalFigure::Full if limit > 0.0 && limit <= 100.0 => return Ok(()),
            GoalFigure::Full => format!(
                "--goal {text}: full is a share of the time. Give a limit above 0 and at most \
                 100 %, e.g. full<1%"
            ),
            GoalFigure::Response(..) if limit > 0.0 && limit.is_finite() => return Ok(()),
            GoalFigure::Response(..) => format!(
                "--goal {text}: a response time is above 0. Give a limit above 0, e.g. {}<30ms",
                self.name
            ),
        };
        Err(OptionError::usage(message))
    }

    fn value(&self, run: &RunReport) -> Option<f64> {
        let latency = |class: Class| match class {
            Class::All => &run.response.all,
            Class::Reads => &run.response.reads,
            Class::Writes => &run.response.writes,
        };
        match self.figure {
            GoalFigure::Response(class, get, _) => {
                let latency = latency(class);
                (latency.count > 0).then(|| get(latency))
            }
            GoalFigure::Full => Some(100.0 * run.time_full),
        }
    }
}

fn parse_part(text: &str) -> Option<Part> {
    let (name, limit) = text.split_once('<')?;
    let (name, limit) = (name.trim(), limit.trim());
    let (class, short) = match name.split_once('.') {
        Some(("reads", rest)) => (Class::Reads, rest),
        Some(("writes", rest)) => (Class::Writes, rest),
        _ => (Class::All, name),
    };
    let (figure, limit) = if name == "full" {
        (GoalFigure::Full, limit.strip_suffix('%')?.trim().parse::<f64>().ok()?)
    } else {
        let (_, get, least) = RESPONSES.iter().find(|(known, ..)| *known == short)?;
        let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
        let (number, unit) =
            units.iter().find_map(|(unit, ms)| Some((limit.strip_suffix(unit)?, ms)))?;
        (GoalFigure::Response(class, *get, *least), number.trim().parse::<f64>().ok()? * unit)
    };
    Some(Part { name: name.to_string(), figure, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_figures_with_limits() {
        let mut run = RunReport::default();
        run.response.reads = Latency { count: 9, p99_ms: 15.0, ..Latency::default() };
        run.response.all = Latency { count: 9, p99_ms: 29.0, ..Latency::default() };
        run.time_full = 0.02;
        let judge = |text: &str| Goal::parse(text).unwrap().judge(&run).unwrap();
        assert!(judge("p99<30ms").reached() && !judge("p99 < 29 ms").reached());
        run.response.writes = Latency { count: 9, p95_ms: 7.0, ..Latency::default() };
        let judge = |text: &str| Goal::parse(text).unwrap().judge(&run).unwrap();
        assert!(judge("writes.p95<8ms").reached() && !judge("writes.p95<7ms").reached());
        assert!(judge("reads.p99<0.02s").reached() && !judge("reads.p99<14000us").reached());
        let worst = judge("p99<30ms, full<1%");
        assert_eq!((worst.figure.as_str(), worst.ratio), ("full", 2.0));
        for bad in ["", "p99", "p98<1ms", "p99<30", "full<3ms", "p99<-1ms", "p99<0ms"] {
            assert!(Goal::parse(bad).is_err(), "{bad}");
        }
        assert!(Goal::parse("writes.mean<1ms").unwrap().judge(&RunReport::default()).is_err());
    }

    #[test]
    fn a_limit_that_no_run_or_every_run_reaches_is_refused() {
        for bad in ["full<200%", "full<100.1%", "full<0%", "full<-1%", "full<nan%"] {
            let why = Goal::parse(bad).unwrap_err().to_string();
            assert!(why.contains(&format!("--goal {bad}: full is a share of the time")), "{why}");
        }
        for bad in ["p99<0ms", "p99<-1ms", "p99<infs", "p99<nanms"] {
            let why = Goal::parse(&format!("full<1%, {bad}")).unwrap_err().to_string();
            assert!(why.contains(&format!("--goal {bad}: a response time is above 0")), "{why}");
        }
        assert!(Goal::parse("full<100%").is_ok());
    }

    #[test]
    fn figures_of_too_few_requests_are_named() {
        let run = AdvisedRun { reads: 15, writes: 985, ..AdvisedRun::default() };
        let warned = |goal: &str| Goal::parse(goal).unwrap().of_too_few(&run, "record more");
        assert_eq!(
            warned("p99<1s,p99.9<2s,reads.mean<1s,full<1%,writes.p95<1s"),
            [
                "the goal's p99.9 is of 1000 requests only, and needs at least 10000: record more",
                "the goal's reads.mean is of 15 reads only, and needs at least 20: record more",
            ]
        );
    }

    #[test]
    fn a_load_that_is_not_served_reaches_nothing() {
        let (target_iops, measured_s) = (Some(1000.0), 100.0);
        let mut run = RunReport { target_iops, measured_s, iops: 900.0, ..RunReport::default() };
        run.response.all = Latency { count: 9, p99_ms: 1.0, ..Latency::default() };
        let reached =
            |run: &RunReport| Goal::parse("p99<30ms").unwrap().judge(run).unwrap().reached();
        assert!(!reached(&run));
        // Of 3,000 arrivals 2,850 may be chance.
        assert!(reached(&RunReport { iops: 950.0, measured_s: 3.0, ..run }));
    }
}
