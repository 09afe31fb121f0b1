//! `backsight pieces`: where captures can be cut for many readers.

use std::path::PathBuf;

use clap::Args;

use crate::args::{CaptureArgs, ImageArgs, parse_number};

#[cfg(feature = "tables")]
mod cut;

#[cfg(feature = "tables")]
pub use cut::run;

/// Cut captures into pieces that can be decoded apart from each other, anywhere
///
/// A piece is a source of a buffer, or a span of it that begins where decoding can begin alone. The rows of all pieces, one
/// after the other, are exactly those of the captures, and their profiles, merged, are the profile. To be sure of that, long
/// sources are decoded once. Python's backsight.Piece.from_json, or Piece::from_json of the library, takes a line of this.
#[derive(Args, Debug)]
pub struct Pieces {
    #[command(flatten)]
    capture: CaptureArgs,

    /// More captures
    #[arg(value_name = "CAPTURE")]
    others: Vec<PathBuf>,

    #[command(flatten)]
    images: ImageArgs,

    /// The table that is to be read from the pieces; `profile`: profiles are to be counted from them
    #[arg(long, value_name = "TABLE", default_value = "ranges")]
    table: String,

    /// Bytes of trace of a piece, about
    #[arg(long, value_name = "N", default_value = "8388608", value_parser = parse_number)]
    bytes: u64,

    /// One JSON object a line, for programs
    #[arg(long)]
    json: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// No warnings
    #[arg(long, short)]
    quiet: bool,
}

/// Says how to get a program that can do it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tables"))]
pub fn run(_: &Pieces) -> crate::failure::Result {
    Err(super::without_tables())
}
