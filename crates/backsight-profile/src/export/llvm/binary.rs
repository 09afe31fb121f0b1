//! The extensible binary form: sections with a table in front, numbers in LEB128.

use std::collections::BTreeMap;
use std::io::Write;

use super::super::names::zero_terminated;
use super::super::{ExportError, ExportOptions};
use super::{FunctionSamples, sample_profile};
use crate::Profile;

/// "SPROF42" in the top seven bytes; the lowest says which format.
const MAGIC: u64 = 0x5350_524F_4634_3204;
const VERSION: u64 = 103;

const SUMMARY: u64 = 1;
const NAME_TABLE: u64 = 2;
const FUNCTION_OFFSETS: u64 = 4;
const FUNCTION_METADATA: u64 = 5;
const FUNCTIONS: u64 = 32;

/// Of the name table: names keep what makes those of internal functions unique.
const HAS_UNIQUE_SUFFIXES: u64 = 4 << 32;
/// Of the metadata: locations are probes.
const IS_BY_PROBES: u64 = 1 << 32;

/// Shares of all counts, in millionths, that the summary says the least count for.
const CUTOFFS: [u64; 16] = [
    10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000,
    990_000, 999_000, 999_900, 999_990, 999_999,
];

pub(super) fn write(
    profile: &Profile,
    _options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let functions = sample_profile(profile)?;
    let names = names_of(&functions);
    let (bodies, offsets) = write_functions(&functions, &names);
    let is_by_probes = functions.values().any(|body| body.checksum.is_some());
    let has_unique_suffixes = names.keys().any(|name| name.contains(".__uniq."));
    let name_flags = if has_unique_suffixes { HAS_UNIQUE_SUFFIXES } else { 0 };
    let mut sections = vec![
        (SUMMARY, 0, summary(&functions)),
        (NAME_TABLE, name_flags, name_table(&names)),
        (FUNCTION_OFFSETS, 0, offsets),
        (FUNCTIONS, 0, bodies),
    ];
    if is_by_probes {
        sections.push((FUNCTION_METADATA, IS_BY_PROBES, metadata(&functions, &names)));
    }
    let mut file = Vec::new();
    leb128(&mut file, MAGIC);
    leb128(&mut file, VERSION);
    file.extend((sections.len() as u64).to_le_bytes());
    let mut offset = (file.len() + sections.len() * 32) as u64;
    for (kind, flags, contents) in &sections {
        let size = contents.len() as u64;
        [*kind, *flags, offset, size].iter().for_each(|number| file.extend(number.to_le_bytes()));
        offset += size;
    }
    sections.iter().for_each(|(_, _, contents)| file.extend_from_slice(contents));
    Ok(out.write_all(&file)?)
}

fn leb128(out: &mut Vec<u8>, value: u64) {
    backsight::core::leb128::write(value, |byte| out.push(byte));
}

/// All names, with their numbers.
pub(super) fn names_of(functions: &BTreeMap<String, FunctionSamples>) -> BTreeMap<&str, u64> {
    fn collect<'a>(body: &'a FunctionSamples, names: &mut BTreeMap<&'a str, u64>) {
        let targets = body.body.values().flat_map(|samples| samples.targets.keys());
        names.extend(targets.map(|name| (name.as_str(), 0)));
        for (name, callee) in body.inlined.values().flatten() {
            names.insert(name, 0);
            collect(callee, names);
        }
    }
    let mut names = BTreeMap::new();
    for (name, body) in functions {
        names.insert(name.as_str(), 0);
        collect(body, &mut names);
    }
    names.values_mut().zip(0..).for_each(|(slot, number)| *slot = number);
    names
}

fn name_table(names: &BTreeMap<&str, u64>) -> Vec<u8> {
    let mut table = Vec::new();
    leb128(&mut table, names.len() as u64);
    for name in names.keys() {
        table.extend(zero_terminated(name));
    }
    table
}

