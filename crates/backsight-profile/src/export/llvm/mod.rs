//! LLVM's sample profiles: what `clang -fprofile-sample-use` reads.
//!
//! A profile has the counts of source locations: lines as distances from the line that their function is declared at, and
//! discriminators. Functions that were put into others have bodies of their own below the call. How counts of instructions
//! become counts of locations is how `llvm-profgen` does it: a location has the greatest count of its instructions.

mod binary;
mod gcc;
mod text;

use std::collections::BTreeMap;

use super::{ExportError, Format, Need};
use crate::{Block, DebugInfo, EdgeKind, Module, Profile};

pub(super) const TEXT: Format = Format {
    name: "llvm",
    title: "LLVM sample profile, text",
    readers: "clang -fprofile-sample-use=FILE, llvm-profdata --sample",
    needs: &[Need::Symbols, Need::Lines, Need::ProfilingInfo],
    write: text::write,
};

pub(super) const BINARY: Format = Format {
    name: "llvm-binary",
    title: "LLVM sample profile, extensible binary",
    readers: "clang -fprofile-sample-use=FILE, llvm-profdata --sample",
    needs: &[Need::Symbols, Need::Lines, Need::ProfilingInfo],
    write: binary::write,
};

pub(super) const GCC: Format = Format {
    name: "gcc",
    title: "GCC AutoFDO profile",
    readers: "gcc -fauto-profile=FILE",
    needs: &[Need::Symbols, Need::Lines],
    write: gcc::write,
};

/// Distance from the line of the declaration, and discriminator.
pub type Location = (u32, u32);

/// What was counted in a function, or in a copy of it that was put into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSamples {
    /// Sum over its instructions, by bytes.
    pub total: u64,
    /// How often it was entered; 0 for a copy.
    pub head: u64,
    /// Counts of its locations.
    pub body: BTreeMap<Location, LocationSamples>,
    /// The functions that were put into it, by the location of the call.
    pub inlined: BTreeMap<Location, BTreeMap<String, FunctionSamples>>,
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

/// The samples of all functions of a profile, by name.
///
/// # Errors
/// If no code has lines: there is nothing to write.
pub fn sample_profile(profile: &Profile) -> Result<BTreeMap<String, FunctionSamples>, ExportError> {
    let mut functions = BTreeMap::new();
    for (number, module) in profile.modules.iter().enumerate() {
        if !module.debug().is_empty() {
            Sampler::new(profile, number as u32, module).run(&mut functions);
        }
    }
    if functions.is_empty() {
        return Err(ExportError::Missing(
            "no code that was executed has lines: build the program with -g -fdebug-info-for-profiling, or give the file with its debug information with --image".to_owned(),
        ));
    }
    Ok(functions)
}

struct Sampler<'a> {
    profile: &'a Profile,
    number: u32,
    module: &'a Module,
    debug: &'a DebugInfo,
}

type Functions = BTreeMap<String, FunctionSamples>;

impl<'a> Sampler<'a> {
    fn new(profile: &'a Profile, number: u32, module: &'a Module) -> Self {
        Self { profile, number, module, debug: module.debug() }
    }

    fn run(&self, functions: &mut Functions) {
        let counts = self.instruction_counts();
        self.add_zeros(&counts, functions);
        for (&address, &(size, count)) in &counts {
            self.add(address, count, u64::from(size), functions);
        }
        self.add_calls(functions);
        functions.values_mut().for_each(raise_to_targets);
    }

    fn is_inside(&self, block: &Block) -> bool {
        self.profile.function_of(block).is_some_and(|function| function.module == self.number)
    }

    /// Size and count of every instruction that was executed.
    fn instruction_counts(&self) -> BTreeMap<u64, (u8, u64)> {
        let mut counts: BTreeMap<u64, (u8, u64)> = BTreeMap::new();
        for block in self.profile.blocks.iter().filter(|block| self.is_inside(block)) {
            for (address, size) in self.profile.instructions_of(block) {
                let sum = counts.entry(address).or_insert((size, 0));
                sum.1 = sum.1.saturating_add(block.count);
            }
        }
        counts
    }

    /// Locations of functions that were executed, but not there: a count of 0 says so, where none would leave it open.
    fn add_zeros(&self, counts: &BTreeMap<u64, (u8, u64)>, functions: &mut Functions) {
        let executed = self.profile.functions.iter().filter(|function| function.module == self.number);
        let mut ranges: Vec<(u64, u64)> = executed
            .filter_map(|function| Some((function.start?, function.start?.checked_add(function.size)?)))
            .collect();
        ranges.sort_unstable();
        for (start, end, _) in self.debug.lines() {
            let after = ranges.partition_point(|&(first, _)| first <= start);
            let inside = after.checked_sub(1).and_then(|index| ranges.get(index));
            if inside.is_some_and(|&(_, last)| start < last) && counts.range(start..end).next().is_none() {
                self.add(start, 0, 0, functions);
            }
        }
    }

