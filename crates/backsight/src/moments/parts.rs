//! What an index says of parts of a source.

use super::index::SourceIndex;

/// What happened in a part of a source. A part begins where the one before ends; what is reported between two instructions belongs
/// to the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartCounts {
    /// The instruction that it ends before.
    pub end: u64,
    /// Exceptions and interrupts that were taken.
    pub exceptions: u64,
    /// Places where something is missing.
    pub gaps: u64,
    /// How often execution came to another context.
    pub contexts: u64,
    /// How often functions were entered.
    pub entries: u64,
}

impl SourceIndex {
    /// The parts of the source, in order; none where nothing was counted.
    pub fn parts(&self) -> impl Iterator<Item = PartCounts> {
        self.sums.parts.iter().map(|part| {
            let counts = &part.counts;
            PartCounts {
                end: part.end,
                exceptions: counts.exceptions,
                gaps: counts.gaps,
                contexts: counts.contexts.iter().map(|(_, times)| times).sum(),
                entries: counts.functions.iter().map(|(_, times)| times).sum(),
            }
        })
    }
}
