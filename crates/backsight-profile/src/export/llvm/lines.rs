//! Counts of source lines, from the debug information.

use std::collections::BTreeMap;

use super::{
    ExecutedFunctions, FunctionSamples, Functions, Location, add_calls, compiled_name, discriminator_parts,
    instruction_counts,
};
use crate::{DebugInfo, Module, Profile};

pub(super) struct LineSampler<'a> {
    profile: &'a Profile,
    number: u32,
    module: &'a Module,
    debug: &'a DebugInfo,
}

impl<'a> LineSampler<'a> {
    pub(super) fn new(profile: &'a Profile, number: u32, module: &'a Module) -> Self {
        Self { profile, number, module, debug: module.debug() }
    }

    pub(super) fn run(&self, functions: &mut Functions) {
        let counts = instruction_counts(self.profile, self.number);
        self.add_zeros(&counts, functions);
        for (&address, &(size, count)) in &counts {
            self.add(address, count, u64::from(size), functions);
        }
        add_calls(self.profile, self.number, functions, &|address, functions| {
            self.location_of(address, functions, |_| {}).map(|(body, location, _)| (body, location))
        });
        functions.values_mut().for_each(raise_to_targets);
    }

    /// Locations of functions that were executed, but not there: a count of 0 says so, where none would leave it open.
    fn add_zeros(&self, counts: &BTreeMap<u64, (u8, u64)>, functions: &mut Functions) {
        let executed = ExecutedFunctions::of(self.profile, self.number);
        for (start, end, _) in self.debug.lines() {
            if executed.contain(start) && counts.range(start..end).next().is_none() {
                self.add(start, 0, 0, functions);
            }
        }
    }

    /// The body that an instruction belongs to, and its location there.
    fn location_of<'f>(
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
        let placed =
            self.location_of(address, functions, |body| body.total = body.total.saturating_add(bytes));
        if let Some((body, location, factor)) = placed {
            let known = body.body.entry(location).or_default();
            known.count = known.count.max(count.saturating_mul(factor.into()));
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
