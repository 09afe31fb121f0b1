//! What a follower knows between two messages, to leave it and to take it up again.

use backsight_core::{Context, Located};
use backsight_image::Code;
use backsight_riscv::ntrace::{Dialect, Message, Mode};

use super::Follower;
use super::messages::Task;
use super::shared::Away;
use super::walk::{Outcomes, Position, Unreported};
use crate::beginning::Beginning;
use crate::blocks::Origin;
use crate::return_stack::Entry;

/// All that decides what a [`Follower`] says of the messages that follow, but for what it has read of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowerState {
    /// Where the last message was. What comes at the end of the trace is reported there.
    pub(crate) at: Located<()>,
    kept: Away,
    position: Position,
    sent: Option<u64>,
    to_go: i64,
    outcomes: Outcomes,
    calls: Vec<Entry>,
    unreported: Unreported,
    trace_mode: Option<Mode>,
    last_branch: Option<Message>,
    paused: Option<Task>,
    straight: u32,
    time: Option<u64>,
    dialect: Result<Dialect, Option<u64>>,
    not_telling: u32,
    context: Context,
    overflow: bool,
    pub(crate) beginning: Beginning,
}

impl<C: Code> Follower<C> {
    /// What it knows now.
    pub fn state(&self) -> FollowerState {
        FollowerState {
            at: self.at,
            kept: self.kept(),
            position: self.position,
            sent: self.sent,
            to_go: self.to_go,
            outcomes: self.outcomes,
            calls: self.stack.calls(),
            unreported: self.unreported,
            trace_mode: self.trace_mode,
            last_branch: self.last_branch,
            paused: self.paused,
            straight: self.straight,
            time: self.time,
            dialect: self.dialect,
            not_telling: if self.dialect.is_ok() { 0 } else { self.not_telling },
            context: self.context,
            overflow: self.overflow,
            beginning: self.beginning,
        }
    }

    /// Goes on as a follower with the same options and code that knows this. Counts go on.
    pub fn restore(&mut self, known: &FollowerState) {
        self.at = known.at;
        (self.away, self.origin) = (Some(known.kept), Origin::UNKNOWN);
        (self.position, self.sent, self.to_go) = (known.position, known.sent, known.to_go);
        (self.outcomes, self.unreported) = (known.outcomes, known.unreported);
        self.stack.hold(&known.calls);
        (self.trace_mode, self.last_branch) = (known.trace_mode, known.last_branch);
        (self.paused, self.straight) = (known.paused, known.straight);
        (self.time, self.dialect, self.not_telling) = (known.time, known.dialect, known.not_telling);
        (self.context, self.overflow, self.beginning) = (known.context, known.overflow, known.beginning);
    }
}
