//! Why a plot cannot be drawn.

use std::path::PathBuf;
use thiserror::Error;

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DrawError {
    /// The path's extension is not .svg or .png: the caller's mistake, exit 2.
    #[error("{0}: unknown plot format: use .svg or .png")]
    Extension(PathBuf),
    /// Not enough memory for the pixels: exit 1.
    #[error("cannot draw {0} x {1} pixels")]
    Size(u32, u32),
    /// The PNG encoder refused: exit 1.
    #[error("cannot encode the PNG: {0:?}")]
    Encode(String),
}