    /// The body that an instruction belongs to, and its location there.
    fn place<'f>(
        &self,
        address: u64,
        functions: &'f mut Functions,
        mut on_the_way: impl FnMut(&mut FunctionSamples),
    ) -> Option<(&'f mut FunctionSamples, Location, u32)> {
        let frames = self.debug.frames(address);
        let leaf = frames.first()?;
        if leaf.line == 0 {
            return None;
        }
        let mut outer = frames.iter().rev();
        let first = outer.next()?;
        let name = self.name_of(address, first.function)?;
        let mut body = functions.entry(name).or_default();
        on_the_way(body);
        let mut around = first;
        for frame in outer {
            let (base, _) = self.parts(around.discriminator);
            let location = (distance(around.line, self.declared(around.declared, address)?), base);
            let callee = compiled_name(frame.function).to_owned();
            body = body.inlined.entry(location).or_default().entry(callee).or_default();
            on_the_way(body);
            around = frame;
        }
        let (base, factor) = self.parts(leaf.discriminator);
        let declared = self.declared(leaf.declared, address)?;
        Some((body, (distance(leaf.line, declared), base), factor))
    }

    /// The line of a declaration. Where only lines were kept, that of the function's first instruction is near.
    fn declared(&self, declared: u32, address: u64) -> Option<u32> {
        if declared != 0 {
            return Some(declared);
        }
        let functions = self.module.functions();
        let after = functions.partition_point(|function| function.start <= address);
        let start = functions.get(after.checked_sub(1)?)?.start;
        Some(self.debug.line(start)?.line).filter(|&line| line != 0)
    }

    fn parts(&self, discriminator: u32) -> (u32, u32) {
        match self.debug.is_by_gcc() {
            true => (discriminator, 1),
            false => {
                let (base, factor, _) = discriminator_parts(discriminator);
                (base, factor)
            }
        }
    }

    /// What the compiler calls the function of an address: its symbol, as long as that is the function that it describes.
    fn name_of(&self, address: u64, described: &str) -> Option<String> {
        let functions = self.module.functions();
        let after = functions.partition_point(|function| function.start <= address);
        let nearest = functions.get(..after)?.iter().rev().take(32);
        let symbol = nearest.into_iter().find(|function| address - function.start < function.size);
        let name = symbol.map_or(described, |symbol| symbol.mangled.as_str());
        Some(compiled_name(name).to_owned()).filter(|name| !name.is_empty())
    }

    fn add(&self, address: u64, count: u64, size: u64, functions: &mut Functions) {
        let bytes = count.saturating_mul(size);
        let placed = self.place(address, functions, |body| body.total = body.total.saturating_add(bytes));
        if let Some((body, location, factor)) = placed {
            let known = body.body.entry(location).or_default();
            known.count = known.count.max(count.saturating_mul(factor.into()));
        }
    }

    /// Branches to the first instruction of a function enter it, and their locations call it. Where execution begins in a
    /// function without a branch that is known, it is entered too.
    fn add_calls(&self, functions: &mut Functions) {
        let named = |block: &Block| {
            let function = self.profile.function_of(block)?;
            let is_start = function.start == Some(block.start) && function.module == self.number;
            is_start.then(|| compiled_name(&function.mangled).to_owned())
        };
        for block in self.profile.blocks.iter().filter(|block| block.entries > 0) {
            if let Some(body) = named(block).and_then(|name| functions.get_mut(&name)) {
                body.head = body.head.saturating_add(block.entries);
            }
        }
        for edge in &self.profile.edges {
            let is_call =
                edge.kind.is_branch() && !matches!(edge.kind, EdgeKind::Return | EdgeKind::ExceptionReturn);
            let (Some(from), Some(to)) =
                (self.profile.blocks.get(edge.from as usize), self.profile.blocks.get(edge.to as usize))
            else {
                continue;
            };
            let Some(name) = named(to).filter(|_| is_call) else { continue };
            if let Some(body) = functions.get_mut(&name) {
                body.head = body.head.saturating_add(edge.count);
            }
            if self.is_inside(from)
                && let Some((body, location, _)) = self.place(from.last(), functions, |_| {})
            {
                let targets = &mut body.body.entry(location).or_default().targets;
                let sum = targets.entry(name).or_default();
                *sum = sum.saturating_add(edge.count);
            }
        }
    }
}

/// A location that calls so often was executed so often.
fn raise_to_targets(body: &mut FunctionSamples) {
    for samples in body.body.values_mut() {
        samples.count = samples.count.max(samples.targets.values().sum());
    }
    body.inlined.values_mut().flat_map(|callees| callees.values_mut()).for_each(raise_to_targets);
}

/// LLVM keeps 16 bits of it, also of lines before the declaration.
fn distance(line: u32, declared: u32) -> u32 {
    line.wrapping_sub(declared) & 0xFFFF
}

/// A name without what optimisations add to it.
fn compiled_name(name: &str) -> &str {
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
