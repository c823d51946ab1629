//! The grid of a tournament, as its file in `specs/tournament` says it (docs/tournament.md).

use crate::axis::parse_sweep;
use crate::options::{OptionError, RunOptions};
use crate::reproduce::item::Options;
use crate::reproduce::runner::OptionValues;
use crate::reproduce::settings;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A grid file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grid {
    /// Heading of the score card.
    pub title: String,
    /// Seeds per cell, from the base seed upwards; traces have one.
    pub seeds: u32,
    /// Protocols; the first is the one that is judged.
    pub protocols: Vec<String>,
    /// Options common to all cells.
    #[serde(default)]
    pub options: Options,
    /// Settings: each policy plays a cell with its best of them.
    pub settings: Vec<Setting>,
    /// What a quick tournament does otherwise.
    #[serde(default)]
    pub quick: Quick,
    /// The cells.
    pub cells: Vec<CellFile>,
    /// Each of this number of the rates is searched.
    #[serde(skip, default = "one")]
    every_rate: usize,
    /// Response times are compared at each of this number of the shares.
    #[serde(skip, default = "one")]
    pub(super) every_share: usize,
    /// Options where the figure is a mean response time, instead of those common to all cells.
    #[serde(skip)]
    means: Options,
    /// Only cells whose names have one of these texts in them; empty: all.
    #[serde(skip)]
    texts: Vec<String>,
}

fn one() -> usize {
    1
}

/// What a quick tournament does otherwise; it has one seed, and the first protocol.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quick {
    /// It has this many of the settings; 0: all.
    pub settings: usize,
    /// Of the rates of open loads it searches each of this number; 0: every one.
    pub every_rate: usize,
    /// Of the shares of the reference's throughput it takes each of this number; 0: every one.
    pub every_share: usize,
    /// Options instead of those common to all cells.
    pub options: Options,
    /// The same, where the figure is a mean response time.
    pub means: Options,
}

/// Options that a policy may choose.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// The options.
    pub options: Options,
}

/// What is measured in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An open load: the throughput at a mean response time of 20 ms, and the mean response times
    /// at shares of the reference's.
    Open,
    /// A closed loop, or more than can be served: its throughput.
    Closed,
    /// A load of its own rate, or a trace: its mean response time.
    Fixed,
}

/// A cell, or several of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CellFile {
    /// Name; a cell of several has its options behind it.
    pub name: String,
    /// What is measured.
    pub kind: Kind,
    /// Of an open load: the rates that are searched, as FIRST..LAST..STEP.
    #[serde(default)]
    pub rates: String,
    /// A trace, in the folder of traces.
    #[serde(default)]
    pub trace: String,
    /// Options.
    #[serde(default)]
    pub options: Options,
    /// Options of which every combination is a cell.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<toml::Value>>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its name, unique in the grid.
    pub name: String,
    /// What is measured.
    pub kind: Kind,
    /// Rates that are searched, rising.
    pub rates: Vec<u64>,
    /// The name of its trace; empty without one.
    pub trace: String,
    /// Its options, those of the grid included.
    pub options: OptionValues,
    /// Others, where the figure is a mean response time.
    pub means: OptionValues,
}

/// The grid that is part of the program.
const OWN: &str = include_str!("../../../../specs/tournament/grid.toml");

impl Grid {
    /// The grid that is part of the program.
    ///
    /// # Panics
    /// It does not: a test reads it.
    #[must_use]
    pub fn own() -> Grid {
        Grid::parse(OWN).expect("tested")
    }

    /// The quick form of it.
    #[must_use]
    pub fn quickly(mut self) -> Grid {
        self.seeds = 1;
        self.protocols.truncate(1);
        self.settings.truncate(if self.quick.settings == 0 {
            usize::MAX
        } else {
            self.quick.settings
        });
        self.every_rate = self.quick.every_rate.max(1);
        self.every_share = self.quick.every_share.max(1);
        self.options.extend(self.quick.options.clone());
        self.means.clone_from(&self.quick.means);
        self.title += ", quick";
        self
    }

    /// A part of it: cells whose names have one of these texts in them, and these of its protocols,
    /// of which the first is judged. Empty lists: all.
    ///
    /// # Errors
    /// A text that no name has, or a protocol that the grid has not.
    pub fn part(mut self, cells: &[String], protocols: &[String]) -> Result<Grid, OptionError> {
        if let Some(name) = protocols.iter().find(|name| !self.protocols.contains(name)) {
            let known = self.protocols.join(", ");
            return Err(OptionError::usage(format!("the grid has no protocol `{name}`: {known}")));
        }
        if !protocols.is_empty() {
            self.protocols = protocols.to_vec();
        }
        let all = self.cells().map_err(OptionError::usage)?;
        let has = |text: &str| !text.is_empty() && all.iter().any(|cell| cell.name.contains(text));
        if let Some(text) = cells.iter().find(|text| !has(text)) {
            let names: Vec<&str> = self.cells.iter().map(|file| file.name.as_str()).collect();
            let names = names.join("; ");
            return Err(OptionError::usage(format!("no cell is called `{text}`: {names}")));
        }
        self.texts = cells.to_vec();
        let left = self.cells().map_err(OptionError::usage)?.len();
        if left < all.len() {
            self.title += &format!(", {left} of {} cells", all.len());
        }
        Ok(self)
    }

