//! From what was played to the rows of a score card.

use super::grid::{Cell, Setting};
use destage_report::tournament::{Entry, Figure, ScoreRow};
use std::collections::{BTreeMap, BTreeSet};

/// One figure of a policy in a cell, with one setting and seed.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) cell: usize,
    pub(super) protocol: String,
    pub(super) policy: usize,
    pub(super) setting: usize,
    pub(super) seed: u64,
    pub(super) figure: Figure,
    /// `None`: the load was not served.
    pub(super) value: Option<f64>,
    /// The rates of the cell end there: it may be more.
    pub(super) is_bound: bool,
}

/// Means below this count as this, in ms: times are recorded in microseconds. A load that only
/// meets a cache may have a mean of 0, which has no ratio.
const LEAST: f64 = 0.001;

/// A policy's values by seed, with its best setting.
#[derive(Default)]
struct Best {
    setting: usize,
    median: Option<f64>,
    by_seed: BTreeMap<u64, Option<f64>>,
    /// The value of a seed may be more.
    is_bound: bool,
}

/// The rows under a protocol: each figure of each cell, in the order of the cells and figures.
pub(super) fn score(
    cells: &[Cell],
    against: &[String],
    policies: &[String],
    settings: &[Setting],
    protocol: &str,
    played: &[Played],
) -> Vec<ScoreRow> {
    let mut rows = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let of_cell: Vec<&Played> =
            played.iter().filter(|p| p.cell == index && p.protocol == protocol).collect();
        let figures: BTreeSet<Figure> = of_cell.iter().map(|played| played.figure).collect();
        for figure in figures {
            let best = (0..policies.len()).map(|policy| {
                best(figure, of_cell.iter().filter(|p| p.figure == figure && p.policy == policy))
            });
            let best: Vec<Best> = best.collect();
            let references: Vec<&Best> = policies
                .iter()
                .zip(&best)
                .filter(|(name, _)| against.contains(name))
                .map(|(_, best)| best)
                .collect();
            let entries = best.iter().map(|own| Entry {
                setting: settings[own.setting].name.clone(),
                value: own.median,
                is_bound: own.is_bound,
                ..ratio(figure, own, &references)
            });
            let reference = better(figure, references.iter().filter_map(|r| r.median));
            rows.push(ScoreRow {
                cell: cell.name.clone(),
                figure,
                reference: reference.filter(|_| is_known(&references)),
                entries: entries.collect(),
            });
        }
    }
    rows
}

/// The setting with the best median. One that does not serve every seed is behind those that do.
fn best<'a>(figure: Figure, played: impl Iterator<Item = &'a &'a Played>) -> Best {
    let mut settings: BTreeMap<usize, Best> = BTreeMap::new();
    for played in played {
        let own = settings.entry(played.setting).or_default();
        own.by_seed.insert(played.seed, played.value);
        own.is_bound |= played.is_bound;
    }
    let mut best = Best::default();
    for (setting, Best { by_seed, is_bound, .. }) in settings {
        let values: Option<Vec<f64>> = by_seed.values().copied().collect();
        let median = values.and_then(median);
        let wins = match (median, best.median) {
            (Some(own), Some(other)) => {
                if figure.more_is_better() {
                    own > other
                } else {
                    own < other
                }
            }
            (own, None) => own.is_some() || best.by_seed.is_empty(),
            (None, Some(_)) => false,
        };
        if wins {
            let is_bound = is_bound && median.is_some();
            best = Best { setting, median, by_seed, is_bound };
        }
    }
    best
}

fn better(figure: Figure, values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(if figure.more_is_better() { f64::max } else { f64::min })
}

/// Whether the rates of the cell have found what the better of the references reaches.
fn is_known(references: &[&Best]) -> bool {
    !references.iter().any(|reference| reference.is_bound)
}

