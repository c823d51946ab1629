//! The built-in drives: one file in `specs/disks` and one line here each.

use std::sync::LazyLock;

use destage_engine::registry::{Entry, nearest_first};

use crate::spec::{DiskSpec, SpecError};

macro_rules! specs {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../specs/disks/", $name, ".toml")))),*]
    };
}

/// Name and spec text of each built-in drive.
const SPECS: &[(&str, &str)] = specs![
    "stow-ref",
    "wow-ref",
    "hp97560",
    "hp-c2200a",
    "ultrastar-7k4000",
    "st2000dm006",
    "ultrastar-hc320",
    "exos-x20",
    "exos-2x18-unit",
    "st8000as0002",
    "atlas10k",
    "atlas-iii",
    "barracuda",
    "cheetah4lp",
    "cheetah9lp",
    "dec-rz26",
    "hp-c2247a",
    "hp-c2490a",
    "hp-c3323a",
    "ibm18es",
];

static ENTRIES: LazyLock<Vec<&'static Entry>> = LazyLock::new(|| {
    let entry = |&(name, text): &(&'static str, &str)| {
        let spec = DiskSpec::from_toml(text).expect("a test reads every built-in spec");
        let entry: &'static Entry = Box::leak(Box::new(Entry {
            name,
            summary: spec.summary.leak(),
            source: spec.source.leak(),
            params: &[],
        }));
        entry
    };
    SPECS.iter().map(entry).collect()
});

/// The built-in drives.
pub fn registry() -> &'static [&'static Entry] {
    &ENTRIES
}

/// The spec of a built-in drive, or of the `.toml` file at a path.
///
/// # Errors
/// An unknown name lists the known ones; a file that cannot be read or is not a disk says why.
pub fn find(name: &str) -> Result<DiskSpec, SpecError> {
    if let Some((_, text)) = SPECS.iter().find(|(known, _)| *known == name) {
        return DiskSpec::from_toml(text);
    }
    let is_path = std::path::Path::new(name).extension().is_some_and(|e| e == "toml");
    if !is_path {
        let known = nearest_first(name, SPECS.iter().map(|(known, _)| *known));
        return Err(SpecError::Unknown { name: name.to_string(), known });
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| SpecError::File { path: name.to_string(), message: error.to_string() })?;
    DiskSpec::from_toml(&text)
        .map_err(|error| SpecError::InFile { path: name.to_string(), error: Box::new(error) })
}
