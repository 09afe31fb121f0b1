//! The way that nearly every block goes: no trap, no change of context or privilege, no resynchronisation near.
//!
//! What remains of the flow chart is quick: a branch adds to the map, and where an uninferable jump led to is named.
//! The block itself is kept instead of an item; an item is made of it once something else happens. All that most of
//! these blocks can do is to add an outcome to the map.

use backsight_riscv::etrace::Options;
use backsight_riscv::ingress::{Block, Continuation, Ctype, Itype};

use super::decide::Departure;
use super::item::Item;
use super::report::Reason;
use super::{Jump, Sink, Tracer};

/// What a block can do, a bit for each thing.
mod class {
    /// It ends in a branch.
    pub const BRANCH: u8 = 1;
    /// That is not taken.
    pub const NOT_TAKEN: u8 = 2;
    /// It ends in an uninferable jump.
    pub const JUMP: u8 = 4;
    /// Execution came to it by an uninferable jump, and this is not reported yet.
    pub const TARGET: u8 = 8;
    /// It, or how execution came to it, needs a look at tables or flags.
    pub const OTHER: u8 = 16;
    /// It does not go the common way.
    pub const TRAP: u8 = 32;
    /// Can do more than to add an outcome to the map.
    pub const MORE_THAN_AN_OUTCOME: u8 = JUMP | TARGET | OTHER;
}

/// Packets before a resynchronisation from which on items are looked at: more than one block can cause.
const NEAR: u64 = 8;

/// A block that can be held next.
pub(super) trait Next {
    /// What differs between a block and one that continues it.
    fn continuation(&self) -> Continuation;

    /// Is held from now on.
    fn replace(&self, held: &mut Block);
}

impl Next for Block {
    #[inline(always)]
    fn continuation(&self) -> Continuation {
        let &Self { iaddr, iretire, ilastsize, itype, sijump, .. } = self;
        Continuation { iaddr, iretire, ilastsize, itype, sijump }
    }

    #[inline(always)]
    fn replace(&self, held: &mut Block) {
        *held = *self;
    }
}

/// All else is as in the held block, and stays where it is.
impl Next for Continuation {
    #[inline(always)]
    fn continuation(&self) -> Continuation {
        *self
    }

    #[inline(always)]
    fn replace(&self, held: &mut Block) {
        self.replace(held);
    }
}

/// What is kept on the common way.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// The item to decide about is the last instruction of `held`, and nothing but its jump can matter.
    on: bool,
    held: Block,
    /// What the held block can do: more than to add an outcome where nothing is held.
    class: u8,
    /// How execution came to `held`.
    after: Jump,
    /// The class of each type.
    classes: [u8; 16],
    /// What being the target of an uninferable jump adds.
    target: u8,
}

impl Common {
    pub fn new(options: &Options) -> Self {
        let tables = options.branch_prediction || options.implicit_return || options.jump_target_cache;
        let look = |needed: bool| if needed { class::OTHER } else { 0 };
        let class = |itype: Itype| match itype {
            Itype::Exception | Itype::Interrupt => class::TRAP,
            Itype::Taken => class::BRANCH | look(tables),
            Itype::NotTaken => class::BRANCH | class::NOT_TAKEN | look(tables),
            Itype::InferableCall => look(options.implicit_return),
            _ if itype.is_uninferable() => class::JUMP | look(tables || options.sijump),
            _ => 0,
        };
        Self {
            on: false,
            held: Block::default(),
            class: class::OTHER,
            after: Jump::Inferable,
            classes: core::array::from_fn(|code| Itype::from_code(code as u8).map_or(class::OTHER, class)),
            target: class::TARGET | look(tables),
        }
    }

    #[inline]
    fn class_of(&self, itype: Itype) -> u8 {
        self.classes[itype as usize & 15]
    }

    /// Is there nothing to do about the held block but to add an outcome, and can `block` be held instead?
    #[inline]
    pub fn adds_an_outcome_at_most(&self, block: &Block) -> bool {
        self.class & class::MORE_THAN_AN_OUTCOME == 0 && self.is_common(block)
    }

    /// The same, but for naming the held block, or where its jump leads to?
    #[inline]
    pub fn names_at_most(&self, block: &Block) -> bool {
        self.class & class::OTHER == 0 && self.is_common(block)
    }

    /// Can `block` cause nothing but what a branch or jump causes?
    #[inline]
    pub fn takes(&self, block: &Block) -> bool {
        self.on && self.is_common(block)
    }

    /// All at once: the answer is nearly always yes.
    #[inline]
    fn is_common(&self, block: &Block) -> bool {
        let reasons = (block.privilege ^ self.held.privilege)
            | (block.ctype as u8 ^ Ctype::Unreported as u8)
            | self.class_of(block.itype) & class::TRAP
            | u8::from(block.notify);
        reasons == 0 && block.iretire > 0
    }