    /// Reads a grid file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a grid.
    pub fn read(path: &Path) -> Result<Grid, OptionError> {
        let named = |why: &dyn std::fmt::Display| {
            let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            OptionError::input(format!("{}: {why}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|why| named(&why))?;
        Grid::parse(&text).map_err(|why| named(&why))
    }

    fn parse(text: &str) -> Result<Grid, String> {
        let grid: Grid = toml::from_str(text).map_err(|why| why.to_string())?;
        if grid.seeds == 0 || grid.protocols.is_empty() || grid.settings.is_empty() {
            return Err("a grid has seeds, protocols and settings: one of each at least".into());
        }
        for (name, value) in
            settings(&grid.quick.options).iter().chain(&settings(&grid.quick.means))
        {
            RunOptions::default().set(name, value).map_err(|why| format!("quick: {why}"))?;
        }
        let cells = grid.cells()?;
        for (index, cell) in cells.iter().enumerate() {
            if cells[..index].iter().any(|other| other.name == cell.name) {
                return Err(format!("two cells are called {}", cell.name));
            }
            if let Some((option, _)) = cell.options.iter().find(|(name, _)| is_set_elsewhere(name))
            {
                return Err(format!("{}: {option} is not an option of a cell", cell.name));
            }
            let mut options = RunOptions::default();
            for (name, value) in &cell.options {
                options.set(name, value).map_err(|why| format!("{}: {why}", cell.name))?;
            }
        }
        Ok(grid)
    }

    /// All cells, those of several options one by one.
    ///
    /// # Errors
    /// A cell that contradicts itself.
    pub fn cells(&self) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for file in &self.cells {
            let open = file.kind == Kind::Open;
            let rates = match (open, file.rates.is_empty()) {
                (true, false) => rates(&file.rates).map_err(|why| format!("{}: {why}", file.name)),
                (false, true) => Ok(Vec::new()),
                (true, true) => Err(format!("{}: an open load needs rates", file.name)),
                (false, false) => Err(format!("{}: rates are for open loads only", file.name)),
            }?;
            let mut combinations = vec![(file.name.clone(), self.options.clone())];
            combinations[0].1.extend(file.options.clone());
            for (option, values) in &file.each {
                let of_value = |value: &toml::Value| {
                    let all = combinations.iter().cloned();
                    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                    all.map(move |(name, mut options)| {
                        options.insert(option.clone(), value.clone());
                        (format!("{name}, {option} {shown}"), options)
                    })
                    .collect::<Vec<_>>()
                };
                combinations = values.iter().flat_map(of_value).collect();
            }
            let mut means = self.means.clone();
            means.retain(|name, _| {
                !file.options.contains_key(name) && !file.each.contains_key(name)
            });
            let means = settings(&means);
            cells.extend(combinations.into_iter().map(|(name, options)| Cell {
                name,
                kind: file.kind,
                rates: rates.iter().step_by(self.every_rate).copied().collect(),
                trace: file.trace.clone(),
                options: settings(&options),
                means: means.clone(),
            }));
        }
        let has = |name: &str| self.texts.iter().any(|text| name.contains(text.as_str()));
        cells.retain(|cell| self.texts.is_empty() || has(&cell.name));
        Ok(cells)
    }
}

/// Options that the tournament itself sets.
fn is_set_elsewhere(name: &str) -> bool {
    ["policy", "protocol", "seed", "trace", "as"].contains(&name)
}

fn rates(text: &str) -> Result<Vec<u64>, String> {
    let (_, values) = parse_sweep(&format!("rates={text}")).map_err(|why| why.to_string())?;
    let rates: Result<Vec<u64>, _> = values.iter().map(|value| value.parse::<u64>()).collect();
    match rates {
        Ok(rates) if rates.is_sorted() && !rates.is_empty() => Ok(rates),
        _ => Err(format!("rates are FIRST..LAST..STEP, not `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "small"
        seeds = 1
        protocols = ["safe"]
        settings = [{ name = "deep", options = { queue-depth = 128 } }]
        [options]
        nvs = 4096
        [[cells]]
        name = "open"
        kind = "open"
        rates = "100..300..100"
        each = { window = [8, 32], level = ["5", "10"] }
        [[cells]]
        name = "closed"
        kind = "closed"
        options = { workload = "random:threads=4" }
    "#;

    #[test]
    fn the_drawn_grid_has_forty_cells_that_the_own_grid_has_not() {
        let drawn = include_str!("../../../../specs/tournament/drawn.toml");
        let drawn = Grid::parse(drawn).unwrap().cells().unwrap();
        let own = Grid::own().cells().unwrap();
        assert_eq!(drawn.len(), 40);
        let new = |cell: &&Cell| own.iter().all(|other| other.options != cell.options);
        assert_eq!(drawn.iter().filter(new).count(), 40);
    }

    #[test]
    fn every_combination_of_options_is_a_cell() {
        let cells = Grid::parse(SMALL).unwrap().cells().unwrap();
        let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "open, level 5, window 8",
                "open, level 10, window 8",
                "open, level 5, window 32",
                "open, level 10, window 32",
                "closed"
            ]
        );
        assert_eq!(cells[0].rates, [100, 200, 300]);
        assert!(cells[2].options.contains(&("window".into(), "32".into())));
        assert!(cells[4].options.contains(&("nvs".into(), "4096".into())));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |from: &str, to: &str, why: &str| {
            assert!(SMALL.contains(from));
            let error = Grid::parse(&SMALL.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused("rates = \"100..300..100\"", "", "open: an open load needs rates");
        refused("100..300..100", "300..100", "rates are FIRST..LAST..STEP");
        refused("kind = \"closed\"", "kind = \"closed\"\nrates = \"1..2..1\"", "open loads only");
        refused("name = \"closed\"", "name = \"open, level 5, window 8\"", "two cells are called");
        refused("nvs = 4096", "policy = \"wow\"", "policy is not an option of a cell");
        refused("nvs = 4096", "nvz = 4096", "unknown option");
        let quick = |line: &str| format!("[quick]\n{line}\n[options]");
        refused("[options]", &quick("means = { measured = 9 }"), "quick: unknown option");
        refused("[options]", &quick("options = { measured = 9 }"), "quick: unknown option");
        refused("seeds = 1", "seeds = 0", "one of each at least");
        refused("title =", "titel =", "unknown field");
    }

    #[test]
    fn a_part_has_the_cells_and_protocols_that_are_named() {
        let small = || Grid::parse(SMALL).unwrap();
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let part = small().part(&texts(&["level 10", "closed"]), &[]).unwrap();
        let names: Vec<String> = part.cells().unwrap().into_iter().map(|cell| cell.name).collect();
        assert_eq!(names, ["open, level 10, window 8", "open, level 10, window 32", "closed"]);
        assert_eq!((part.title.as_str(), part.protocols.len()), ("small, 3 of 5 cells", 1));
        let refused = |cells: &[&str], protocols: &[&str]| {
            let part = small().part(&texts(cells), &texts(protocols));
            part.unwrap_err().to_string()
        };
        assert_eq!(refused(&["open", "shut"], &[]), "no cell is called `shut`: open; closed");
        assert_eq!(refused(&[""], &[]), "no cell is called ``: open; closed");
        assert_eq!(refused(&[], &["papers"]), "the grid has no protocol `papers`: safe");
        let own = Grid::own().part(&[], &texts(&["papers"])).unwrap();
        assert_eq!((own.protocols, own.title), (texts(&["papers"]), Grid::own().title));
    }

    #[test]
    fn the_grid_of_the_program_is_read_and_its_quick_form_has_the_same_cells() {
        let grid = Grid::own();
        let quick = grid.clone().quickly();
        let names = |grid: &Grid| -> Vec<String> {
            grid.cells().unwrap().into_iter().map(|cell| cell.name).collect()
        };
        assert_eq!(names(&grid), names(&quick));
        assert_eq!((quick.seeds, quick.protocols.len(), quick.settings.len()), (1, 1, 2));
        let rates = |grid: &Grid| grid.cells().unwrap()[0].rates.clone();
        assert_eq!(rates(&quick)[1] - rates(&quick)[0], 4 * (rates(&grid)[1] - rates(&grid)[0]));
        let measured = |seconds: &str| ("measure".to_string(), seconds.to_string());
        let cells = quick.cells().unwrap();
        assert!(cells[0].options.contains(&measured("60")));
        assert_eq!(cells[0].means, [measured("200")]);
        assert_eq!(grid.cells().unwrap()[0].means, []);
        let own = cells.iter().find(|cell| cell.options.contains(&measured("all"))).unwrap();
        assert_eq!(own.means, [], "what a cell says itself counts");
        assert_eq!((grid.every_share, quick.every_share), (1, 3));
    }
}
