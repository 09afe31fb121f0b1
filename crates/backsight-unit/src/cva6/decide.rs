//! Which packet a block needs: `te_priority`.

use backsight_riscv::etrace::{BranchMap, Packet};
use backsight_riscv::ingress::{Block, Itype};

use super::report::TrapAddress;
use super::{Last, Stage, Tracer, Trap};
use crate::riscv::ResyncMode;

impl Tracer {
    /// Decides about `block`; without `next`, tracing ends after it.
    pub(super) fn process(&mut self, block: &Block, next: Option<&Block>, sink: &mut impl FnMut(Packet)) {
        let last = self.last;
        if last.is_none() {
            self.map = BranchMap::EMPTY;
            (self.count, self.stage) = (0, Stage::Counting);
        }
        self.sent_anyway = false;
        self.count_resync(block);
        if block.itype.is_branch() {
            self.map.push(block.itype == Itype::Taken);
        }
        let mut trap = block.itype.is_trap().then(|| Trap::of(block));
        let named = self.synchronise(block, last, sink);
        self.report(block, next, trap.as_mut(), named, sink);
        if let Some(trap) = trap.filter(|trap| !trap.reported && next.is_none() && !self.is_rtl()) {
            // Nothing that follows would report it.
            self.send_trap(block, &trap, TrapAddress::Epc, sink);
        }
        let updiscon = block.itype.is_uninferable() && (block.itype != Itype::TrapReturn || !self.is_rtl());
        self.last = Some(Last { privilege: block.privilege, updiscon, trap });
    }

    fn count_resync(&mut self, block: &Block) {
        let resync = self.settings.resync;
        self.count += u64::from(match resync.mode {
            ResyncMode::Off | ResyncMode::Packets => 0,
            ResyncMode::Cycles => block.cycles,
            ResyncMode::HalfWords => block.iretire,
        });
        if resync.mode != ResyncMode::Off && self.count >= resync.limit && self.stage == Stage::Counting {
            // A branch of this very block can wait: format 3 leaves it in the map.
            self.stage = if self.map.count > 0 { Stage::Flush } else { Stage::Send };
        }
    }

    /// Packets of format 3. True: the last instruction of the block is named, or nothing more is to be said.
    fn synchronise(&mut self, block: &Block, last: Option<Last>, sink: &mut impl FnMut(Packet)) -> bool {
        let retired = block.iretire > 0;
        let Some(last) = last else {
            if retired {
                self.send_start(block, sink);
            }
            return retired;
        };
        if let Some(trap) = last.trap {
            return self.after_trap(block, &trap, sink);
        }
        if !retired {
            return false;
        }
        let jumped = last.updiscon && !self.is_rtl();
        if self.stage == Stage::Send && (jumped || !self.is_rtl() && block.last() == self.latest_address) {
            // A start packet here would look like a repetition, or like an instruction before the jump.
            self.stage = Stage::Flush;
        }
        if block.privilege != last.privilege || self.stage == Stage::Send {
            self.send_start(block, sink);
            return true;
        }
        if self.stage == Stage::Repeat && !jumped {
            self.repeat_start(block.privilege, sink);
            // The hardware sends one packet for each block: this was it.
            return self.is_rtl();
        }
        false
    }

    fn after_trap(&mut self, block: &Block, trap: &Trap, sink: &mut impl FnMut(Packet)) -> bool {
        if !self.is_rtl() {
            self.map = BranchMap::EMPTY;
            if block.itype.is_branch() {
                self.map.push(block.itype == Itype::Taken);
            }
        }
        match (block.iretire > 0, trap.reported) {
            (false, true) => false,
            (false, false) => {
                self.send_trap(
                    block,
                    trap,
                    if self.is_rtl() { TrapAddress::Epc } else { TrapAddress::SecondTrap },
                    sink,
                );
                true
            }
            (true, true) => {
                self.send_start(block, sink);
                true
            }
            (true, false) => {
                self.send_trap(block, trap, TrapAddress::Handler, sink);
                // The first instruction of the handler is named, not the last of its block.
                self.is_rtl() || block.last() == block.iaddr
            }
        }
    }

    /// Packets of formats 1 and 2, and those about an exception right after an uninferable jump.
    fn report(
        &mut self,
        block: &Block,
        next: Option<&Block>,
        trap: Option<&mut Trap>,
        named: bool,
        sink: &mut impl FnMut(Packet),
    ) {
        let retired = block.iretire > 0;
        let jumped = !named && self.last.is_some_and(|last| last.updiscon);
        match trap {
            Some(trap) if jumped && !retired => {
                self.send_trap(block, trap, TrapAddress::Epc, sink);
                trap.reported = true;
            }
            _ if jumped => {
                self.sent_anyway = true;
                self.send_address(block, true, sink);
            }
            _ if !named && retired && self.must_name(block, next) => self.send_address(block, false, sink),
            _ if self.map.count == BranchMap::FULL => self.send_full_map(sink),
            _ => {}
        }
    }

    /// Does a flush, or what comes next, need the block's last instruction named?
    fn must_name(&self, block: &Block, next: Option<&Block>) -> bool {
        if self.stage == Stage::Flush || block.itype.is_trap() {
            return true;
        }
        let Some(next) = next else { return true };
        let leaves = next.iretire > 0 && next.privilege != block.privilege;
        let pending = self.map.count > 0 || !self.is_rtl();
        next.iretire == 0 && next.itype.is_trap() || leaves && pending
    }
}