    #[inline(always)]
    fn hold(&mut self, next: &impl Next, after: Jump) {
        next.replace(&mut self.held);
        self.after = after;
        self.class = self.class_of(next.continuation().itype);
        match after {
            Jump::Inferable => {}
            Jump::Uninferable => self.class |= self.target,
            _ => self.class |= class::OTHER,
        }
    }

    /// How execution leaves the held block.
    #[inline]
    fn departure(&self) -> Departure {
        Departure { itype: self.held.itype, end: self.held.end(), sijump: self.held.sijump }
    }
}

impl Tracer {
    /// `block` was taken. If nothing unusual is under way, it is held.
    pub(super) fn hold_if_common(&mut self, block: &Block) {
        let Some(previous) = &self.previous else { return };
        self.common.held.privilege = previous.privilege;
        self.common.on = !self.is_resync_near(NEAR)
            && !self.lost
            && previous.trap.is_none()
            && self.common.is_common(block)
            && !self.context_pending;
        if self.common.on {
            self.current = None;
            self.common.hold(block, previous.jump);
        }
    }

    /// Something else happens: back to items.
    #[inline(never)]
    pub(super) fn leave_common_way(&mut self) {
        if self.common.on {
            self.common.on = false;
            self.common.class = class::OTHER;
            self.current = Some(Item::last(&self.common.held, false, &self.settings));
            if let Some(previous) = &mut self.previous {
                previous.jump = self.common.after;
            }
        }
    }

    /// A packet was sent: it may have been lost, or bring a resynchronisation near.
    #[inline]
    fn leave_common_way_if_needed(&mut self) {
        if self.lost || self.is_resync_near(NEAR) {
            self.leave_common_way();
        }
    }

    /// Takes a block that goes on where the held one led. False: it may need more than the ways above.
    #[inline(always)]
    pub(super) fn push_continuation(&mut self, block: &Continuation, sink: &mut impl Sink) -> bool {
        if self.common.class & class::MORE_THAN_AN_OUTCOME == 0 {
            self.push_outcome(block, sink);
        } else if self.common.class & class::OTHER == 0 {
            self.push_at_jump(block, sink);
        } else {
            return false;
        }
        true
    }

    #[inline(always)]
    pub(super) fn push_outcome(&mut self, next: &impl Next, sink: &mut impl Sink) {
        let class = self.common.class;
        self.common.class = self.common.class_of(next.continuation().itype);
        next.replace(&mut self.common.held);
        // Only the outcome is data that a processor cannot foresee; whether there is a branch goes with the path.
        if class & class::BRANCH != 0 && self.branches.push_some(class & class::BRANCH, class >> 1 & 1) {
            self.send_full_map(sink);
        }
    }

    #[inline(never)]
    fn send_full_map(&mut self, sink: &mut impl Sink) {
        self.send_branches(sink);
        self.leave_common_way_if_needed();
    }

    /// The held block ends in an uninferable jump, or execution came to it by one.
    #[inline(always)]
    pub(super) fn push_at_jump(&mut self, next: &impl Next, sink: &mut impl Sink) {
        let class = self.common.class;
        if class & class::TARGET != 0 {
            self.branches.push_some(class & class::BRANCH, class >> 1 & 1);
            self.send_target(self.common.held.last(), sink);
        }
        let mut after = Jump::Inferable;
        if class & class::JUMP != 0 {
            if next.continuation().is_single() {
                after = Jump::Uninferable;
            } else {
                self.send_target(next.continuation().iaddr, sink);
            }
        }
        self.common.hold(next, after);
        self.leave_common_way_if_needed();
    }

    /// The same, or anything else that a common block can do, with a look at tables.
    pub(super) fn push_with_tables(&mut self, block: &Block, sink: &mut impl Sink) {
        let (after, itype) = (self.common.after, self.common.held.itype);
        let branch = itype.is_branch();
        self.irets += u32::from(after == Jump::ImplicitReturn);
        if branch {
            self.branches.push(self.common.held.last(), itype == Itype::Taken);
        }
        let jump = self.follow(&self.common.departure(), Some(block.iaddr));
        self.pass(self.common.held.last(), after, sink);
        if branch {
            self.irets = 0;
        }
        self.returned |= itype == Itype::Return;
        let mut after = jump;
        if itype.is_uninferable() && !block.is_single() {
            // The first of several instructions is where the jump led to.
            self.irets += u32::from(jump == Jump::ImplicitReturn);
            self.pass(block.iaddr, jump, sink);
            after = Jump::Inferable;
        }
        self.common.hold(block, after);
        self.leave_common_way_if_needed();
    }

    /// Names the instruction at `address` if it must be, without what cannot happen.
    #[inline]
    fn pass(&mut self, address: u64, after: Jump, sink: &mut impl Sink) {
        if after.is_updiscon() || self.branches.is_count_full() {
            self.send_address(address, false, Reason { after, ..Reason::branches() }, sink);
        } else if self.branches.is_full() {
            self.send_branches(sink);
        }
    }
}
