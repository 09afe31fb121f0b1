//! What formats need that know no names, only addresses of one file.

use std::collections::BTreeMap;

use super::{ExportError, ExportOptions};
use crate::{EdgeKind, Profile};

/// The file that is meant: the one that was named, or the one with most instructions.
pub(super) fn chosen(profile: &Profile, options: &ExportOptions) -> Result<u32, ExportError> {
    let mut instructions: Vec<u64> = vec![0; profile.modules.len()];
    for function in &profile.functions {
        if let Some(sum) = instructions.get_mut(function.module as usize) {
            *sum += function.instructions;
        }
    }
    let found = match &options.module {
        Some(name) => {
            let mut modules = profile.modules.iter();
            modules.position(|module| module.name() == name || module.short_name() == name)
        }
        None => (0..instructions.len()).max_by_key(|&number| (instructions[number], usize::MAX - number)),
    };
    found.map(|number| number as u32).ok_or_else(|| {
        let names: Vec<_> = profile.modules.iter().map(crate::Module::short_name).collect();
        ExportError::Missing(match &options.module {
            Some(name) => format!("{name} was not executed; the trace has {}", names.join(", ")),
            None => "no instruction was executed: there is nothing to write".to_owned(),
        })
    })
}

/// Ranges and branches of one file.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// First and last instruction of blocks.
    pub ranges: BTreeMap<(u64, u64), u64>,
    /// From a branch to its target, with whether it is a return.
    pub branches: BTreeMap<(u64, u64), u64>,
    /// From a branch that was not taken to the instruction after it.
    pub not_taken: BTreeMap<(u64, u64), u64>,
    /// From an instruction that is no branch to the one after it, where a block ends: at exceptions, and where it is long.
    pub sequences: BTreeMap<(u64, u64), u64>,
}

impl Ranges {
    pub fn of(profile: &Profile, module: u32) -> Self {
        let is_inside = |block: u32| {
            let block = profile.blocks.get(block as usize);
            let function = block.and_then(|block| profile.function_of(block));
            block.filter(|_| function.is_some_and(|function| function.module == module))
        };
        let mut ranges = Self::default();
        for number in 0..profile.blocks.len() as u32 {
            if let Some(block) = is_inside(number)
                && block.count > 0
            {
                *ranges.ranges.entry((block.start, block.last())).or_default() += block.count;
            }
        }
        for edge in &profile.edges {
            let (Some(from), Some(to)) = (is_inside(edge.from), is_inside(edge.to)) else { continue };
            let map = match edge.kind {
                EdgeKind::NotTaken => &mut ranges.not_taken,
                EdgeKind::Sequence => &mut ranges.sequences,
                EdgeKind::Exception | EdgeKind::ExceptionReturn => continue,
                _ => &mut ranges.branches,
            };
            *map.entry((from.last(), to.start)).or_default() += edge.count;
        }
        ranges
    }
}
