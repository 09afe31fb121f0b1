//! Format 3: where execution is, and how it is traced.

use backsight_image::Code;
use backsight_riscv::etrace::tables::{JumpCache, ReturnStack};
use backsight_riscv::etrace::{ContextPacket, Params, QualStatus, Start, Support, TrapPacket};

use super::blocks::End;
use super::goal::{Goal, GoalKind, Position};
use super::outcomes::Outcomes;
use super::{Fault, Follower, Settings, Sink, settings};

impl<C: Code> Follower<'_, C> {
    pub(super) fn support(&mut self, support: &Support, sink: &mut impl Sink) -> Result<(), Fault> {
        // What it says about a handler is out of date; that it was not entered stays true.
        self.unentered = self.unentered.map(|_| None);
        let mut walked = Ok(());
        if support.qual_status == QualStatus::EndedNtr
            && let (Some(earlier), Some(position)) = (self.inferred, self.position)
        {
            // The last packet named the target of a jump: walk on to it.
            self.inferred = None;
            let goal = Goal {
                address: position.pc,
                updiscon: true,
                notify: false,
                kind: GoalKind::Cached,
                ..earlier
            };
            walked = self.follow(&goal, sink);
        }
        // A walk that failed is no reason to overlook what is announced.
        self.learn(support);
        walked?;
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
        let sizes = |p: &Params| {
            (p.implicit_return, p.return_stack_size, p.call_counter_size, p.bpred_size, p.cache_size)
        };
        let Settings { params, options, .. } = &mut self.settings;
        let before = (*options, sizes(params));
        support.announce(params, options);
        self.plain = settings::is_plain(options);
        if (*options, sizes(params)) != before {
            self.outcomes = Outcomes::new(params, options);
        }
        if sizes(params) != before.1 {
            (self.stack, self.cache) = (ReturnStack::new(params), JumpCache::new(params));
        }
    }

    pub(super) fn enter_handler(&mut self, trap: &TrapPacket, sink: &mut impl Sink) -> Result<(), Fault> {
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
    ) -> Result<(), Fault> {
        self.inferred = None;
        self.address = self.absolute(start.address);
        let beginning = self.position.is_none();
        let anchor = trap || beginning || self.unentered.is_some();
        self.unentered = None;
        self.lost_at = self.address;
        let block = self.blocks.at(self.address)?;
        let at_branch = self.blocks.get(block).is_branch();
        if anchor {
            self.flush(sink);
            self.pass_last();
            self.outcomes.clear();
        }
        if at_branch {
            self.outcomes.push(!start.branch);
        }
        if anchor {
            self.position = Some(Position { block, pc: self.address });
            self.run = Some(self.address);
        } else {
            let goal = Goal {
                address: self.address,
                block,
                kind: GoalKind::Sync { privilege: start.privilege },
                at_branch,
                notify: false,
                updiscon: false,
                irreport: None,
            };
            self.follow(&goal, sink)?;
        }
        self.lost_trace = false;
        if beginning || !self.options().resync_disabled {
            self.stack.reset();
            self.cache.reset();
            self.outcomes.reset_predictor();
        }
        self.irets = 0;
        let context = ContextPacket { privilege: start.privilege, time: start.time, context: start.context };
        self.enter_context(&context, sink);
        Ok(())
    }

    /// A trap came behind the latest instruction. The walk never leaves it, but it retired, and tables that outlive
    /// the trap know it.
    fn pass_last(&mut self) {
        let Some(position) = self.position else { return };
        let block = *self.blocks.get(position.block);
        if position.pc != block.last {
            return;
        }
        let implicit = self.options().implicit_return;
        match block.kind {
            End::Branch => {
                self.outcomes.take(block.last);
            }
            End::Return if implicit => {
                self.stack.pop();
            }
            _ if implicit && block.call => self.stack.push(block.end),
            _ => {}
        }
    }
}
