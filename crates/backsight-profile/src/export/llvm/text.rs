//! The text form: indentation is how deep functions are put into each other.

use std::io::{self, Write};

use super::super::names::llvm;
use super::super::{ExportError, ExportOptions};
use super::{FunctionSamples, Location, sample_profile};
use crate::Profile;

pub(super) fn write(
    profile: &Profile,
    _options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let functions = sample_profile(profile)?;
    let mut sorted: Vec<_> = functions.iter().collect();
    sorted.sort_by_key(|(name, body)| (std::cmp::Reverse(body.total), *name));
    for (name, body) in sorted {
        writeln!(out, "{}:{}:{}", llvm(name), body.total, body.head)?;
        write_body(body, 1, out)?;
    }
    Ok(())
}

fn write_body(body: &FunctionSamples, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    for (location, samples) in &body.body {
        write_location(location, depth, out)?;
        write!(out, "{}", samples.count)?;
        for (name, count) in &samples.targets {
            write!(out, " {}:{count}", llvm(name))?;
        }
        writeln!(out)?;
    }
    for (location, callees) in &body.inlined {
        for (name, callee) in callees {
            write_location(location, depth, out)?;
            writeln!(out, "{}:{}", llvm(name), callee.total)?;
            write_body(callee, depth + 1, out)?;
        }
    }
    match body.checksum {
        Some(checksum) => writeln!(out, "{:depth$}!CFGChecksum: {checksum}", ""),
        None => Ok(()),
    }
}

fn write_location(&(line, discriminator): &Location, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{:depth$}{line}", "")?;
    if discriminator != 0 {
        write!(out, ".{discriminator}")?;
    }
    write!(out, ": ")
}
