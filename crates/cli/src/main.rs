//! The command `destage`.
fn main() {}
