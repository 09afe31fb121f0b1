//! The tracer: blocks in, packets out.
//!
//! It looks at one *item* at a time, a retired instruction or a trap, knowing the one before and the one
//! after. Of a block only the first and last instruction are items: those between change nothing. It sends a packet
//! when the program alone does not determine how execution went on, and names an instruction wherever the next packet
//! would otherwise be ambiguous.

mod branches;
mod common;
mod decide;
mod item;
mod report;
mod settings;
mod sink;
#[cfg(test)]
mod tests;

use backsight_riscv::etrace::tables::{JumpCache, ReturnStack};
use backsight_riscv::etrace::{
    Disclosed, ImplicitReturn, Options, Packet, Params, QualStatus, Support, SupportLayout,
};
use backsight_riscv::ingress::{Block, Ctype};

use self::branches::Branches;
use self::common::Common;
use self::item::Item;
pub use self::settings::{Algorithm, Settings, UnitError};
pub use self::sink::{Payloads, Sink, TracerPort};
use crate::riscv::{Resync, ResyncMode, block_tracer};

block_tracer!(Tracer, Packet);

/// What the item before leaves for the current one.
#[derive(Clone, Copy, Debug)]
struct Previous {
    privilege: u8,
    retired: bool,
    jump: Jump,
    trap: Option<UnreportedTrap>,
}

/// How a retired instruction went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jump {
    /// To where the program says.
    Inferable,
    /// An uninferable discontinuity that nothing predicts.
    Uninferable,
    /// A return that the stack predicted: not sent.
    ImplicitReturn,
    /// A return that the stack predicted, sent because the count of implicit returns is at its limit.
    CountedOutReturn,
    /// A return that went elsewhere than predicted.
    MispredictedReturn,
    /// A return that found the stack empty.
    UnpredictedReturn,
}

impl Jump {
    const fn is_updiscon(self) -> bool {
        !matches!(self, Self::Inferable | Self::ImplicitReturn)
    }
}

#[derive(Clone, Copy, Debug)]
struct UnreportedTrap {
    cause: u64,
    tval: u64,
    interrupt: bool,
    /// Its cause already went out with thaddr = 0.
    reported: bool,
}

/// Where resynchronisation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResyncState {
    /// Below the limit.
    Counting,
    /// At the limit: name an instruction.
    Flush,
    /// The next instruction gets a sync packet.
    Send,
}

/// An E-Trace tracer for one hart.
#[derive(Clone, Debug)]
pub struct Tracer {
    params: Params,
    options: Options,
    settings: Settings,
    /// The item to decide about once the next one is known.
    current: Option<Item>,
    previous: Option<Previous>,
    context: u64,
    context_pending: bool,
    last_address: u64,
    branches: Branches,
    cache: JumpCache,
    stack: ReturnStack,
    /// Implicit returns since the last branch or packet.
    irets: u32,
    returned: bool,
    count: u64,
    resync: ResyncState,
    /// The latest packet named the target of a discontinuity without saying that a sync packet follows.
    waiting: bool,
    /// The latest packet would have been sent anyway, because of a discontinuity.
    sent_anyway: bool,
    enabled: bool,
    /// No sync packet has named an instruction since tracing began or was resumed.
    beginning: bool,
    /// Packets were lost; nothing is sent until there is room to begin again.
    lost: bool,
    common: Common,
}

impl Tracer {
    /// A tracer that has seen nothing yet.
    pub fn new(params: Params, options: Options, settings: Settings) -> Result<Self, UnitError> {
        settings::check(&params, &options)?;
        Ok(Self {
            params,
            options,
            settings,
            current: None,
            previous: None,
            context: 0,
            context_pending: false,
            last_address: 0,
            branches: Branches::new(&params, &options),
            cache: JumpCache::new(&params),
            stack: ReturnStack::new(&params),
            irets: 0,
            returned: false,
            count: 0,
            resync: ResyncState::Counting,
            waiting: false,
            sent_anyway: false,
            enabled: false,
            beginning: true,
            lost: false,
            common: Common::new(&options),
        })
    }

    /// The parameters.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The options in force.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Takes a block that is to be traced. Packets about it may come with later blocks: the tracer looks ahead.
    #[inline(always)]
    pub fn push(&mut self, block: &Block, sink: &mut impl Sink) {
        if self.common.adds_an_outcome_at_most(block) {
            self.push_outcome(block, sink);
        } else if self.common.names_at_most(block) {
            self.push_at_jump(block, sink);
        } else {
            // A copy, so that a caller that makes blocks can keep them in registers on the ways above.
            self.push_checked(&{ *block }, sink);
        }
    }

    /// The tracer with the sink of its packets, as something that takes blocks.
    pub fn port<'a, S: Sink>(&'a mut self, sink: &'a mut S) -> TracerPort<'a, S> {
        TracerPort { encoder: self, sink }
    }

    #[inline(never)]
    fn push_checked(&mut self, block: &Block, sink: &mut impl Sink) {
        if self.common.takes(block) {
            self.push_with_tables(block, sink);
        } else {
            self.push_any(block, sink);
        }
    }

