//! Branches by the path that led to them: f(b | p), and what it is worth to know the path.

use std::collections::BTreeMap;

use crate::branches::entropy;
use crate::{Branch, Profile};

/// Outcomes of branches by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathProfile {
    /// Elements of a path.
    pub window: usize,
    /// The outcomes.
    pub contexts: Vec<PathContext>,
    /// Outcomes that there was no room for.
    pub left_out: u64,
}

/// Outcomes of a branch after a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathContext {
    /// The block that the branch ends.
    pub block: u32,
    /// What the branches before did, the last first.
    pub path: Vec<PathElement>,
    /// How often it was taken.
    pub taken: u64,
    /// How often it was not.
    pub not_taken: u64,
}

/// What a branch on a path did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathElement {
    /// A conditional branch.
    Conditional {
        /// The block that it ends.
        block: u32,
        /// It was taken.
        taken: bool,
    },
    /// An indirect branch went to this block.
    Target {
        /// The block.
        block: u32,
    },
}

impl PathElement {
    /// The same with another number for its block.
    pub(crate) fn renumbered(self, new: impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Conditional { block, taken } => Self::Conditional { block: new(block), taken },
            Self::Target { block } => Self::Target { block: new(block) },
        }
    }
}

/// A branch, and what it is worth to know the path to it.
#[derive(Clone, Debug)]
pub struct PathBranch {
    /// The branch, with the outcomes whose path is known.
    pub branch: Branch,
    /// Entropy of its outcome in bits, for one who knows its frequency.
    pub entropy: f64,
    /// The same, for one who knows the path too.
    pub conditional_entropy: f64,
    /// Bits that the path tells over all executions. What chance would tell by so many paths is subtracted (Miller and
    /// Madow).
    pub gain: f64,
    /// The numbers of its contexts, those with most executions first.
    pub contexts: Vec<usize>,
}

impl Profile {
    /// The branches that depend on the path, those that depend most first. Empty where paths were not counted.
    pub fn path_branches(&self) -> Vec<PathBranch> {
        let Some(paths) = &self.paths else { return Vec::new() };
        let mut branches: BTreeMap<(u32, u64), PathBranch> = BTreeMap::new();
        for (number, context) in paths.contexts.iter().enumerate() {
            let Some(block) = self.blocks.get(context.block as usize) else { continue };
            let Some(module) = self.function_of(block).map(|function| function.module) else { continue };
            let address = block.last();
            let found = branches.entry((module, address)).or_insert_with(|| PathBranch {
                branch: Branch { module, address, block: context.block, taken: 0, not_taken: 0 },
                entropy: 0.0,
                conditional_entropy: 0.0,
                gain: 0.0,
                contexts: Vec::new(),
            });
            found.branch.taken += context.taken;
            found.branch.not_taken += context.not_taken;
            found.contexts.push(number);
        }
        let mut branches: Vec<PathBranch> = branches.into_values().collect();
        branches.iter_mut().for_each(|branch| measure(branch, &paths.contexts));
        branches.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        branches
    }
}

fn measure(branch: &mut PathBranch, contexts: &[PathContext]) {
    let executed = |number: usize| contexts[number].taken + contexts[number].not_taken;
    branch.contexts.sort_by_key(|&number| std::cmp::Reverse(executed(number)));
    let total = branch.branch.executed().max(1) as f64;
    branch.entropy = branch.branch.entropy();
    branch.conditional_entropy = branch
        .contexts
        .iter()
        .map(|&number| {
            let n = executed(number).max(1) as f64;
            n / total * entropy(contexts[number].taken as f64 / n)
        })
        .sum();
    let by_chance = (branch.contexts.len() - 1) as f64 / (2.0 * std::f64::consts::LN_2);
    branch.gain = (total * (branch.entropy - branch.conditional_entropy) - by_chance).max(0.0);
}
