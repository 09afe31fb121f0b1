//! Coverage: which lines, functions and branches were executed, and which were not.
//!
//! Lines are those that have instructions; a line has the greatest count of its instructions. Branches are conditional
//! branch instructions: a condition of the source may be compiled to several of them, or to none.

use std::collections::BTreeMap;

use backsight::core::Address;
use backsight::image::Elf;
use backsight::isa::{Class, classify};

use super::ExportError;
use crate::{Module, Profile};

/// The coverage of all files of source.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// By name.
    pub files: BTreeMap<String, FileCoverage>,
}

/// The coverage of one file of source.
#[derive(Clone, Debug, Default)]
pub struct FileCoverage {
    /// How often each line was executed.
    pub lines: BTreeMap<u32, u64>,
    /// Its functions, by line and name.
    pub functions: BTreeMap<(u32, String), FunctionCoverage>,
    /// Its branches, by line and address.
    pub branches: BTreeMap<(u32, u64), BranchCoverage>,
}

/// The coverage of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCoverage {
    /// How often it was entered.
    pub entries: u64,
}

/// The coverage of a branch instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCoverage {
    /// How often it was taken.
    pub taken: u64,
    /// How often it was not.
    pub not_taken: u64,
}

impl BranchCoverage {
    /// Was it executed?
    pub fn is_executed(&self) -> bool {
        self.taken + self.not_taken > 0
    }

    /// Ways that it went, of two.
    pub fn covered(&self) -> u64 {
        u64::from(self.taken > 0) + u64::from(self.not_taken > 0)
    }
}

impl FileCoverage {
    /// Lines that were executed, and all.
    pub fn line_sums(&self) -> (u64, u64) {
        (self.lines.values().filter(|&&count| count > 0).count() as u64, self.lines.len() as u64)
    }

    /// Ways of branches that were taken, and all.
    pub fn branch_sums(&self) -> (u64, u64) {
        (self.branches.values().map(BranchCoverage::covered).sum(), 2 * self.branches.len() as u64)
    }
}

impl Coverage {
    /// The coverage that a profile has.
    pub fn of(profile: &Profile) -> Self {
        let mut coverage = Self::default();
        for (module, number) in profile.modules.iter().zip(0..) {
            if !module.debug().is_empty() {
                coverage.add_module(profile, number, module);
            }
        }
        coverage
    }

    /// The same for formats that have nothing to say without lines.
    pub(super) fn with_lines(profile: &Profile) -> Result<Self, ExportError> {
        let coverage = Self::of(profile);
        match coverage.files.is_empty() {
            true => Err(ExportError::Missing(
                "no code that was executed has lines: build the program with -g, or give the file with its debug information with --image".to_owned(),
            )),
            false => Ok(coverage),
        }
    }

    fn add_module(&mut self, profile: &Profile, number: u32, module: &Module) {
        let debug = module.debug();
        for (_, _, line) in debug.lines().filter(|(_, _, line)| line.line != 0) {
            self.file(debug.file(line.file)).lines.entry(line.line).or_default();
        }
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let inside = profile
            .blocks
            .iter()
            .filter(|block| profile.function_of(block).is_some_and(|function| function.module == number));
        for block in inside {
            for (address, _) in profile.instructions_of(block) {
                *counts.entry(address).or_default() += block.count;
            }
        }
        for (address, count) in counts {
            if let Some(line) = debug.line(address).filter(|line| line.line != 0)
                && let Some(known) = self.file(debug.file(line.file)).lines.get_mut(&line.line)
            {
                *known = (*known).max(count);
            }
        }
        self.add_functions(profile, number, module);
        self.add_branches(profile, number, module);
    }

    fn add_functions(&mut self, profile: &Profile, number: u32, module: &Module) {
        let debug = module.debug();
        let entered: BTreeMap<u64, u64> = profile
            .functions
            .iter()
            .filter(|function| function.module == number)
            .filter_map(|function| Some((function.start?, function.entries)))
            .collect();
        for function in debug.functions().into_iter().filter(|function| function.line != 0) {
            let entries = entered.get(&function.start).copied().unwrap_or(0);
            let file = self.file(debug.file(function.file));
            file.functions.entry((function.line, function.name)).or_default().entries += entries;
        }
    }

    fn add_branches(&mut self, profile: &Profile, number: u32, module: &Module) {
        let debug = module.debug();
        let mut branches: BTreeMap<u64, BranchCoverage> = never_executed(profile, module)
            .into_iter()
            .map(|address| (address, BranchCoverage::default()))
            .collect();
        for branch in profile.branches().iter().filter(|branch| branch.module == number) {
            let known = branches.entry(branch.address).or_default();
            known.taken += branch.taken;
            known.not_taken += branch.not_taken;
        }
        for (address, counts) in branches {
            if let Some(line) = debug.line(address).filter(|line| line.line != 0) {
                let file = self.file(debug.file(line.file));
                file.branches.insert((line.line, address), counts);
            }
        }
    }

    fn file(&mut self, name: &str) -> &mut FileCoverage {
        self.files.entry(name.to_owned()).or_default()
    }
}

/// Conditional branches in the functions of a file, executed or not, by walking through their code. Code of T32 and A32
/// has data in it, and is left out.
fn never_executed(profile: &Profile, module: &Module) -> Vec<u64> {
    let mut found = Vec::new();
    let isa = profile.blocks.iter().find_map(|block| {
        let function = profile.function_of(block)?;
        std::ptr::eq(profile.module_of(function)?, module).then_some(block.isa)
    });
    let (Some(isa), Some(contents)) = (isa, module.contents()) else { return found };
    if matches!(isa, backsight::core::Isa::A32 | backsight::core::Isa::T32) {
        return found;
    }
    let Ok(elf) = Elf::parse(module.name().as_ref(), contents) else { return found };
    for function in module.functions() {
        let Some(segment) =
            elf.segments.iter().find(|one| function.start.wrapping_sub(one.address) < one.length)
        else {
            continue;
        };
        let start = (segment.offset + (function.start - segment.address)) as usize;
        let size = function.size.min(segment.length - (function.start - segment.address)) as usize;
        let mut code = contents.get(start..start + size).unwrap_or_default();
        let mut address = function.start;
        while let Some(instruction) = classify(isa, &code[..code.len().min(4)], Address(address)) {
            if instruction.class == Class::DirectBranch && instruction.flags.conditional {
                found.push(address);
            }
            address += u64::from(instruction.size);
            code = code.get(usize::from(instruction.size)..).unwrap_or_default();
        }
    }
    found
}
