//! The backsight program.
fn main() {}
