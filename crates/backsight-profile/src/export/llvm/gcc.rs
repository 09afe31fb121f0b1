//! GCC's form of the same samples: the file of `gcc -fauto-profile`, a container of gcov.
//!
//! Words of 32 bits, the low byte first; counters are two of them, the low one first. Strings have their length in bytes,
//! with the zero at their end.

use std::collections::BTreeMap;
use std::io::Write;

use super::super::names::zero_terminated;
use super::super::{ExportError, ExportOptions};
use super::binary::{names_of, number};
use super::{FunctionSamples, Location, line_profile};
use crate::Profile;

const MAGIC: u32 = 0x6763_6461;
/// What GCC 10 to 14 read.
const VERSION: u32 = 2;
const NAMES: u32 = 0xAA00_0000;
const FUNCTIONS: u32 = 0xAC00_0000;
const MODULES: u32 = 0xAE00_0000;
/// A target of an indirect call.
const CALL_TARGET: u32 = 7;

pub(super) fn write(
    profile: &Profile,
    _options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let functions = line_profile(profile)?;
    let names = names_of(&functions);
    let mut file = Vec::new();
    [MAGIC, VERSION, 0].iter().for_each(|&value| word(&mut file, value));
    section(&mut file, NAMES, &name_section(&names));
    let mut bodies = Vec::new();
    word(&mut bodies, functions.len() as u32);
    for (name, body) in &functions {
        counter(&mut bodies, body.head);
        write_body(name, body, &names, &mut bodies);
    }
    section(&mut file, FUNCTIONS, &bodies);
    // No modules.
    section(&mut file, MODULES, &[0; 4]);
    Ok(out.write_all(&file)?)
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

fn counter(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

fn section(out: &mut Vec<u8>, tag: u32, contents: &[u8]) {
    word(out, tag);
    word(out, contents.len().div_ceil(4) as u32);
    out.extend_from_slice(contents);
}

fn name_section(names: &BTreeMap<&str, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    word(&mut out, names.len() as u32);
    for name in names.keys() {
        word(&mut out, name.len() as u32 + 1);
        out.extend(zero_terminated(name));
    }
    out
}

fn position(&(line, discriminator): &Location) -> u32 {
    line << 16 | discriminator & 0xFFFF
}

fn write_body(name: &str, body: &FunctionSamples, names: &BTreeMap<&str, u64>, out: &mut Vec<u8>) {
    word(out, number(names, name) as u32);
    word(out, body.body.len() as u32);
    word(out, body.inlined.values().map(BTreeMap::len).sum::<usize>() as u32);
    for (location, samples) in &body.body {
        word(out, position(location));
        word(out, samples.targets.len() as u32);
        counter(out, samples.count);
        for (target, &count) in &samples.targets {
            word(out, CALL_TARGET);
            counter(out, number(names, target));
            counter(out, count);
        }
    }
    for (location, callees) in &body.inlined {
        for (callee, samples) in callees {
            word(out, position(location));
            write_body(callee, samples, names, out);
        }
    }
}
