//! Conditional branches: how often each was taken, and how hard that is to predict.

use std::collections::BTreeMap;

use crate::{EdgeKind, Profile};

/// A conditional branch instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The number of its file.
    pub module: u32,
    /// Its address in its file's own numbering.
    pub address: u64,
    /// A block that it ends.
    pub block: u32,
    /// How often it was taken.
    pub taken: u64,
    /// How often it was not.
    pub not_taken: u64,
}

impl Branch {
    /// How often it was executed.
    pub fn executed(&self) -> u64 {
        self.taken + self.not_taken
    }

    /// Its taken frequency f(b), from 0 to 1.
    pub fn frequency(&self) -> f64 {
        self.taken as f64 / self.executed().max(1) as f64
    }

    /// Bits that its outcome is worth to one who knows the frequency: 0 always goes the same way, 1 is a coin.
    pub fn entropy(&self) -> f64 {
        entropy(self.frequency())
    }

    /// Executions that go the rarer way: what a predictor that knows only the frequency gets wrong.
    pub fn rarer(&self) -> u64 {
        self.taken.min(self.not_taken)
    }
}

/// The entropy of an outcome of a probability, in bits.
pub fn entropy(probability: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    part(probability) + part(1.0 - probability)
}

impl Profile {
    /// The conditional branches that were executed, those that are hardest to predict first: by the executions that go
    /// their rarer way.
    pub fn branches(&self) -> Vec<Branch> {
        let mut branches: BTreeMap<(u32, u64), Branch> = BTreeMap::new();
        for edge in &self.edges {
            let Some(block) = self.blocks.get(edge.from as usize).filter(|block| block.is_conditional())
            else {
                continue;
            };
            let Some(module) = self.function_of(block).map(|function| function.module) else { continue };
            let address = block.last();
            let new = Branch { module, address, block: edge.from, taken: 0, not_taken: 0 };
            let branch = branches.entry((module, address)).or_insert(new);
            match edge.kind {
                EdgeKind::NotTaken => branch.not_taken += edge.count,
                kind if kind.is_branch() => branch.taken += edge.count,
                _ => {}
            }
        }
        let mut branches: Vec<Branch> = branches.into_values().collect();
        branches.sort_by_key(|branch| (std::cmp::Reverse(branch.rarer()), branch.module, branch.address));
        branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coin_is_worth_a_bit_and_certainty_nothing() {
        assert_eq!([0.0, 0.5, 1.0].map(entropy), [0.0, 1.0, 0.0]);
        assert!(entropy(0.25) > 0.8 && entropy(0.25) < 0.82);
    }
}
