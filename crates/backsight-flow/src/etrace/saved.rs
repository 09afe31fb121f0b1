//! What a follower knows between two packets, to leave it and to take it up again.

use backsight_core::{Context, Located};
use backsight_image::Code;
use backsight_riscv::etrace::Announced;
use backsight_riscv::etrace::tables::JumpCache;

use super::Follower;
use super::data::Requests;
use super::destination::{Destination, Position};
use super::outcomes::Outcomes;
use super::shared::Away;
use super::trap::Deferred;
use super::walk::Paused;
use crate::beginning::Beginning;
use crate::return_stack::Entry;

/// All that decides what a [`Follower`] says of the packets that follow, but for what it has read of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowerState {
    /// Where the last packet was. What comes at the end of the trace is reported there.
    pub(crate) at: Located<()>,
    announced: Announced,
    kept: Away,
    pc: Option<u64>,
    unreported: Option<u64>,
    address: u64,
    outcomes: Outcomes,
    calls: Vec<Entry>,
    cache: JumpCache,
    irets: u32,
    inferred: Option<Destination>,
    unentered: Option<Option<u64>>,
    deferred: Option<Deferred>,
    paused: Option<Paused>,
    context: Context,
    context_known: bool,
    pub(crate) beginning: Beginning,
    lost_at: u64,
    lost_trace: bool,
    time: Option<u64>,
    requests: Requests,
}

impl<C: Code> Follower<C> {
    /// What it knows now.
    pub fn state(&self) -> FollowerState {
        FollowerState {
            at: self.at,
            announced: self.announced,
            kept: self.kept(),
            pc: self.position.map(|position| position.pc),
            unreported: self.unreported,
            address: self.address,
            outcomes: self.outcomes.clone(),
            calls: self.stack.calls(),
            cache: self.cache.clone(),
            irets: self.irets,
            inferred: self.inferred.map(Destination::without_block),
            unentered: self.unentered,
            deferred: self.deferred,
            paused: self.paused.map(Paused::without_blocks),
            context: self.context,
            context_known: self.context_known,
            beginning: self.beginning,
            lost_at: self.lost_at,
            lost_trace: self.lost_trace,
            time: self.time,
            requests: self.requests.clone(),
        }
    }

    /// Goes on as a follower with the same settings and code that knows this. Counts go on.
    pub fn restore(&mut self, known: &FollowerState) {
        self.announced = known.announced;
        self.adopt();
        (self.at, self.away, self.is_settled) = (known.at, Some(known.kept), false);
        self.position = known.pc.map(|pc| Position { block: u32::MAX, pc });
        (self.unreported, self.address, self.irets) = (known.unreported, known.address, known.irets);
        self.outcomes.clone_from(&known.outcomes);
        self.stack.hold(&known.calls);
        self.cache.clone_from(&known.cache);
        (self.inferred, self.unentered) = (known.inferred, known.unentered);
        (self.deferred, self.paused) = (known.deferred, known.paused);
        (self.context, self.context_known) = (known.context, known.context_known);
        (self.beginning, self.time) = (known.beginning, known.time);
        (self.lost_at, self.lost_trace) = (known.lost_at, known.lost_trace);
        self.requests.clone_from(&known.requests);
    }
}
