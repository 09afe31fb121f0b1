//! What all differences come to.

use std::collections::BTreeMap;

use backsight::SourceCode;
use backsight::diff::{Difference, Part, Shown, Summary, What};
use backsight::steps::Read;

/// Functions of which differences are counted; those of others are counted together.
const MOST_FUNCTIONS: usize = 10_000;

/// What is counted of all pairs.
#[derive(Debug, Default)]
pub struct Totals {
    pub sums: Summary,
    /// Differences, without what traces are missing.
    pub differences: u64,
    /// Sources and harts without a counterpart.
    pub alone: u64,
    pub is_damaged: bool,
    /// By function: differences, and instructions that one side has.
    pub functions: BTreeMap<String, (u64, [u64; 2])>,
    /// Registers of a log that there was no room for.
    pub lost: u64,
}

impl Totals {
    /// The function that a difference is in.
    pub fn place(&self, difference: &Difference, code: &[SourceCode<'_>; 2]) -> String {
        let last = difference.before.last().map(|pair| (&pair[0], 0));
        let of = |side: usize| difference.parts[side].first.first().map(|shown| (shown, side));
        let after = difference.after.first().map(|pair| (&pair[0], 0));
        let found = last.or_else(|| of(0)).or_else(|| of(1)).or(after);
        found.map_or_else(|| "?".to_owned(), |(shown, side)| function_of(shown, &code[side]))
    }

    pub fn add(&mut self, difference: &Difference, place: String) {
        if matches!(difference.what, What::Missing { .. }) {
            return;
        }
        self.differences += 1;
        let is_known = self.functions.len() < MOST_FUNCTIONS || self.functions.contains_key(&place);
        let place = if is_known { place } else { "others".to_owned() };
        let counted = self.functions.entry(place).or_default();
        counted.0 += 1;
        let counts = difference.parts.each_ref().map(|part: &Part| part.count);
        counted.1 = [counted.1[0] + counts[0], counted.1[1] + counts[1]];
    }

    pub fn finish(&mut self, summary: &Summary, reads: &[Read; 2]) {
        let sums = &mut self.sums;
        sums.equal += summary.equal;
        for side in 0..2 {
            sums.only[side] += summary.only[side];
            sums.missing[side] += summary.missing[side];
        }
        let add =
            |sums: &mut [u64], more: &[u64]| sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        add(&mut sums.kinds, &summary.kinds);
        add(&mut sums.effects, &summary.effects);
        sums.stopped |= summary.stopped;
        self.is_damaged |= reads.iter().any(|read| read.decoded.bad > 0);
        self.lost += reads.iter().map(|read| read.lost).sum::<u64>();
    }

    /// Was there nothing to compare?
    pub fn is_empty(&self) -> bool {
        let Summary { equal, only, missing, .. } = self.sums;
        self.differences == 0 && equal + only[0] + only[1] + missing[0] + missing[1] == 0
    }

    pub fn are_same(&self) -> bool {
        self.differences == 0 && self.alone == 0
    }

    /// Functions with most differences first.
    pub fn sorted(&self) -> Vec<(&str, u64, [u64; 2])> {
        let mut functions: Vec<_> =
            self.functions.iter().map(|(name, &(count, only))| (name.as_str(), count, only)).collect();
        functions.sort_by_key(|&(name, count, _)| (std::cmp::Reverse(count), name));
        functions
    }
}

/// The function of an instruction; its address where no name is known.
pub fn function_of(shown: &Shown, code: &SourceCode<'_>) -> String {
    let image = code.names_at(shown.space, shown.step.address);
    let symbol = image.symbolise(shown.space, shown.step.address);
    symbol.map_or_else(|| shown.step.address.to_string(), |symbol| symbol.name.to_owned())
}
