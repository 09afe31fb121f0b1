//! LLVM's sample profiles: what `clang -fprofile-sample-use` reads.
//!
//! A profile has the counts of source locations: lines as distances from the line that their function is declared at, and
//! discriminators. Functions that were put into others have bodies of their own below the call. How counts of instructions
//! become counts of locations is how `llvm-profgen` does it: a location has the greatest count of its instructions.
//!
//! Where the compiler marked blocks with probes, they stand in the place of lines, and their counts are those of blocks.

mod binary;
mod gcc;
mod lines;
mod probes;
mod text;

use lines::LineSampler;
use probes::ProbeSampler;

use std::collections::BTreeMap;

use super::{ExportError, Format, Need};
use crate::{Block, EdgeKind, Profile};

pub(super) const TEXT: Format = Format {
    name: "llvm",
    title: "LLVM sample profile, text",
    readers: "clang -fprofile-sample-use=FILE, llvm-profdata --sample",
    needs: &[Need::Symbols, Need::LinesOrProbes, Need::ProfilingInfo],
    write: text::write,
};

pub(super) const BINARY: Format = Format {
    name: "llvm-binary",
    title: "LLVM sample profile, extensible binary",
    readers: "clang -fprofile-sample-use=FILE, llvm-profdata --sample",
    needs: &[Need::Symbols, Need::LinesOrProbes, Need::ProfilingInfo],
    write: binary::write,
};

pub(super) const GCC: Format = Format {
    name: "gcc",
    title: "GCC AutoFDO profile",
    readers: "gcc -fauto-profile=FILE",
    needs: &[Need::Symbols, Need::Lines],
    write: gcc::write,
};

/// Distance from the line of the declaration, or number of a probe, and discriminator.
pub type Location = (u32, u32);

/// What was counted in a function, or in a copy of it that was put into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSamples {
    /// Sum over its instructions, by bytes, or over its probes.
    pub total: u64,
    /// How often it was entered; 0 for a copy.
    pub head: u64,
    /// Counts of its locations.
    pub body: BTreeMap<Location, LocationSamples>,
    /// The functions that were put into it, by the location of the call.
    pub inlined: BTreeMap<Location, BTreeMap<String, FunctionSamples>>,
    /// The hash of its control flow, where locations are probes.
    pub checksum: Option<u64>,
}

/// What was counted at a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationSamples {
    /// How often it was executed.
    pub count: u64,
    /// The functions that it called.
    pub targets: BTreeMap<String, u64>,
}

/// Base, duplication factor and copy of a discriminator, as LLVM packs them. A component of 0 takes a bit, others seven
/// or fourteen.
pub fn discriminator_parts(discriminator: u32) -> (u32, u32, u32) {
    let mut left = discriminator;
    let mut next = || {
        if left & 1 == 1 {
            left >>= 1;
            return 0;
        }
        let low = left >> 1 & 0x1F;
        match left & 0x40 {
            0 => {
                left >>= 7;
                low
            }
            _ => {
                let value = low | (left >> 7 & 0x7F) << 5;
                left >>= 14;
                value
            }
        }
    };
    let (base, factor, copy) = (next(), next(), next());
    (base, factor.max(1), copy)
}

type Functions = BTreeMap<String, FunctionSamples>;

/// The samples of all functions of a profile, by name: by probes where the compiler left any, else by lines. A profile
/// goes by one or the other.
///
/// # Errors
/// If no code has lines or probes: there is nothing to write.
pub fn sample_profile(profile: &Profile) -> Result<BTreeMap<String, FunctionSamples>, ExportError> {
    let mut functions = BTreeMap::new();
    for (number, module) in profile.modules.iter().enumerate() {
        ProbeSampler::new(profile, number as u32, module).run(&mut functions);
    }
    if functions.is_empty() { line_profile(profile) } else { Ok(functions) }
}

/// The samples of all functions of a profile by lines, by name.
fn line_profile(profile: &Profile) -> Result<Functions, ExportError> {
    let mut functions = BTreeMap::new();
    for (number, module) in profile.modules.iter().enumerate() {
        if !module.debug().is_empty() {
            LineSampler::new(profile, number as u32, module).run(&mut functions);
        }
    }
    if functions.is_empty() {
        return Err(ExportError::Missing(
            "no code that was executed has lines: build the program with -g -fdebug-info-for-profiling, or give the file with its debug information with --image".to_owned(),
        ));
    }
    Ok(functions)
}

