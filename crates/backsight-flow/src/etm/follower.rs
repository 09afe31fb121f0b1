//! The follower of a stream: packets in, events out.

use std::fmt::Debug;
use std::ops;

use backsight_arm::etm::Configuration;
use backsight_core::{AddressSpace, Located};
use backsight_image::Code;

use super::Options;
use super::tracker::{At, Reading, Tracker, TrackerState};
use crate::sink::Sink;
use crate::{CodeCache, Statistics};

/// What a protocol follows in its own way.
pub trait Protocol: Configuration {
    /// What the configuration says of the packets.
    type Rules: Clone + Debug;
    /// What changes with the packets, beside position and state.
    type Progress: Clone + Debug + Default + PartialEq + Send + Sync + 'static;

    /// What the configuration says.
    fn rules(&self, options: &Options) -> Self::Rules;

    /// How code is read.
    fn reading(&self) -> Reading;

    /// Takes the next packet.
    fn push<C: Code>(follower: &mut Follower<C, Self>, packet: Located<Self::Packet>, sink: &mut impl Sink);

    /// There are no more packets: gives what is certain by now.
    fn close<C: Code>(follower: &mut Follower<C, Self>, at: At, sink: &mut impl Sink);

    /// Packets are missing here.
    fn forget(known: &mut Self::Progress);
}

/// Follows the execution that a stream reports.
#[derive(Clone, Debug)]
pub struct Follower<C, P: Protocol> {
    pub(crate) tracker: Tracker<C>,
    pub(crate) rules: P::Rules,
    pub(crate) known: P::Progress,
    pub(crate) end: u64,
}

/// All that decides what a [`Follower`] says of the packets that follow, but for what it has read of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowerState<P: Protocol> {
    tracker: TrackerState,
    known: P::Progress,
    end: u64,
}

impl<C: Code, P: Protocol> Follower<C, P> {
    /// A follower for the stream of one trace unit, through `code`.
    pub fn new(config: &P, code: C) -> Self {
        Self::with_options(config, code, Options::default())
    }

    /// The same, with options.
    pub fn with_options(config: &P, code: C, options: Options) -> Self {
        Self {
            tracker: Tracker::new(code, config.reading(), options),
            rules: config.rules(&options),
            known: P::Progress::default(),
            end: 0,
        }
    }

    /// Takes the next packet; gives what is certain by now.
    #[inline]
    pub fn push(&mut self, packet: Located<P::Packet>, sink: &mut impl Sink) {
        self.end = packet.end();
        P::push(self, packet, sink);
    }

    /// What it knows now.
    pub fn state(&self) -> FollowerState<P> {
        FollowerState { tracker: self.tracker.known(), known: self.known.clone(), end: self.end }
    }

    /// Goes on as a follower of the same configuration and code that knows this. Counts go on.
    pub fn restore(&mut self, state: &FollowerState<P>) {
        self.tracker.go_on_with(state.tracker);
        self.known.clone_from(&state.known);
        self.end = state.end;
    }

    /// The trace ends. The follower is as new afterwards, but for what it counted and what it knows of the code.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        P::close(self, Located { offset: self.end, length: 0, value: () }, sink);
        self.tracker.end(self.end, sink);
    }

    /// Begins again, as after a gap in the data. Counts go on.
    pub fn reset(&mut self) {
        P::forget(&mut self.known);
        self.tracker.reset();
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.tracker.statistics
    }

    /// The code it walks through.
    pub fn code(&self) -> &C {
        &self.tracker.code
    }

    /// The code, to change it in a range of addresses, as seen from an address space: only what lies there is read again.
    pub fn change_code(&mut self, space: AddressSpace, addresses: ops::Range<u64>) -> &mut C {
        self.tracker.blocks.code_changed(space, addresses);
        &mut self.tracker.code
    }

    /// The code has gone to another time: the context that execution is in may belong to another process now.
    pub fn renew_space(&mut self) {
        self.tracker.renew_space();
    }

    /// What it has read of the code, for another follower of the same code. It reads again what it needs afterwards.
    pub fn take_cache(&mut self) -> CodeCache {
        self.tracker.take_cache()
    }

    /// Goes on with what another follower of the same code has read. What follows is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here: code was read in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.tracker.give_cache(cache)
    }
}
