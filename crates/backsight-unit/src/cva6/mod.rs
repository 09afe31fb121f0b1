//! The tracer of the encoder for CVA6: one packet for each block, decided by the flow chart of the older specification.
//!
//! The hardware is that of Umberto Laghi, *Efficient Trace for RISC-V: Design, Evaluation, and Integration on a CVA6
//! multicore design*, master's thesis, University of Bologna, December 2024; its packets are those of
//! [`backsight_riscv::cva6`]. The unit that it is part of is [`etrace::Unit`](crate::etrace::Unit).
//!
//! Its `te_priority` looks at three blocks at once, those of the last, this and the next cycle, and sends at most one
//! packet about the middle one. It knows a block by its *last* instruction only: what a packet names is where the
//! block ended, also after an uninferable jump, so the plain instructions from the jump's target up to there are not
//! in the trace. Packets of format 3 leave the branch map alone: the outcome of a branch that they name comes with the
//! next map. A resync first flushes the map with a packet that names an instruction, and then repeats its address.
//!
//! Here and there the hardware sends what no reader can follow; [`Fidelity`] says what becomes of that.

mod decide;
mod filter;
mod report;

use backsight_riscv::etrace::{BranchMap, Options, Packet, Params, QualStatus, Support};
use backsight_riscv::ingress::{Block, Itype};

use crate::etrace::UnitError;
use crate::riscv::{Resync, ResyncMode, block_tracer};

pub use self::filter::{Check, Filter};

block_tracer!(Tracer, Packet);

/// How close to the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fidelity {
    /// Where the hardware would leave a reader in doubt, send what it takes:
    ///
    /// - a resync never replaces the packet after an uninferable jump;
    /// - a return from a trap is an uninferable jump, also where the privilege stays the same, and is named before
    ///   a change of privilege;
    /// - the number of branches is always sent, and so is the address after an uninferable jump;
    /// - a packet of format 3 does not replace the one that must name an instruction before a trap;
    /// - outcomes that a trap leaves do not stay in the map.
    #[default]
    Followable,
    /// As the RTL has it.
    Rtl,
}

/// How a tracer is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How close to the hardware.
    pub fidelity: Fidelity,
    /// Resynchronisation; the hardware counts cycles or packets.
    pub resync: Resync,
    /// Forget branches after every packet.
    pub shallow: bool,
}

impl Settings {
    /// Cycles between two resyncs in the shipped hardware.
    pub const USUAL_RESYNC: Resync = Resync { mode: ResyncMode::Cycles, limit: 8191 };
}

/// What the block of the last cycle leaves.
#[derive(Clone, Copy, Debug)]
struct Last {
    privilege: u8,
    updiscon: bool,
    trap: Option<Trap>,
}

#[derive(Clone, Copy, Debug)]
struct Trap {
    cause: u64,
    tval: u64,
    interrupt: bool,
    /// Where the handler returns to.
    epc: u64,
    /// Its cause already went out, without a handler.
    reported: bool,
}

impl Trap {
    const fn of(block: &Block) -> Self {
        let interrupt = matches!(block.itype, Itype::Interrupt);
        Self { cause: block.cause, tval: block.tval, interrupt, epc: block.end(), reported: false }
    }
}

/// Where resynchronisation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Below the limit.
    Counting,
    /// The map must be flushed by a packet that names an instruction.
    Flush,
    /// The map is flushed: the address of the latest packet is repeated.
    Repeat,
    /// There was nothing to flush: the next block is named.
    Send,
}

/// A tracer for one hart.
#[derive(Clone, Debug)]
pub struct Tracer {
    params: Params,
    options: Options,
    settings: Settings,
    /// The block to decide about once the next one is known.
    current: Option<Block>,
    last: Option<Last>,
    map: BranchMap,
    latest_address: u64,
    count: u64,
    stage: Stage,
    enabled: bool,
    /// The latest packet was one after an uninferable jump.
    sent_anyway: bool,
}

impl Tracer {
    /// A tracer that has seen nothing yet. Of the options it knows full addresses only.
    pub fn new(params: Params, options: Options, settings: Settings) -> Result<Self, UnitError> {
        params.validate()?;
        let unknown = [
            ("implicit_return", options.implicit_return),
            ("implicit_exception", options.implicit_exception),
            ("jump_target_cache", options.jump_target_cache),
            ("branch_prediction", options.branch_prediction),
            ("sijump", options.sijump),
        ];
        if let Some((option, _)) = unknown.into_iter().find(|&(_, on)| on) {
            let needs = "another algorithm: the encoder for CVA6 knows full_address only";
            return Err(UnitError::Missing { option, needs });
        }
        Ok(Self {
            params,
            options,
            settings,
            current: None,
            last: None,
            map: BranchMap::EMPTY,
            latest_address: 0,
            count: 0,
            stage: Stage::Counting,
            enabled: false,
            sent_anyway: false,
        })
    }

    /// Takes a block that is to be traced. Packets about it come with the next one.
    pub fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        if block.iretire == 0 && !block.itype.is_trap() {
            return;
        }
        if let Some(current) = self.current.replace(*block) {
            self.process(&current, Some(block), sink);
        } else if !self.enabled {
            self.enabled = true;
            // The hardware reads its enable bit a cycle too early.
            self.support(false, QualStatus::NoChange, sink);
        }
    }

    /// What comes next is not traced: a filter refused it, or it was not observed.
    pub fn unqualified(&mut self, sink: &mut impl FnMut(Packet)) {
        self.close(true, sink);
    }

    /// Tracing ends. The tracer can be used again.
    pub fn finish(&mut self, sink: &mut impl FnMut(Packet)) {
        self.close(false, sink);
        self.enabled = false;
    }

    fn close(&mut self, ienable: bool, sink: &mut impl FnMut(Packet)) {
        let Some(current) = self.current.take() else { return };
        self.process(&current, None, sink);
        let status = if self.sent_anyway { QualStatus::EndedNtr } else { QualStatus::EndedRep };
        self.support(ienable, status, sink);
        self.last = None;
    }

    fn support(&mut self, ienable: bool, qual_status: QualStatus, sink: &mut impl FnMut(Packet)) {
        let delta_address = !self.options.full_address;
        let options = self.options;
        let support = Support { ienable, qual_status, options, delta_address, ..Support::default() };
        self.emit(Packet::Support(support), sink);
    }

    fn emit(&mut self, packet: Packet, sink: &mut impl FnMut(Packet)) {
        if self.settings.resync.mode == ResyncMode::Packets {
            self.count += 1;
        }
        if self.settings.shallow {
            self.map = BranchMap::EMPTY;
        }
        sink(packet);
    }

    fn is_rtl(&self) -> bool {
        self.settings.fidelity == Fidelity::Rtl
    }
}
