//! The list of spec keys against the parser: every key that it knows, its range, its default.

use destage_disk::{DiskSpec, KEYS, REQUIRED, SpecKey};
use std::collections::BTreeSet;

/// Specs that have every table between them.
const FULL: [&str; 2] = [
    r#"
name = "a"
summary = "b"
source = "c"
heads = 2
rpm = 7200.0
head_switch_ms = 0.8
window = 8
scheduler = "sptf"
sectors = 100000
[overhead.hit]
read_ms = 0.1
read_after_write_ms = 0.1
write_ms = 0.1
write_after_read_ms = 0.1
[bus]
read_sector_ms = 0.01
write_sector_ms = 0.01
[host]
[read_ahead]
segments = 1
segment_sectors = 100
ahead_sectors = 100
[write_back]
capacity_sectors = 100
[media_cache]
sectors = 3000
place = "inner"
map_entries = 100
entry_sectors = 8
[shingled]
band_tracks = 5
stream_sectors = 100
[seek.fit]
one_cylinder_ms = 1.0
third_ms = 5.0
full_ms = 9.0
[zones.linear]
count = 2
outer_sectors = 200
inner_sectors = 100
"#,
    r#"
name = "a"
summary = "b"
source = "c"
heads = 2
rpm = 7200.0
head_switch_ms = 0.8
window = 8
scheduler = "sptf"
[seek.formula]
short_until = 10
short_ms = 1.0
short_sqrt_ms = 0.1
long_ms = 1.0
long_cylinder_ms = 0.01
[[zones.list]]
cylinders = 1000
sectors_per_track = 100
"#,
];

fn table(text: &str) -> toml::Table {
    text.parse().expect("TOML")
}

/// The table at a path of a spec, the first of a list; made empty if it is not there.
fn at<'a>(spec: &'a mut toml::Table, path: &[&str]) -> &'a mut toml::Table {
    path.iter().fold(spec, |table, name| {
        let entry = table.entry(name.to_string()).or_insert(toml::Value::Table(toml::Table::new()));
        match entry {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(list) => list[0].as_table_mut().expect("a table"),
            _ => panic!("{path:?} is not a table"),
        }
    })
}

fn parse(spec: &toml::Table) -> Result<DiskSpec, String> {
    DiskSpec::from_toml(&toml::to_string(spec).expect("TOML")).map_err(|error| error.to_string())
}

/// The spec that has a table, or the first.
fn spec_with(path: &[&str]) -> toml::Table {
    let with_seek_table = FULL[1].replacen("[seek.formula]", "[seek.table]", 1);
    let (before, rest) = with_seek_table.split_once("short_until").expect("a formula");
    let (_, zones) = rest.split_once("[[zones").expect("zones");
    let with_seek_table = format!("{before}points = [[1, 1.0]]\n[[zones{zones}");
    let has = |spec: &&toml::Table| {
        let inner = path.iter().try_fold(*spec, |table, name| match table.get(*name) {
            Some(toml::Value::Table(inner)) => Some(inner),
            Some(toml::Value::Array(list)) => list[0].as_table(),
            _ => None,
        });
        inner.is_some()
    };
    let all = [table(FULL[0]), table(FULL[1]), table(&with_seek_table)];
    all.iter().find(has).unwrap_or(&all[0]).clone()
}

/// The keys that the parser accepts in a table: it lists them when it meets another.
fn known_in(path: &[&str]) -> BTreeSet<String> {
    let mut spec = spec_with(path);
    let table = at(&mut spec, path);
    if path == ["seek"] || path == ["zones"] {
        // One of several tables, so another would be one too many.
        table.clear();
    }
    table.insert("nobody".into(), 1.into());
    let error = parse(&spec).expect_err("an unknown key");
    let (_, list) = error.split_once("expected ").unwrap_or_else(|| panic!("{path:?}: {error}"));
    list.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn every_key_that_the_parser_knows_is_in_the_list_and_no_other() {
    let mut unseen: Vec<Vec<String>> = vec![vec![]];
    let mut found = BTreeSet::new();
    let tables = [
        "overhead",
        "bus",
        "host",
        "read_ahead",
        "write_back",
        "media_cache",
        "shingled",
        "seek",
        "zones",
    ];
    while let Some(path) = unseen.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        for key in known_in(&words) {
            let inner = [path.clone(), vec![key.clone()]].concat();
            let is_table = match words.as_slice() {
                [] => tables.contains(&key.as_str()),
                ["overhead"] => key == "hit",
                ["seek" | "zones"] => true,
                _ => false,
            };
            if is_table {
                unseen.push(inner);
            } else {
                assert!(found.insert(inner.join(".")));
            }
        }
    }
    let listed: BTreeSet<String> = KEYS.iter().map(|key| key.key.to_string()).collect();
    assert_eq!(found, listed);
    assert_eq!(KEYS.len(), listed.len(), "a key is listed twice");
}