/// Of each seed to the better of the references with that seed.
fn ratio(figure: Figure, own: &Best, references: &[&Best]) -> Entry {
    if !is_known(references) {
        return Entry::default();
    }
    let mut ratios = Vec::new();
    for (seed, value) in &own.by_seed {
        let others = references.iter().filter_map(|other| *other.by_seed.get(seed)?);
        let (Some(value), Some(other)) = (value, better(figure, others)) else {
            return Entry::default();
        };
        let (value, other) = (value.max(LEAST), other.max(LEAST));
        ratios.push(if figure.more_is_better() { value / other } else { other / value });
    }
    let most = ratios.iter().copied().fold(f64::MIN, f64::max);
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let spread = if ratios.is_empty() { 0.0 } else { most - least };
    Entry { ratio: median(ratios), spread, ..Entry::default() }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (count, middle) = (values.len(), values.len() / 2);
    match count {
        0 => None,
        _ if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Kind;
    use super::*;

    fn played(policy: usize, setting: usize, seed: u64, value: Option<f64>) -> Played {
        let (protocol, figure) = ("safe".to_string(), Figure::Throughput);
        Played { cell: 0, protocol, policy, setting, seed, figure, value, is_bound: false }
    }

    fn row(played: &[Played]) -> ScoreRow {
        rows(played).remove(0)
    }

    fn rows(played: &[Played]) -> Vec<ScoreRow> {
        let cell = Cell {
            name: "a".into(),
            kind: Kind::Closed,
            rates: Vec::new(),
            trace: String::new(),
            options: Vec::new(),
            means: Vec::new(),
        };
        let setting = |name: &str| Setting { name: name.into(), options: BTreeMap::new() };
        let names = ["ebb", "stow", "wow"].map(String::from);
        let settings = [setting("shallow"), setting("deep")];
        score(&[cell], &names[1..], &names, &settings, "safe", played)
    }

    /// A share may be played with some settings only, and those come later.
    #[test]
    fn figures_are_in_the_order_of_their_shares() {
        let at =
            |percent| Played { figure: Figure::ResponseAt(percent), ..played(0, 0, 1, Some(5.0)) };
        let first = Played { figure: Figure::ThroughputAt20Ms, ..at(60) };
        let figures = rows(&[at(60), at(80), first, at(70)]).into_iter().map(|row| row.figure);
        let shares = [60, 70, 80].map(Figure::ResponseAt);
        assert!(figures.eq([Figure::ThroughputAt20Ms].into_iter().chain(shares)));
    }

    #[test]
    fn a_policy_plays_with_its_best_setting_against_the_better_reference_of_each_seed() {
        let mut all = Vec::new();
        for (seed, stow, wow) in [(1, 100.0, 90.0), (2, 100.0, 110.0), (3, 105.0, 80.0)] {
            all.push(played(0, 0, seed, Some(50.0)));
            all.push(played(0, 1, seed, Some(120.0 + seed as f64)));
            all.push(played(1, 0, seed, Some(stow)));
            all.push(played(2, 0, seed, Some(wow)));
        }
        let row = row(&all);
        assert_eq!(row.reference, Some(100.0), "medians of stow and wow are 100 and 90");
        let ebb = &row.entries[0];
        assert_eq!((ebb.setting.as_str(), ebb.value), ("deep", Some(122.0)));
        // 121/100, 122/110, 123/105.
        assert!((ebb.ratio.unwrap() - 123.0 / 105.0).abs() < 1e-12);
        assert!((ebb.spread - (1.21 - 122.0 / 110.0)).abs() < 1e-12);
        assert!((row.entries[2].ratio.unwrap() - 0.9).abs() < 1e-12);
    }

    #[test]
    fn a_reference_at_the_end_of_the_rates_gives_no_ratio() {
        let shown = |policy, value, is_bound| Played {
            figure: Figure::ThroughputAt20Ms,
            is_bound,
            ..played(policy, 0, 1, Some(value))
        };
        let ended = row(&[shown(0, 200.0, true), shown(1, 200.0, true), shown(2, 150.0, false)]);
        assert_eq!(ended.reference, None);
        assert!(ended.entries.iter().all(|entry| entry.ratio.is_none() && !entry.misses(&ended)));
        assert_eq!(ended.entries[0].value, Some(200.0));
        let bounds: Vec<bool> = ended.entries.iter().map(|entry| entry.is_bound).collect();
        assert_eq!(bounds, [true, true, false]);
        // Only the policy is at the end: at least that.
        let open = row(&[shown(0, 200.0, true), shown(1, 100.0, false), shown(2, 80.0, false)]);
        assert_eq!((open.reference, open.entries[0].ratio), (Some(100.0), Some(2.0)));
        assert!(open.entries[0].is_bound);
    }

    #[test]
    fn a_mean_of_zero_counts_as_a_microsecond() {
        let shown = |policy, value| Played {
            figure: Figure::Response,
            ..played(policy, 0, 1, Some(value))
        };
        let ratios = |values: [f64; 3]| {
            let all = [shown(0, values[0]), shown(1, values[1]), shown(2, values[2])];
            row(&all).entries.iter().map(|entry| entry.ratio.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(ratios([0.0, 0.0, 0.0]), [1.0, 1.0, 1.0]);
        let near = |got: Vec<f64>, wanted: [f64; 3]| {
            let all = got.iter().zip(wanted).all(|(a, b)| (a / b - 1.0).abs() < 1e-12);
            assert!(all, "{got:?}");
        };
        near(ratios([0.0, 0.004, 0.002]), [2.0, 0.5, 1.0]);
        near(ratios([5.0, 0.0, 1.0]), [0.0002, 1.0, 0.001]);
    }

    #[test]
    fn a_setting_that_does_not_serve_every_seed_is_behind_those_that_do() {
        let all = [
            played(0, 0, 1, Some(500.0)),
            played(0, 0, 2, None),
            played(0, 1, 1, Some(10.0)),
            played(0, 1, 2, Some(10.0)),
            played(1, 0, 1, Some(20.0)),
            played(1, 0, 2, Some(20.0)),
            played(2, 0, 1, None),
            played(2, 0, 2, None),
        ];
        let row = row(&all);
        assert_eq!(row.entries[0].ratio, Some(0.5));
        assert_eq!((row.entries[2].value, row.entries[2].ratio), (None, None));
        assert!(row.entries[2].misses(&row) && row.entries[0].misses(&row));
    }
}
