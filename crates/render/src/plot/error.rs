//! Why a plot cannot be drawn.

use std::fmt;
use std::path::PathBuf;

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrawError {
    /// The path's extension is not .svg or .png: the caller's mistake, exit 2.
    Extension(PathBuf),
    /// Not enough memory for the pixels: exit 1.
    Size(u32, u32),
    /// The PNG encoder refused: exit 1.
    Encode(String),
}

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension(path) => {
                write!(f, "{}: unknown plot format: use .svg or .png", path.display())
            }
            Self::Size(width, height) => write!(f, "cannot draw {width} x {height} pixels"),
            Self::Encode(reason) => write!(f, "cannot encode the PNG: {reason:?}"),
        }
    }
}

impl std::error::Error for DrawError {}
