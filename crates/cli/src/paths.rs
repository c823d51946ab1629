//! The files of a command: what it reads, and what it will write. Nothing that a command reads is
//! written over, and nothing is written twice.

use crate::failure::Failure;
#[cfg(feature = "plan")]
use crate::our_reports;
#[cfg(feature = "plan")]
use destage_sim::options::RunOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The files that a command reads, and those that it was allowed to write.
#[derive(Default)]
pub struct Paths {
    read: Vec<PathBuf>,
    written: Vec<PathBuf>,
}

impl Paths {
    /// A command that reads these files. A name that is not a file does no harm.
    pub fn reading<'a>(names: impl IntoIterator<Item = &'a str>) -> Paths {
        #[cfg(feature = "plan")]
        let files = |name| destage_workload::trace::files(Path::new(name)).files;
        #[cfg(not(feature = "plan"))]
        let files = |name| [PathBuf::from(name)];
        let read = names.into_iter().flat_map(files).collect();
        Paths { read, written: Vec::new() }
    }

    /// A command that runs simulations with these options.
    #[cfg(feature = "plan")]
    pub fn of_run(options: &RunOptions) -> Paths {
        Paths::reading(["trace", "disk"].map(|name| options.get(name)))
    }

    /// Refuses a file that the command reads, or that it already writes.
    pub fn apart(&mut self, path: &Path) -> Result<(), Failure> {
        if let Some(input) = self.read.iter().find(|input| same_file(input, path)) {
            let also =
                if input == path { String::new() } else { format!(" ({})", input.display()) };
            return Err(Failure::usage(format!(
                "{}: this command reads that file{also} and would destroy it. Name another output.",
                path.display()
            )));
        }
        if self.written.iter().any(|other| same_file(other, path)) {
            return Err(Failure::usage(format!(
                "{}: two outputs have this name. Name each output differently.",
                path.display()
            )));
        }
        self.written.push(path.to_path_buf());
        Ok(())
    }

    /// A report: it may replace a report of ours, and nothing else.
    #[cfg(feature = "plan")]
    pub fn report(&mut self, path: &Path) -> Result<(), Failure> {
        self.apart(path)?;
        refuse_foreign(path)?;
        check_writable(path)
    }

    /// A disk spec: named .toml, since it is given by that name. It replaces a file only if `force`
    /// is given.
    #[cfg(feature = "plan")]
    pub fn spec(&mut self, path: &Path, force: bool) -> Result<(), Failure> {
        self.apart(path)?;
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(Failure::usage(format!("{}: a disk spec is named .toml", path.display())));
        }
        refuse_to_replace(path, force)?;
        check_writable(path)
    }

    /// A trace: it replaces a file only if `force` is given, and is not named as something else.
    #[cfg(feature = "plan")]
    pub fn trace(&mut self, path: &Path, force: bool) -> Result<(), Failure> {
        self.apart(path)?;
        let name = path.to_string_lossy().to_ascii_lowercase();
        let plain = [".gz", ".zst", ".xz"].iter().find_map(|ending| name.strip_suffix(ending));
        let extension = Path::new(plain.unwrap_or(&name)).extension();
        let extension = extension.and_then(|e| e.to_str()).unwrap_or("");
        if NOT_TRACES.contains(&extension) {
            return Err(Failure::usage(format!(
                "{}: a trace is not written as .{extension}: name it .csv, .parquet, .arrow, or \
                 .dtrc for the binary format",
                path.display()
            )));
        }
        if plain.is_some() && ["arrow", "feather", "parquet"].contains(&extension) {
            return Err(Failure::usage(format!(
                "{}: .{extension} files compress their columns: leave the last ending out",
                path.display()
            )));
        }
        refuse_to_replace(path, force)?;
        check_writable(path)
    }
}

#[cfg(feature = "plan")]
fn refuse_to_replace(path: &Path, force: bool) -> Result<(), Failure> {
    let holds_data = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0);
    if holds_data && !force {
        return Err(Failure::failed(format!(
            "{}: already exists. Name another output, or replace it with --force.",
            path.display()
        )));
    }
    Ok(())
}

/// Refuses what holds data, unless that is a report of ours.
#[cfg(feature = "plan")]
fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    let holds_data = std::fs::metadata(path)
        .is_ok_and(|m| m.is_file() && m.len() > 0 || m.file_type().is_block_device());
    if !holds_data {
        return Ok(());
    }
    let why = match our_reports::is_ours(path) {
        Ok(true) => return Ok(()),
        Ok(false) => match trace_format(path) {
            Some(format) => format!("is a trace ({format}), which a report does not replace"),
            None => String::from("is not a report or plot of destage, and would be lost"),
        },
        Err(error) => format!("cannot be read, so a report does not replace it: {error}"),
    };
    let message = format!("{}: {why}. Name another output, or remove it first.", path.display());
    Err(Failure::failed(message))
}

/// Makes a folder for results, in which files of these names are reports or plots, or not there.
#[cfg(feature = "plan")]
pub fn check_folder(folder: &Path, names: &[String]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::failed(format!("{}: cannot create: {error}", folder.display()))
    })?;
    check_writable(&folder.join("index.html"))?;
    names.iter().try_for_each(|name| refuse_foreign(&folder.join(name)))
}

/// Endings that promise something else than a trace.
#[cfg(feature = "plan")]
const NOT_TRACES: [&str; 8] = ["htm", "html", "json", "npy", "png", "svg", "toml", "txt"];

/// Device and inode of what keeps data.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    let keeps_data = found.is_file() || found.file_type().is_block_device();
    keeps_data.then(|| (found.dev(), found.ino()))
}

/// Whether both names lead to one file, or would once it is made.
fn same_file(one: &Path, other: &Path) -> bool {
    match (identity(one), identity(other)) {
        (Some(one), Some(other)) => one == other,
        _ if one.exists() || other.exists() => false,
        _ => {
            let place = |path: &Path| {
                let path = std::path::absolute(path).ok()?;
                let folder = std::fs::canonicalize(path.parent()?).ok()?;
                Some(folder.join(path.file_name()?))
            };
            place(one).is_some_and(|one| Some(one) == place(other))
        }
    }
}

/// The format of a file whose first record reads as a trace.
#[cfg(feature = "plan")]
fn trace_format(path: &Path) -> Option<&'static str> {
    use destage_workload::trace::{ReadOptions, Reader};
    identity(path)?;
    let mut reader = Reader::open(path, &ReadOptions::default()).ok()?;
    let format = reader.format().entry.name;
    matches!(reader.next(), Some(Ok(_))).then_some(format)
}

/// Whether a file could be made here: a temporary one is, and taken away again.
#[cfg(feature = "plan")]
fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::failed(format!("{}: is a directory", path.display())));
    }
    let mut probe = path.as_os_str().to_os_string();
    probe.push(format!(".{}.tmp", std::process::id()));
    std::fs::write(&probe, b"")
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| Failure::failed(format!("{}: cannot be written: {error}", path.display())))
}