    fn push_any(&mut self, block: &Block, sink: &mut impl Sink) {
        self.leave_common_way();
        let trap = block.itype.is_trap();
        if block.iretire > 0 {
            if !block.is_single() && self.first_matters(block) {
                self.advance(Item::first(block), sink);
            }
            let together = trap && self.settings.algorithm == Algorithm::Reference;
            self.advance(Item::last(block, together, &self.settings), sink);
            if !trap || together {
                return self.hold_if_common(block);
            }
        }
        if trap {
            self.advance(Item::trap(block), sink);
        }
    }

    /// Could the first of several instructions of a block cause a packet, or change one about the item before?
    #[inline]
    fn first_matters(&self, block: &Block) -> bool {
        let (Some(current), Some(previous)) = (&self.current, &self.previous) else { return true };
        block.ctype != Ctype::Unreported
            || block.privilege != current.privilege
            || current.itype.is_uninferable()
            || current.trap
            || previous.trap.is_some()
            || self.resync != ResyncState::Counting
            || self.context_pending
            || self.resync_near(current)
    }

    /// Could the limit be reached before the block's first instruction?
    #[inline]
    fn resync_near(&self, current: &Item) -> bool {
        let resync = self.resync_settings();
        resync.mode != ResyncMode::Off && self.count + u64::from(current.weight) + 2 >= resync.limit
    }

    /// Could a resynchronisation be due before `packets` more packets are sent? Where something else than packets is
    /// counted, this cannot be excluded.
    #[inline]
    fn is_resync_near(&self, packets: u64) -> bool {
        let resync = self.resync_settings();
        match resync.mode {
            ResyncMode::Off => false,
            ResyncMode::Packets => self.count + packets >= resync.limit,
            ResyncMode::Cycles | ResyncMode::HalfWords => true,
        }
    }

    /// What is counted, and how far: nothing if the option says that there is no periodic resynchronisation.
    #[inline]
    fn resync_settings(&self) -> Resync {
        if self.options.resync_disabled { Resync::default() } else { self.settings.resync }
    }

    /// What comes next is not traced: a filter refused it, tracing was switched off, or it was not observed.
    pub fn unqualified(&mut self, sink: &mut impl Sink) {
        self.leave_common_way();
        if let Some(current) = self.current.take() {
            self.process(&current, None, sink);
            self.close(true, sink);
        }
    }

    /// Changes the options. Tracing ends and begins again.
    pub fn set_options(&mut self, options: Options, sink: &mut impl Sink) -> Result<(), UnitError> {
        settings::check(&self.params, &options)?;
        self.unqualified(sink);
        self.options = options;
        self.branches = Branches::new(&self.params, &options);
        self.common = Common::new(&options);
        if self.enabled {
            self.support(true, QualStatus::NoChange, sink);
        }
        Ok(())
    }

    /// Tracing ends. The tracer can be used again.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.leave_common_way();
        if let Some(current) = self.current.take() {
            self.process(&current, None, sink);
            self.close(false, sink);
        } else if self.enabled {
            self.recover(sink);
            self.support(false, QualStatus::NoChange, sink);
        }
        self.enabled = false;
    }

    fn advance(&mut self, item: Item, sink: &mut impl Sink) {
        if let Some(current) = self.current.replace(item) {
            self.process(&current, Some(&item), sink);
        } else if !self.enabled {
            self.enabled = true;
            self.support(true, QualStatus::NoChange, sink);
        }
    }

    /// After the packet that named the last instruction.
    fn close(&mut self, ienable: bool, sink: &mut impl Sink) {
        let status = if self.sent_anyway { QualStatus::EndedNtr } else { QualStatus::EndedRep };
        self.support(ienable, status, sink);
        self.forget_previous();
    }

    /// The next item has nothing before it.
    fn forget_previous(&mut self) {
        self.previous = None;
        self.beginning = true;
    }

    fn support(&mut self, ienable: bool, qual_status: QualStatus, sink: &mut impl Sink) {
        let p = &self.params;
        let disclosed = Disclosed {
            iret_ext: p.implicit_return == ImplicitReturn::Returns,
            time_width: p.time_bits().div_ceil(16),
            f0s_width: p.f0s_width,
            return_stack_size: p.return_stack_size,
            call_counter_size: p.call_counter_size,
            bpred_size: p.bpred_size,
            cache_size: p.cache_size,
            mmacas_ext: p.mmacas_ext != 0,
        };
        let support = Support {
            ienable,
            qual_status,
            options: self.options,
            delta_address: p.layout == SupportLayout::Cva6 && !self.options.full_address,
            disclosed: (p.layout == SupportLayout::Standard).then_some(disclosed),
            denable: self.settings.data.is_some(),
            data_options: self.settings.data.unwrap_or_default(),
            ..Support::default()
        };
        self.emit(&Packet::Support(support), sink);
    }

    /// Sends a packet, or loses it.
    fn emit(&mut self, packet: &Packet, sink: &mut impl Sink) {
        if self.lost || !sink.packet(packet, &self.params, &self.options) {
            self.lost = true;
            return;
        }
        self.sent();
        if self.settings.shallow {
            self.branches.clear();
        }
    }

    /// A packet was sent.
    #[inline]
    fn sent(&mut self) {
        self.count += u64::from(self.settings.resync.mode == ResyncMode::Packets);
    }
}
