//! Packets, and what they do to the tracer's state.

use backsight_riscv::etrace::{BranchMap, Packet, Reported, Start, TrapPacket};
use backsight_riscv::ingress::{Block, Itype};

use super::{Stage, Tracer, Trap};

/// From this number of branches on the hardware does not say how many there are.
const UNCOUNTED: u8 = 16;

/// What the address of a trap packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrapAddress {
    /// Where the trap happened.
    Epc,
    /// The handler, whose first instruction retired.
    Handler,
    /// The handler, whose first instruction trapped in its turn.
    SecondTrap,
}

impl Tracer {
    fn field(&self, address: u64) -> u64 {
        self.params.wrap(address) >> self.params.iaddress_lsb
    }

    /// Format 3 subformat 0.
    pub(super) fn send_start(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        self.latest_address = block.last();
        self.start(block.privilege, block.itype != Itype::Taken, sink);
    }

    /// The same about the instruction that was named before.
    pub(super) fn repeat_start(&mut self, privilege: u8, sink: &mut impl FnMut(Packet)) {
        self.start(privilege, true, sink);
    }

    fn start(&mut self, privilege: u8, branch: bool, sink: &mut impl FnMut(Packet)) {
        let address = self.field(self.latest_address);
        self.emit(Packet::Start(Start { branch, privilege, time: 0, context: 0, address }), sink);
        self.synchronised();
    }

    /// Format 3 subformat 1, while `block` is decided about.
    pub(super) fn send_trap(
        &mut self,
        block: &Block,
        trap: &Trap,
        place: TrapAddress,
        sink: &mut impl FnMut(Packet),
    ) {
        let thaddr = place == TrapAddress::Handler;
        let address = if place == TrapAddress::Epc { trap.epc } else { block.iaddr };
        let packet = TrapPacket {
            branch: block.itype != Itype::Taken,
            privilege: block.privilege,
            time: 0,
            context: 0,
            ecause: trap.cause,
            interrupt: trap.interrupt,
            thaddr,
            address: Some(self.field(address)),
            tval: trap.tval,
        };
        self.latest_address = address;
        self.emit(Packet::Trap(packet), sink);
        self.synchronised();
    }

    fn synchronised(&mut self) {
        (self.count, self.stage) = (0, Stage::Counting);
    }

    /// Format 1 or 2 with the address of the block's last instruction.
    pub(super) fn send_address(&mut self, block: &Block, updiscon: bool, sink: &mut impl FnMut(Packet)) {
        let address = block.last();
        let difference = address.wrapping_sub(self.latest_address);
        let reported = Reported {
            address: self.field(if self.options.full_address { address } else { difference }),
            notify: false,
            updiscon,
            irreport: None,
        };
        let flushing = self.stage == Stage::Flush;
        if flushing {
            self.stage = Stage::Repeat;
        }
        let map = core::mem::replace(&mut self.map, BranchMap::EMPTY);
        let packet = match map.count {
            // The last of 31 branches is the block's own: it needs no name unless a jump led to it, or the name will
            // be repeated.
            BranchMap::FULL if self.is_rtl() || !updiscon && !flushing => {
                if flushing {
                    self.latest_address = address;
                }
                return self.emit(Packet::Branches { map, address: None }, sink);
            }
            UNCOUNTED..BranchMap::FULL if self.is_rtl() && !updiscon => Packet::Branches {
                map: BranchMap { count: BranchMap::UNCOUNTED, ..map },
                address: Some(reported),
            },
            _ => Packet::Branches { map, address: Some(reported) },
        };
        self.latest_address = address;
        self.emit(packet, sink);
    }

    /// Format 1 without an address: the map is full.
    pub(super) fn send_full_map(&mut self, sink: &mut impl FnMut(Packet)) {
        let map = core::mem::replace(&mut self.map, BranchMap::EMPTY);
        self.emit(Packet::Branches { map, address: None }, sink);
    }
}
