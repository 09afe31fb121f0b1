//! What the tracer decides about: one retired instruction, or one trap.

use backsight_riscv::ingress::{Block, Ctype, Itype};

use super::{ResyncMode, Settings};

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Of the instruction; of a trap without one, where it happened.
    pub address: u64,
    /// Where a call returns to.
    pub end: u64,
    pub cause: u64,
    pub tval: u64,
    pub context: u64,
    pub time: u64,
    /// What it adds to the resync counter, beyond packets.
    pub weight: u32,
    pub itype: Itype,
    pub privilege: u8,
    pub ctype: Ctype,
    pub retired: bool,
    pub trap: bool,
    pub interrupt: bool,
    pub sijump: bool,
    pub notify: bool,
    /// Other instructions of its block come before it.
    pub inner: bool,
}

impl Item {
    fn common(block: &Block) -> Self {
        Self {
            address: block.iaddr,
            end: block.iaddr,
            cause: 0,
            tval: 0,
            context: block.context,
            time: block.time,
            weight: 0,
            itype: Itype::None,
            privilege: block.privilege,
            ctype: block.ctype,
            retired: true,
            trap: false,
            interrupt: false,
            sijump: false,
            notify: false,
            inner: false,
        }
    }

    /// The first of several instructions. It is plain: otherwise the block would end with it.
    pub fn first(block: &Block) -> Self {
        Self::common(block)
    }

    /// The last, or only, instruction. `together`: its trap is not an item of its own.
    #[inline]
    pub fn last(block: &Block, together: bool, settings: &Settings) -> Self {
        let inner = !block.is_single();
        Self {
            address: block.last(),
            end: block.end(),
            weight: match settings.resync.mode {
                ResyncMode::Off | ResyncMode::Packets => 0,
                ResyncMode::Cycles => block.cycles,
                ResyncMode::HalfWords => block.iretire,
            },
            itype: if block.itype.is_trap() { Itype::None } else { block.itype },
            cause: block.cause,
            tval: block.tval,
            ctype: block.ctype,
            trap: together,
            interrupt: block.itype == Itype::Interrupt,
            sijump: block.sijump,
            notify: block.notify,
            inner,
            ..Self::common(block)
        }
    }

    /// The trap alone. Its position is after the retired instructions, if there are any.
    pub fn trap(block: &Block) -> Self {
        Self {
            address: block.end(),
            cause: block.cause,
            tval: block.tval,
            ctype: if block.iretire > 0 { Ctype::Unreported } else { block.ctype },
            retired: false,
            trap: true,
            interrupt: block.itype == Itype::Interrupt,
            notify: false,
            ..Self::common(block)
        }
    }

    /// A trap without retirement.
    pub const fn is_trap_only(&self) -> bool {
        self.trap && !self.retired
    }
}