/// A spec with this key set to a value, or without it.
fn with(key: &SpecKey, value: Option<toml::Value>) -> Result<DiskSpec, String> {
    let mut path: Vec<&str> = key.key.split('.').collect();
    let name = path.pop().expect("a name");
    let mut spec = spec_with(&path);
    if key.key == "bus_mb_per_s" {
        spec.remove("bus");
    }
    let table = at(&mut spec, &path);
    table.remove(name);
    if let Some(value) = value {
        table.insert(name.to_string(), value);
    }
    parse(&spec)
}

#[test]
fn ranges_are_what_the_parser_takes() {
    let mut tried = 0;
    for key in KEYS {
        let Some((low, high)) =
            key.range.strip_prefix("from ").and_then(|range| range.split_once(" to "))
        else {
            continue;
        };
        let (low, high): (Result<f64, _>, Result<f64, _>) = (low.parse(), high.parse());
        let float = key.key.ends_with("_ms")
            || ["rpm", "bus_mb_per_s", "bus.read_start"].contains(&key.key);
        let value = |number: f64| match float {
            true => toml::Value::Float(number),
            false => toml::Value::Integer(number as i64),
        };
        let step = if float { 0.001 } else { 1.0 };
        // The error names the key, or the table of the curve.
        let last = key.key.rsplit('.').next().expect("a name");
        let about_it = |result: Result<DiskSpec, String>| {
            let names = |error: &String| error.contains(last) || error.contains("`seek");
            result.err().filter(names)
        };
        for (edge, beyond) in [(low, -step), (high, step)] {
            let Ok(edge) = edge else { continue };
            tried += 1;
            assert!(about_it(with(key, Some(value(edge + beyond)))).is_some(), "{key:?}: {edge}");
            // The points of a curve hold each other, and so does what a spec has of sectors.
            let alone = !key.key.starts_with("seek.") && edge.abs() < 4e6;
            let error = about_it(with(key, Some(value(edge)))).filter(|_| alone);
            assert_eq!(error, None, "{key:?}: {edge}");
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn choices_are_what_the_parser_takes() {
    for key in KEYS.iter().filter(|key| key.range.contains(", ") && !key.key.contains("seek")) {
        for choice in key.range.split(", ") {
            let value = match (choice.parse::<i64>(), choice.parse::<bool>()) {
                (Ok(number), _) => toml::Value::Integer(number),
                (_, Ok(flag)) => toml::Value::Boolean(flag),
                _ => toml::Value::String(choice.to_string()),
            };
            assert!(with(key, Some(value)).is_ok(), "{key:?}: {choice}");
        }
        assert!(with(key, Some(toml::Value::String("nobody".into()))).is_err(), "{key:?}");
    }
}

#[test]
fn defaults_are_what_the_parser_assumes() {
    let mut tried = 0;
    for key in KEYS {
        let without = with(key, None);
        if key.default == REQUIRED {
            let error = without.expect_err(key.key);
            assert!(error.contains("missing field"), "{key:?}: {error}");
            continue;
        }
        let Ok(without) = without else {
            assert_eq!(key.key, "sectors", "required with linear zones");
            continue;
        };
        let value = match (key.default.parse::<f64>(), key.default.parse::<bool>()) {
            (Ok(number), _) if key.key.ends_with("_ms") || key.key == "bus.read_start" => {
                toml::Value::Float(number)
            }
            (Ok(number), _) => toml::Value::Integer(number as i64),
            (_, Ok(flag)) => toml::Value::Boolean(flag),
            _ if key.range.contains(", ") => toml::Value::String(key.default.to_string()),
            _ => continue,
        };
        tried += 1;
        assert_eq!(with(key, Some(value)).expect(key.key), without, "{key:?}");
    }
    assert!(tried > 25, "{tried}");
}
