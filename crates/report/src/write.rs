//! Output files appear complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An output file that could not be written: exit 1. No partial or temporary file is left.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path:?}: {source}")]
pub struct WriteError {
    /// The path asked for.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes `bytes` to a new file next to `path`, makes it durable and renames it to `path`.
///
/// A path that names something other than a regular file (`/dev/stdout`, a pipe) is written
/// straight to, since a rename would replace it.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let result = match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if !found.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(bytes))
        }
        _ => replace(path, bytes),
    };
    result.map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Writes next to the file that `path` leads to (through symbolic links) and renames.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = target.file_name().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (mut file, temporary) = create_next_to(directory, name)?;
    let written = keep_permissions(&file, &target)
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all());
    let moved = written.and_then(|()| fs::rename(&temporary, &target));
    if moved.is_err() {
        let _ = fs::remove_file(&temporary);
        return moved;
    }
    // The file is complete. A directory that cannot be flushed is not a failure.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

/// A file that is replaced keeps its mode.
fn keep_permissions(file: &File, target: &Path) -> io::Result<()> {
    match fs::metadata(target) {
        Ok(found) if found.is_file() => file.set_permissions(found.permissions()),
        _ => Ok(()),
    }
}

/// Creates a file under a name that no one else has.
fn create_next_to(directory: &Path, name: &std::ffi::OsStr) -> io::Result<(File, PathBuf)> {
    for attempt in 0..100 {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let path = directory.join(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replaces_a_file_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        write_file(&path, b"first and longer").unwrap();
        write_file(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(directory.path()), ["out.csv"]);
    }

    #[test]
    fn unwritable_paths_say_so_in_one_line_and_leave_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        write_file(&file, b"x").unwrap();
        let missing = directory.path().join("no/such/dir.csv");
        for path in [missing, file.join("below"), directory.path().to_owned(), PathBuf::from("/")] {
            let error = write_file(&path, b"y").unwrap_err().to_string();
            assert!(error.starts_with("cannot write \"/"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        assert!(write_file(Path::new(""), b"").is_err());
        assert_eq!(names(directory.path()), ["file"]);
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }

    #[test]
    fn a_failed_rename_removes_the_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        assert!(replace(&target, b"x").is_err());
        assert_eq!(names(directory.path()), ["target"]);
    }

    #[test]
    fn devices_are_written_through_and_links_are_followed() {
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real");
        write_file(&real, b"1").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_file(&link, b"2").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"2");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