/// The bodies of all functions, and the table of where each is.
fn write_functions(
    functions: &BTreeMap<String, FunctionSamples>,
    names: &BTreeMap<&str, u64>,
) -> (Vec<u8>, Vec<u8>) {
    let (mut bodies, mut offsets) = (Vec::new(), Vec::new());
    leb128(&mut offsets, functions.len() as u64);
    for (name, body) in functions {
        leb128(&mut offsets, number(names, name));
        leb128(&mut offsets, bodies.len() as u64);
        leb128(&mut bodies, body.head);
        write_body(name, body, names, &mut bodies);
    }
    (bodies, offsets)
}

pub(super) fn number(names: &BTreeMap<&str, u64>, name: &str) -> u64 {
    names.get(name).copied().unwrap_or(0)
}

fn write_body(name: &str, body: &FunctionSamples, names: &BTreeMap<&str, u64>, out: &mut Vec<u8>) {
    leb128(out, number(names, name));
    leb128(out, body.total);
    leb128(out, body.body.len() as u64);
    for (&(line, discriminator), samples) in &body.body {
        leb128(out, line.into());
        leb128(out, discriminator.into());
        leb128(out, samples.count);
        leb128(out, samples.targets.len() as u64);
        for (target, &count) in &samples.targets {
            leb128(out, number(names, target));
            leb128(out, count);
        }
    }
    leb128(out, body.inlined.values().map(BTreeMap::len).sum::<usize>() as u64);
    for (&(line, discriminator), callees) in &body.inlined {
        for (callee, samples) in callees {
            leb128(out, line.into());
            leb128(out, discriminator.into());
            write_body(callee, samples, names, out);
        }
    }
}

/// The hash of the control flow of every function, and of those inside of it.
fn metadata(functions: &BTreeMap<String, FunctionSamples>, names: &BTreeMap<&str, u64>) -> Vec<u8> {
    fn write(name: &str, body: &FunctionSamples, names: &BTreeMap<&str, u64>, out: &mut Vec<u8>) {
        leb128(out, number(names, name));
        leb128(out, body.checksum.unwrap_or(0));
        leb128(out, body.inlined.values().map(BTreeMap::len).sum::<usize>() as u64);
        for (&(index, discriminator), callees) in &body.inlined {
            for (callee, inside) in callees {
                leb128(out, index.into());
                leb128(out, discriminator.into());
                write(callee, inside, names, out);
            }
        }
    }
    let mut out = Vec::new();
    functions.iter().for_each(|(name, body)| write(name, body, names, &mut out));
    out
}

/// Totals, and the least count among those that make up each share of all counts.
fn summary(functions: &BTreeMap<String, FunctionSamples>) -> Vec<u8> {
    fn collect(body: &FunctionSamples, counts: &mut Vec<u64>) {
        counts.extend(body.body.values().map(|samples| samples.count));
        body.inlined.values().flat_map(BTreeMap::values).for_each(|callee| collect(callee, counts));
    }
    let mut counts = Vec::new();
    functions.values().for_each(|body| collect(body, &mut counts));
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let total: u64 = counts.iter().fold(0, |sum, &count| sum.saturating_add(count));
    let head = functions.values().map(|body| body.head).max().unwrap_or(0);
    let mut out = Vec::new();
    let most = counts.first().copied().unwrap_or(0);
    for number in [total, most, head, counts.len() as u64, functions.len() as u64, CUTOFFS.len() as u64] {
        leb128(&mut out, number);
    }
    let (mut seen, mut sum, mut least) = (0, 0u64, 0);
    for cutoff in CUTOFFS {
        let wanted = (u128::from(total) * u128::from(cutoff) / 1_000_000) as u64;
        while sum < wanted
            && let Some(&count) = counts.get(seen)
        {
            (sum, least) = (sum.saturating_add(count), count);
            seen += 1;
        }
        [cutoff, least, seen as u64].iter().for_each(|&number| leb128(&mut out, number));
    }
    out
}
