//! Format 3: where execution is, and how it is traced.

use backsight_image::Code;
use backsight_riscv::etrace::tables::JumpCache;
use backsight_riscv::etrace::{ContextPacket, Params, QualStatus, Start, Support, TrapPacket};

use super::destination::{Destination, DestinationKind, Position};
use super::outcomes::Outcomes;
use super::walk::{Then, Walked};
use super::{Fault, Follower, Settings, settings};
use crate::blocks::{Ending, Origin};
use crate::sink::Sink;

impl<C: Code> Follower<C> {
    pub(super) fn support(&mut self, support: &Support, sink: &mut impl Sink) -> Result<Walked, Fault> {
        // What it says about a handler is out of date; that it was not entered stays true.
        self.unentered = self.unentered.map(|_| None);
        if support.qual_status == QualStatus::EndedNtr
            && let (Some(earlier), Some(position)) = (self.inferred, self.position)
        {
            // The last packet named the target of a jump: walk on to it.
            self.inferred = None;
            let destination = Destination {
                address: position.pc,
                updiscon: true,
                notify: false,
                kind: DestinationKind::Cached,
                ..earlier
            };
            match self.follow(&destination, Then::Support(*support), sink) {
                Ok(Walked::Paused) => return Ok(Walked::Paused),
                Ok(Walked::Arrived) => {}
                Err(fault) => {
                    // A walk that failed is no reason to overlook what is announced.
                    self.learn(support);
                    return Err(fault);
                }
            }
        }
        self.announced(support, sink).map(|()| Walked::Arrived)
    }

    /// What a support packet says is true from here on.
    pub(super) fn announced(&mut self, support: &Support, sink: &mut impl Sink) -> Result<(), Fault> {
        self.learn(support);
        match support.qual_status {
            QualStatus::NoChange => Ok(()),
            QualStatus::TraceLost => {
                self.lost_trace = true;
                Err(Fault::TraceLost)
            }
            QualStatus::EndedRep | QualStatus::EndedNtr => {
                self.flush(sink);
                self.forget();
                Ok(())
            }
        }
    }

    /// Takes over options, and parameters where the layout has them.
    fn learn(&mut self, support: &Support) {
        self.announced.support(support);
        self.adopt();
    }

    /// A packet that cannot follow the options that are doubted: it was damage that announced them.
    #[cold]
    pub(super) fn disbelieve(&mut self, sink: &mut impl Sink) {
        self.adopt();
        self.lose(Fault::BadPacket, sink);
    }

    /// Makes tables for the options in force, if those are others.
    pub(super) fn adopt(&mut self) {
        let sizes = |p: &Params| {
            (p.implicit_return, p.return_stack_size, p.call_counter_size, p.bpred_size, p.cache_size)
        };
        let Settings { params, options, .. } = &mut self.settings;
        let before = (*options, sizes(params));
        (*params, *options) = (*self.announced.params(), *self.announced.options());
        self.is_plain = settings::is_plain(options);
        if options.sijump != before.0.sijump {
            self.blocks.paths.clear();
        }
        if (*options, sizes(params)) != before {
            self.outcomes = Outcomes::new(params, options);
        }
        if sizes(params) != before.1 {
            (self.stack, self.cache) = (settings::return_stack(params), JumpCache::new(params));
        }
    }

    pub(super) fn enter_handler(&mut self, trap: &TrapPacket, sink: &mut impl Sink) -> Result<Walked, Fault> {
        let lsb = self.params().iaddress_lsb;
        let implied = || self.settings.handlers.of(trap.ecause, trap.interrupt).map(|handler| handler >> lsb);
        let address = trap.address.or_else(implied).ok_or(Fault::HandlerUnknown)?;
        let start = Start {
            branch: trap.branch,
            privilege: trap.privilege,
            time: trap.time,
            context: trap.context,
            address,
        };
        self.synchronise(&start, true, sink)
    }

    /// Format 3 subformat 0, and subformat 1 with the handler's address.
    pub(super) fn synchronise(
        &mut self,
        start: &Start,
        trap: bool,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        self.inferred = None;
        self.address = self.absolute(start.address);
        let is_first = self.position.is_none();
        let begins_here = trap || is_first || self.unentered.is_some();
        self.unentered = None;
        self.lost_at = self.address;
        let block = self.block_at(Origin::UNKNOWN, self.address)?;
        let at_branch = self.blocks.get(block).is_only_a_branch();
        if begins_here {
            self.flush(sink);
            self.pass_last();
            self.outcomes.clear();
        }
        if at_branch {
            self.outcomes.push(!start.branch);
        }
        if begins_here {
            self.position = Some(Position { block, pc: self.address });
            self.unreported = Some(self.address);
        } else {
            let destination = Destination {
                address: self.address,
                block,
                kind: DestinationKind::Sync { privilege: start.privilege },
                at_branch,
                notify: false,
                updiscon: false,
                irreport: None,
            };
            match self.follow(&destination, Then::Synchronise(*start), sink) {
                Ok(Walked::Arrived) => {}
                Ok(Walked::Paused) => return Ok(Walked::Paused),
                Err(fault) => return self.synchronise_after(fault, start, sink),
            }
        }
        self.synchronised(start, is_first, sink);
        Ok(Walked::Arrived)
    }

    /// There is no way from where execution was to where format 3 says that it is: packets between were damaged or lost.
    /// The packet needs none of them.
    #[cold]
    pub(super) fn synchronise_after(
        &mut self,
        fault: Fault,
        start: &Start,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        self.lose(fault, sink);
        self.trace_on(sink);
        self.synchronise(start, false, sink)
    }

    /// Execution is at the instruction that format 3 names.
    pub(super) fn synchronised(&mut self, start: &Start, is_first: bool, sink: &mut impl Sink) {
        self.lost_trace = false;
        if is_first || !self.options().resync_disabled {
            self.stack.clear();
            self.cache.reset();
            self.outcomes.reset_predictor();
        }
        self.irets = 0;
        let context = ContextPacket { privilege: start.privilege, time: start.time, context: start.context };
        self.enter_context(&context, sink);
    }

    /// A trap came after the latest instruction. The walk never leaves it, but it retired, and tables that outlive
    /// the trap know it.
    fn pass_last(&mut self) {
        let Some(position) = self.position else { return };
        let block = *self.blocks.get(position.block);
        if position.pc != block.last().0 {
            return;
        }
        match block.ending {
            Ending::Branch => {
                self.outcomes.take(position.pc);
            }
            Ending::Return if self.options().implicit_return => {
                self.stack.pop();
            }
            _ => self.call(&block),
        }
    }
}
