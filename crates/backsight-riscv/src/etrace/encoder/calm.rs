//! The way that nearly every block goes: no trap, no change of context or privilege, no resynchronisation near.
//!
//! What remains of the flow chart is quick: a branch adds to the map, and where an uninferable jump led to is named.
//! The block itself is kept instead of an item; an item is made of it once something else happens.

use super::super::Packet;
use super::item::Item;
use super::report::Reason;
use super::{Encoder, Jump};
use crate::ingress::{Block, Ctype, Itype};

/// Is `itype` one of those in `types`, a bit for each code?
#[inline]
const fn is_in(itype: Itype, types: u16) -> bool {
    types >> itype as u8 & 1 != 0
}

const TRAPS: u16 = 1 << Itype::Exception as u8 | 1 << Itype::Interrupt as u8;
const BRANCHES: u16 = 1 << Itype::NotTaken as u8 | 1 << Itype::Taken as u8;
const CALL: u16 = 1 << Itype::InferableCall as u8;
/// Those that neither jump to an unknown place nor make a call.
const PLAIN: u16 =
    BRANCHES | 1 << Itype::None as u8 | 1 << Itype::InferableJump as u8 | 1 << Itype::OtherInferable as u8;

impl Encoder {
    /// Can `block` cause nothing but what a branch or jump causes?
    #[inline]
    pub(super) fn stays_calm(&self, block: &Block) -> bool {
        block.iretire > 0
            && block.privilege == self.held.privilege
            && block.ctype == Ctype::Unreported
            && !is_in(block.itype, TRAPS)
    }

    /// `block` was taken. If nothing unusual is under way, it is held.
    pub(super) fn calm_down(&mut self, block: &Block) {
        let Some(previous) = &self.previous else { return };
        self.calm = self.steady
            && previous.trap.is_none()
            && previous.privilege == block.privilege
            && block.ctype == Ctype::Unreported
            && !is_in(block.itype, TRAPS)
            && !self.context_pending;
        if self.calm {
            self.plain = if self.options.implicit_return { PLAIN } else { PLAIN | CALL };
            self.current = None;
            self.hold(block);
        }
    }

    /// Something else happens: back to items.
    #[inline]
    pub(super) fn stir(&mut self) {
        if self.calm {
            self.calm = false;
            self.current = Some(Item::last(&self.held, false, &self.settings));
        }
    }

    #[inline]
    fn hold(&mut self, block: &Block) {
        self.held = *block;
        let inferable = self.previous.is_some_and(|previous| previous.jump == Jump::Inferable);
        self.quiet = inferable && is_in(block.itype, self.plain) && !block.notify;
    }

    #[inline]
    pub(super) fn push_calmly(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        if !self.quiet {
            return self.push_with_jump(block, sink);
        }
        self.context = self.held.context;
        if is_in(self.held.itype, BRANCHES) {
            self.branch(sink);
        }
        self.held = *block;
        self.quiet = is_in(block.itype, self.plain) && !block.notify;
    }

    /// The held block ends in a branch, and nothing but that can cause a packet.
    #[inline]
    fn branch(&mut self, sink: &mut impl FnMut(Packet)) {
        self.irets = 0;
        self.branches.push(self.held.last(), self.held.itype == Itype::Taken);
        if self.branches.is_full() {
            self.send_branches(sink);
        } else if self.branches.is_count_full() {
            let current = Item::last(&self.held, false, &self.settings);
            self.send_address(&current, Reason::branches(), sink);
        }
    }

    /// The held block ends in a jump or call, or execution came to it by an uninferable jump.
    #[inline(never)]
    fn push_with_jump(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        let current = Item::last(&self.held, false, &self.settings);
        self.pass(&current, block.iaddr, sink);
        if current.itype.is_uninferable() && block.last() != block.iaddr {
            // The first of several instructions is where the jump led to.
            let first = Item::first(block);
            self.pass(&first, block.last(), sink);
        }
        self.hold(block);
    }

    /// Decides about a retired instruction, without what cannot happen.
    #[inline]
    fn pass(&mut self, current: &Item, next: u64, sink: &mut impl FnMut(Packet)) {
        let Some(previous) = self.previous else { return };
        let (after, branch) = (previous.jump, current.itype.is_branch());
        self.sent_anyway = false;
        self.irets += u32::from(after == Jump::ImplicitReturn);
        if branch {
            self.branches.push(current.address, current.itype == Itype::Taken);
        }
        let jump = self.follow(current, Some(next));
        if after.is_updiscon() || current.notify || self.branches.is_count_full() {
            self.send_address(current, Reason { after, ..Reason::branches() }, sink);
        } else if self.branches.is_full() {
            self.send_branches(sink);
        }
        if branch {
            self.irets = 0;
        }
        self.returned |= current.itype == Itype::Return;
        self.context = current.context;
        if let Some(previous) = &mut self.previous {
            previous.retired = true;
            previous.jump = jump;
        }
    }
}
