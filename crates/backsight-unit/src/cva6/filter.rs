//! Which blocks are traced (`te_filter`): a comparator of its own for each input.

use backsight_riscv::ingress::Block;

/// What one input must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Anything.
    #[default]
    Off,
    /// Between the two, both included.
    Range(u64, u64),
    /// This.
    Match(u64),
}

impl Check {
    fn passes(self, value: u64) -> bool {
        match self {
            Self::Off => true,
            Self::Range(lower, upper) => (lower..=upper).contains(&value),
            Self::Match(wanted) => value == wanted,
        }
    }
}

/// Every enabled input must pass. Without any, everything is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Tracing is enabled.
    pub trace: bool,
    /// Cause.
    pub cause: Check,
    /// Base of the trap handlers.
    pub tvec: Check,
    /// Trap value.
    pub tval: Check,
    /// Privilege.
    pub privilege: Check,
    /// Address of the block.
    pub iaddr: Check,
}

impl Default for Filter {
    fn default() -> Self {
        let [cause, tvec, tval, privilege, iaddr] = [Check::Off; 5];
        Self { trace: true, cause, tvec, tval, privilege, iaddr }
    }
}

impl Filter {
    /// Is the block traced? `tvec` is the base of the trap handlers at that time.
    pub fn qualifies(&self, block: &Block, tvec: u64) -> bool {
        self.trace
            && self.cause.passes(block.cause)
            && self.tvec.passes(tvec)
            && self.tval.passes(block.tval)
            && self.privilege.passes(block.privilege.into())
            && self.iaddr.passes(block.iaddr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_enabled_input_must_pass() {
        let block = Block { iaddr: 0x8000_0010, privilege: 3, cause: 2, ..Block::default() };
        assert!(Filter::default().qualifies(&block, 0));
        let range = Filter { iaddr: Check::Range(0x8000_0000, 0x8000_0010), ..Filter::default() };
        assert!(range.qualifies(&block, 0));
        assert!(!Filter { privilege: Check::Match(1), ..range }.qualifies(&block, 0));
        assert!(!Filter { tvec: Check::Match(4), ..range }.qualifies(&block, 0));
        assert!(!Filter { trace: false, ..range }.qualifies(&block, 0));
    }
}
