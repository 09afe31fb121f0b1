//! Profiles for BOLT: pre-aggregated branches and ranges, and fdata.

use std::io::Write;

use super::addresses::{Ranges, chosen};
use super::bolt_names::BoltNames;
use super::{ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const PREAGGREGATED: Format = Format {
    name: "bolt",
    title: "Branches and fall-throughs, pre-aggregated for BOLT",
    readers: "perf2bolt -pa -p FILE -o OUT.fdata PROGRAM; llvm-bolt -pa -p FILE",
    needs: &[Need::OneModule],
    write: preaggregated,
};

pub(super) const FDATA: Format = Format {
    name: "fdata",
    title: "Branches by symbol and offset, BOLT's own text",
    readers: "llvm-bolt -data FILE, merge-fdata",
    needs: &[Need::OneModule, Need::Symbols],
    write: fdata,
};

/// `B` lines are branches that were taken, `F` lines run straight on from one instruction to another, both included.
/// A block is such a run; so is the way from a branch that was not taken to the instruction after it, which is what BOLT
/// counts as the fall-through between its blocks.
fn preaggregated(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let ranges = Ranges::of(profile, chosen(profile, options)?);
    for (&(from, to), count) in &ranges.branches {
        writeln!(out, "B {from:x} {to:x} {count} 0")?;
    }
    for (&(start, last), count) in ranges.ranges.iter().filter(|((start, last), _)| start != last) {
        writeln!(out, "F {start:x} {last:x} {count}")?;
    }
    for (&(from, to), count) in ranges.not_taken.iter().chain(&ranges.sequences) {
        writeln!(out, "F {from:x} {to:x} {count}")?;
    }
    Ok(())
}

/// Each line: from symbol and offset to symbol and offset, mispredictions, count. Trace does not say what was mispredicted. What
/// does not begin with a branch would make BOLT take the function for another.
fn fdata(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let number = chosen(profile, options)?;
    let ranges = Ranges::of(profile, number);
    let Some(module) = profile.modules.get(number as usize) else { return Ok(()) };
    if module.functions().is_empty() {
        let why = "has no symbols, and fdata has no other names: use --format bolt";
        return Err(ExportError::Missing(format!("{} {why}", module.name())));
    }
    let names = BoltNames::of(module);
    let all = ranges.branches.iter().chain(&ranges.not_taken);
    for (&(from, to), count) in all {
        let (Some(from), Some(to)) = (names.at(from), names.at(to)) else { continue };
        writeln!(out, "{from} {to} 0 {count}")?;
    }
    Ok(())
}
