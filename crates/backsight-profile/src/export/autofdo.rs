//! Ranges and branches by address: what `llvm-profgen --unsymbolized-profile` and AutoFDO's tools take.
//!
//! Addresses are those of the file. `llvm-profgen` takes them with `--use-offset=0`. AutoFDO adds the address of the first
//! loadable segment, which is therefore subtracted.

use std::io::Write;

use backsight::image::Elf;

use super::addresses::{Ranges, chosen};
use super::names::one_line;
use super::{ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const PROFGEN: Format = Format {
    name: "profgen",
    title: "Ranges and branches by address",
    readers: "llvm-profgen --use-offset=0 --unsymbolized-profile=FILE --binary=PROGRAM",
    needs: &[Need::OneModule],
    write: profgen,
};

pub(super) const AUTOFDO: Format = Format {
    name: "autofdo",
    title: "Ranges and branches as AutoFDO's text",
    readers: "create_llvm_prof and create_gcov --profiler=text",
    needs: &[Need::OneModule],
    write: autofdo,
};

fn profgen(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let ranges = Ranges::of(profile, chosen(profile, options)?);
    write_ranges(&ranges, 0, out)?;
    write_branches(&ranges, 0, out)
}

fn autofdo(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let number = chosen(profile, options)?;
    let ranges = Ranges::of(profile, number);
    let module = profile.modules.get(number as usize);
    let elf = module.and_then(|module| Elf::parse(module.name().as_ref(), module.contents()?).ok());
    let base = elf.and_then(|elf| elf.segments.first().map(|segment| segment.address)).unwrap_or(0);
    write_ranges(&ranges, base, out)?;
    // No single addresses: ranges say more.
    writeln!(out, "0")?;
    write_branches(&ranges, base, out)?;
    if let Some(module) = module {
        module.build_id().map_or(Ok(()), |id| writeln!(out, "// build_id: 0x{id}"))?;
        writeln!(out, "// {}", one_line(module.name()))?;
    }
    Ok(())
}

fn write_ranges(ranges: &Ranges, base: u64, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(out, "{}", ranges.ranges.len())?;
    for (&(start, last), count) in &ranges.ranges {
        writeln!(out, "{:x}-{:x}:{count}", start.wrapping_sub(base), last.wrapping_sub(base))?;
    }
    Ok(())
}

fn write_branches(ranges: &Ranges, base: u64, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(out, "{}", ranges.branches.len())?;
    for (&(from, to), count) in &ranges.branches {
        writeln!(out, "{:x}->{:x}:{count}", from.wrapping_sub(base), to.wrapping_sub(base))?;
    }
    Ok(())
}
