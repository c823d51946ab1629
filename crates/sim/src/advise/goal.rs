//! What a cache must reach, as in `p99<30ms` or `reads.p99<20ms,full<1%`.

use crate::options::OptionError;
use crate::settling::{SERVED, reaches};
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
    /// A response time in ms.
    Response(Class, OfLatency),
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

const RESPONSES: [(&str, OfLatency); 6] = [
    ("mean", |l| l.mean_ms),
    ("p50", |l| l.p50_ms),
    ("p95", |l| l.p95_ms),
    ("p99", |l| l.p99_ms),
    ("p99.9", |l| l.p999_ms),
    ("max", |l| l.max_ms),
];

impl Goal {
    /// Reads it.
    ///
    /// # Errors
    /// An unknown figure, or a limit without a unit.
    pub fn parse(text: &str) -> Result<Goal, OptionError> {
        let parts = text.split(',').map(|part| {
            parse_part(part.trim()).ok_or_else(|| {
                OptionError::usage(format!(
                    "--goal takes FIGURE<LIMIT, more of them joined by commas, where FIGURE is \
                     [reads.|writes.]mean, p50, p95, p99, p99.9 or max with a LIMIT in us, ms or \
                     s, or full with one in %: not `{part}`"
                ))
            })
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
}

impl Part {
    fn value(&self, run: &RunReport) -> Option<f64> {
        let latency = |class: Class| match class {
            Class::All => &run.response.all,
            Class::Reads => &run.response.reads,
            Class::Writes => &run.response.writes,
        };
        match self.figure {
            GoalFigure::Response(class, get) => {
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
        let (_, get) = RESPONSES.iter().find(|(known, _)| *known == short)?;
        let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
        let (number, unit) =
            units.iter().find_map(|(unit, ms)| Some((limit.strip_suffix(unit)?, ms)))?;
        (GoalFigure::Response(class, *get), number.trim().parse::<f64>().ok()? * unit)
    };
    let name = name.to_string();
    (limit > 0.0 && limit.is_finite()).then_some(Part { name, figure, limit })
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