fn is_inside(profile: &Profile, module: u32, block: &Block) -> bool {
    profile.function_of(block).is_some_and(|function| function.module == module)
}

/// Size and count of every instruction of a file that was executed.
fn instruction_counts(profile: &Profile, module: u32) -> BTreeMap<u64, (u8, u64)> {
    let mut counts: BTreeMap<u64, (u8, u64)> = BTreeMap::new();
    for block in profile.blocks.iter().filter(|block| is_inside(profile, module, block)) {
        for (address, size) in profile.instructions_of(block) {
            let sum = counts.entry(address).or_insert((size, 0));
            sum.1 = sum.1.saturating_add(block.count);
        }
    }
    counts
}

/// Where the functions are that were executed.
struct ExecutedFunctions(Vec<(u64, u64)>);

impl ExecutedFunctions {
    fn of(profile: &Profile, module: u32) -> Self {
        let executed = profile.functions.iter().filter(|function| function.module == module);
        let ranges = executed
            .filter_map(|function| Some((function.start?, function.start?.checked_add(function.size)?)));
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable();
        Self(ranges)
    }

    fn contain(&self, address: u64) -> bool {
        let after = self.0.partition_point(|&(start, _)| start <= address);
        let before = after.checked_sub(1).and_then(|index| self.0.get(index));
        before.is_some_and(|&(_, end)| address < end)
    }
}

/// Finds the body that a call belongs to, and its location there.
type LocateCall<'a> =
    dyn for<'f> Fn(u64, &'f mut Functions) -> Option<(&'f mut FunctionSamples, Location)> + 'a;

/// Branches to the first instruction of a function enter it, and their locations call it. Where execution begins in a
/// function without a branch that is known, it is entered too.
fn add_calls(profile: &Profile, module: u32, functions: &mut Functions, locate: &LocateCall<'_>) {
    let named = |block: &Block| {
        let function = profile.function_of(block)?;
        let is_start = function.start == Some(block.start) && function.module == module;
        is_start.then(|| compiled_name(&function.mangled).to_owned())
    };
    for block in profile.blocks.iter().filter(|block| block.entries > 0) {
        if let Some(body) = named(block).and_then(|name| functions.get_mut(&name)) {
            body.head = body.head.saturating_add(block.entries);
        }
    }
    for edge in &profile.edges {
        let is_call =
            edge.kind.is_branch() && !matches!(edge.kind, EdgeKind::Return | EdgeKind::ExceptionReturn);
        let (Some(from), Some(to)) =
            (profile.blocks.get(edge.from as usize), profile.blocks.get(edge.to as usize))
        else {
            continue;
        };
        let Some(name) = named(to).filter(|_| is_call) else { continue };
        if let Some(body) = functions.get_mut(&name) {
            body.head = body.head.saturating_add(edge.count);
        }
        if is_inside(profile, module, from)
            && let Some((body, location)) = locate(from.last(), functions)
        {
            let targets = &mut body.body.entry(location).or_default().targets;
            let sum = targets.entry(name).or_default();
            *sum = sum.saturating_add(edge.count);
        }
    }
}

/// A name without what optimisations add to it.
pub(crate) fn compiled_name(name: &str) -> &str {
    let suffixes = [".llvm.", ".part.", ".cold", ".constprop.", ".isra.", ".__part."];
    let end = suffixes.iter().filter_map(|suffix| name.find(suffix)).min().filter(|&end| end > 0);
    &name[..end.unwrap_or(name.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_are_taken_apart_as_llvm_packs_them() {
        for (packed, parts) in [
            (0, (0, 1, 0)),
            (2, (1, 1, 0)),
            (4, (2, 1, 0)),
            (2050, (1, 8, 0)),
            (40964, (2, 64, 0)),
            (2049, (0, 1, 4)),
        ] {
            assert_eq!(discriminator_parts(packed), parts, "{packed}");
        }
    }

    #[test]
    fn names_lose_what_optimisations_add() {
        assert_eq!(compiled_name("hot.llvm.123"), "hot");
        assert_eq!(compiled_name("f.constprop.0"), "f");
        assert_eq!(compiled_name("_ZN3fooEv"), "_ZN3fooEv");
        assert_eq!(compiled_name(".cold"), ".cold");
    }
}
