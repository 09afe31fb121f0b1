//! Packets that name an instruction, and what they do to the tracer's state.

use backsight_riscv::etrace::{Packet, Reported, Start, TrapPacket, encode};
use backsight_riscv::ingress::Itype;

use super::item::Item;
use super::{Jump, ResyncState, Sink, Tracer, UnreportedTrap};

/// Why an instruction is named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reason {
    /// How execution came to it.
    pub after: Jump,
    /// Something else than that wants it named.
    pub another: bool,
    /// The next packet will be a trap or a start.
    pub before_sync: bool,
}

impl Reason {
    /// Nothing but the number of branches.
    pub(super) const fn branches() -> Self {
        Self { after: Jump::Inferable, another: false, before_sync: false }
    }
}

impl Tracer {
    #[inline]
    fn field(&self, address: u64) -> u64 {
        self.params.wrap(address) >> self.params.iaddress_lsb
    }

    fn branch_bit(current: &Item) -> bool {
        current.itype != Itype::Taken
    }

    /// Format 3 subformat 0.
    pub(super) fn send_start(&mut self, current: &Item, sink: &mut impl Sink) {
        let start = Start {
            branch: Self::branch_bit(current),
            privilege: current.privilege,
            time: current.time,
            context: current.context,
            address: self.field(current.address),
        };
        self.emit(&Packet::Start(start), sink);
        self.synchronised(current, true);
    }

    /// Format 3 subformat 1 about `trap`; with `thaddr`, `current` is the first instruction of its handler.
    pub(super) fn send_trap(
        &mut self,
        current: &Item,
        trap: &UnreportedTrap,
        thaddr: bool,
        sink: &mut impl Sink,
    ) {
        let implicit = self.options.implicit_exception && thaddr;
        let packet = TrapPacket {
            branch: !thaddr || Self::branch_bit(current),
            privilege: current.privilege,
            time: current.time,
            context: current.context,
            ecause: trap.cause,
            interrupt: trap.interrupt,
            thaddr,
            address: (!implicit).then(|| self.field(current.address)),
            tval: if trap.interrupt { 0 } else { trap.tval },
        };
        self.emit(&Packet::Trap(packet), sink);
        self.synchronised(current, thaddr);
    }

    /// Everything that is kept in step with a decoder begins again.
    fn synchronised(&mut self, current: &Item, retired: bool) {
        let branch = retired && current.itype.is_branch();
        let branch = branch.then(|| (current.address, current.itype == Itype::Taken));
        let fresh = self.is_fresh();
        self.branches.synchronise(branch, fresh);
        if fresh {
            self.cache.reset();
            self.stack.reset();
        }
        self.beginning &= !retired;
        self.last_address = current.address;
        self.context_pending = false;
        self.count = 0;
        self.resync = ResyncState::Counting;
        self.moved();
    }

    /// Do tables begin again at a sync packet? Without periodic resynchronisation only at the beginning: a decoder
    /// that comes late waits for the next one.
    pub(super) fn is_fresh(&self) -> bool {
        self.beginning || !self.options.resync_disabled
    }

    /// Does the target of this jump enter the cache?
    pub(super) fn is_cached(&self, jump: Jump) -> bool {
        self.options.jump_target_cache && jump.is_updiscon() && jump != Jump::CountedOutReturn
    }

    /// The decoder will have moved by the packet just made.
    #[inline]
    pub(super) fn moved(&mut self) {
        self.irets = 0;
        self.returned = false;
        self.waiting = false;
    }

    /// Formats 0 and 1 without an address.
    #[inline(never)]
    pub(super) fn send_branches(&mut self, sink: &mut impl Sink) {
        let packet = self.branches.full();
        self.moved();
        self.branches.clear();
        self.emit(&packet, sink);
    }

    /// The address field of formats 0, 1 and 2.
    #[inline]
    fn difference(&self, address: u64) -> u64 {
        let from = if self.options.full_address { 0 } else { self.last_address };
        self.field(address.wrapping_sub(from))
    }

    /// Formats 0, 1 and 2 with an address.
    pub(super) fn send_address(&mut self, address: u64, notify: bool, reason: Reason, sink: &mut impl Sink) {
        // A predicted return that is reported for another reason is like one that was not predicted.
        let like_updiscon = reason.after.is_updiscon() || reason.after == Jump::ImplicitReturn;
        let flag_updiscon = like_updiscon && reason.before_sync;
        let reported = Reported {
            address: self.difference(address),
            notify: notify && !like_updiscon && !reason.another,
            updiscon: flag_updiscon,
            irreport: self.irreport(reason.after),
        };
        let cached = self.is_cached(reason.after);
        let packet = self.choose(address, reported, cached);
        if cached {
            self.cache.insert(self.params.wrap(address));
        }
        self.last_address = address;
        self.branches.clear();
        self.moved();
        self.waiting = like_updiscon && !flag_updiscon && !matches!(packet, Packet::JumpTarget { .. });
        self.sent_anyway = like_updiscon && !flag_updiscon;
        self.emit(&packet, sink);
    }

    /// The same about the target of an uninferable jump, where none of the options that look further is on, and
    /// nothing but the jump wants it named.
    #[inline(never)]
    pub(super) fn send_target(&mut self, address: u64, sink: &mut impl Sink) {
        let (map, field) = (self.branches.map(), self.difference(address));
        self.last_address = address;
        self.branches.clear();
        self.moved();
        self.waiting = true;
        self.sent_anyway = true;
        if self.lost || !sink.address(map, field, &self.params, &self.options) {
            self.lost = true;
        } else {
            self.sent();
        }
    }

    fn choose(&self, address: u64, reported: Reported, cached: bool) -> Packet {
        if self.branches.is_counting() {
            return self.branches.counted(reported);
        }
        let map = self.branches.map();
        if cached {
            let target = self.params.wrap(address);
            let index = self.cache.index(target);
            if self.cache.get(index) == Some(target) {
                let hit = Packet::JumpTarget { index, map, irreport: reported.irreport };
                return self.shorter(hit, map.with_address(reported));
            }
        }
        map.with_address(reported)
    }

    /// The one with the shorter payload. A decoder enters the target into its cache either way.
    fn shorter(&self, hit: Packet, address: Packet) -> Packet {
        let length = |packet| encode(packet, &self.params, &self.options).len();
        if length(&address) < length(&hit) { address } else { hit }
    }

    /// Number of implicit returns, where a decoder must know it.
    fn irreport(&self, after: Jump) -> Option<u32> {
        if !self.options.implicit_return {
            return None;
        }
        match after {
            Jump::MispredictedReturn | Jump::CountedOutReturn => Some(self.irets),
            Jump::ImplicitReturn => Some(self.irets.saturating_sub(1)),
            // The decoder takes every return before an uninferable jump.
            Jump::Uninferable => None,
            Jump::UnpredictedReturn | Jump::Inferable => (self.irets > 0).then_some(self.irets),
        }
    }
}
