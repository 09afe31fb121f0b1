//! The follower of an ETMv4 or ETE stream: packets in, events out.

use std::collections::VecDeque;
use std::ops;

use backsight_arm::etm4::{
    AddressPacket, AtomRun, Config, CountedRun, CycleCount, Packet, PacketSink, packets_of,
};
use backsight_core::{AddressSpace, Located};
use backsight_image::Code;

use super::flow::Flow;
use super::{Element, Resolver};
use crate::sink::Sink;
use crate::{CodeCache, Statistics};

/// How to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Stop at strong evidence that the code is not what was executed; go on at the next address in the trace.
    pub strict_image: bool,
    /// How many blocks of code to remember.
    pub cached_blocks: usize,
    /// Longest walk without a waypoint, in instructions.
    pub walk_limit: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { strict_image: false, cached_blocks: 1 << 20, walk_limit: 1 << 22 }
    }
}

/// Follows the execution that an ETMv4 or ETE stream reports.
#[derive(Clone, Debug)]
pub struct Follower<C> {
    pub(super) resolver: Resolver,
    pub(super) flow: Flow<C>,
    /// The last packet but for that address, if it was a cycle count that may go past the resolver with the atoms after it.
    pub(super) count: Option<Located<CycleCount>>,
    /// The last packet, if it was an address that may.
    pub(super) address: Option<Located<AddressPacket>>,
    /// Elements that happened while the sink had enough.
    pub(super) waiting: VecDeque<Located<Element>>,
    pub(super) end: u64,
}

impl<C: Code> Follower<C> {
    /// A follower for the stream of one trace unit, through `code`.
    pub fn new(config: &Config, code: C) -> Self {
        Self::with_options(config, code, Options::default())
    }

    /// The same, with options.
    pub fn with_options(config: &Config, code: C, options: Options) -> Self {
        Self {
            resolver: Resolver::new(config),
            flow: Flow::new(config, code, options),
            count: None,
            address: None,
            waiting: VecDeque::new(),
            end: 0,
        }
    }

    /// Takes the next packet; gives what is certain by now, or as much of it as the sink wants. What the packet before
    /// still stands for is given first, even if the sink has enough.
    #[inline(always)]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        // Most packets are atoms, and happened; most others say where an indirect branch before them went.
        match packet.value {
            Packet::Atoms(atoms) if self.may_pass(sink) => {
                self.end = packet.end();
                self.give_before_atoms(sink);
                self.flow.atoms(atoms, packet.map(|_| ()), sink);
            }
            Packet::Address(address)
                if self.may_pass(sink) && self.address.is_none() && !self.resolver.is_waiting() =>
            {
                self.end = packet.end();
                self.address = Some(packet.map(|_| address));
            }
            Packet::CycleCount(count) if self.may_pass(sink) && self.holds_nothing() => {
                self.end = packet.end();
                self.count = Some(packet.map(|_| count));
            }
            _ => self.push_any(packet, sink),
        }
    }

    /// Takes Atom packets that follow one another, as [`Follower::push`] takes them one by one.
    #[inline(always)]
    pub fn push_run(&mut self, run: Located<AtomRun>, sink: &mut impl Sink) {
        let mut left = run.length;
        if self.may_pass(sink) {
            self.end = run.end();
            self.give_before_atoms(sink);
            left = self.flow.atom_run(run, sink);
        }
        if left > 0 {
            self.push_last(run, left, sink);
        }
    }

    /// Takes Atom packets and the cycle counts between them, as [`Follower::push`] takes them one by one.
    #[inline(always)]
    pub fn push_counted_run(&mut self, run: &CountedRun, sink: &mut impl Sink) {
        let packets = run.atoms().len();
        let mut left = packets;
        if self.may_pass(sink) {
            self.give_before_atoms(sink);
            left = self.flow.counted_run(run, sink);
            if left == 0 {
                let last = packets.saturating_sub(1);
                self.count = run.count_after(last);
                self.end = self.count.map_or(run.at(last).end(), |count| count.end());
                return;
            }
        }
        self.push_last_counted(run, packets - left, sink);
    }

    /// Takes an Address packet and the Atom packets that follow it, as [`Follower::push`] takes them one by one.
    #[inline(always)]
    pub fn push_address_and_run(
        &mut self,
        address: Located<AddressPacket>,
        run: Located<AtomRun>,
        sink: &mut impl Sink,
    ) {
        if self.may_pass(sink) && self.holds_nothing() {
            self.end = run.end();
            self.resolver.pass_address(address.value);
            self.flow.address(address.value, address.map(|_| ()), sink);
            let left = self.flow.atom_run(run, sink);
            if left > 0 {
                self.push_last(run, left, sink);
            }
        } else {
            self.push(address.map(Packet::Address), sink);
            self.push_run(run, sink);
        }
    }

    /// The follower as what takes the packets of a decoder: runs of Atom packets by [`Follower::push_run`], others by
    /// [`Follower::push`].
    pub const fn input<'f, S: Sink>(&'f mut self, sink: &'f mut S) -> FollowerInput<'f, C, S> {
        FollowerInput { follower: self, sink }
    }

    /// Takes the last so many packets of a run one by one.
    #[cold]
    #[inline(never)]
    fn push_last(&mut self, run: Located<AtomRun>, count: u32, sink: &mut impl Sink) {
        for packet in packets_of(run).skip((run.length - count) as usize) {
            self.push(packet, sink);
        }
    }

    /// The same from an Atom packet of a counted run on.
    #[cold]
    #[inline(never)]
    fn push_last_counted(&mut self, run: &CountedRun, first: u32, sink: &mut impl Sink) {
        run.packets_from(first).for_each(|packet| self.push(packet, sink));
    }

    /// Does nothing wait for a P0 element?
    #[inline(always)]
    fn holds_nothing(&self) -> bool {
        self.address.is_none() && self.count.is_none() && !self.resolver.is_waiting()
    }

    /// Atoms go past the resolver: gives what has to come before them.
    #[inline(always)]
    fn give_before_atoms(&mut self, sink: &mut impl Sink) {
        if let Some(count) = self.count.take() {
            self.flow.count(count, sink);
        }
        if let Some(address) = self.address.take() {
            self.resolver.pass_address(address.value);
            self.flow.address(address.value, address.map(|_| ()), sink);
        } else if self.resolver.is_waiting() {
            self.release(sink);
        }
    }

    /// May atoms, and the address before them, go past the resolver?
    #[inline(always)]
    fn may_pass(&self, sink: &impl Sink) -> bool {
        self.resolver.is_certain() && !self.is_paused() && !sink.is_full()
    }

    /// Gives what waits for a P0 element.
    fn release(&mut self, sink: &mut impl Sink) {
        let flow = &mut self.flow;
        self.resolver.release(&mut |element| flow.element(element, sink));
    }

    #[inline(never)]
    fn push_any(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        if self.is_paused() {
            self.drain(sink);
        }
        self.resolve_held(sink);
        self.end = packet.end();
        self.resolve(packet, sink);
    }

    /// The packets that came last are not followed by atoms.
    fn resolve_held(&mut self, sink: &mut impl Sink) {
        if let Some(count) = self.count.take() {
            self.resolve(count.map(Packet::CycleCount), sink);
        }
        if let Some(address) = self.address.take() {
            self.resolve(address.map(Packet::Address), sink);
        }
    }

    fn resolve(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        let (flow, waiting) = (&mut self.flow, &mut self.waiting);
        self.resolver.push(packet, &mut |element| {
            if sink.is_full() || !waiting.is_empty() {
                waiting.push_back(element);
            } else {
                flow.element(element, sink);
            }
        });
    }

    /// Had the sink enough, so that part of the last packet is still to come?
    #[inline]
    pub fn is_paused(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Goes on where the sink had enough.
    pub fn resume(&mut self, sink: &mut impl Sink) {
        while let Some(element) = self.waiting.pop_front() {
            self.flow.element(element, sink);
            if sink.is_full() {
                break;
            }
        }
    }

    #[cold]
    fn drain(&mut self, sink: &mut impl Sink) {
        while self.is_paused() {
            self.resume(sink);
        }
    }

    /// The trace ends: gives all that is certain. The follower is as new afterwards, but for what it counted and what it
    /// knows of the code.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.drain(sink);
        self.resolve_held(sink);
        self.drain(sink);
        let flow = &mut self.flow;
        self.resolver.finish(self.end, &mut |element| flow.element(element, sink));
        self.flow.restart();
    }

    /// Begins again, as after a gap in the data. Counts go on.
    pub fn reset(&mut self) {
        self.waiting.clear();
        (self.count, self.address) = (None, None);
        self.resolver.reset();
        self.flow.restart();
        self.flow.overflow = false;
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.flow.statistics
    }

    /// The code it walks through.
    pub fn code(&self) -> &C {
        &self.flow.code
    }

    /// The code, to change it: all that was remembered of it is forgotten.
    pub fn code_mut(&mut self) -> &mut C {
        self.flow.blocks.all_code_changed();
        &mut self.flow.code
    }

    /// The code, to change it in a range of addresses, as seen from an address space: only what lies there is read again.
    pub fn change_code(&mut self, space: AddressSpace, addresses: ops::Range<u64>) -> &mut C {
        self.flow.blocks.code_changed(space, addresses);
        &mut self.flow.code
    }

    /// The code has gone to another time: the context that execution is in may belong to another process now.
    pub fn renew_space(&mut self) {
        self.flow.renew_space();
    }

    /// What it has read of the code, for another follower of the same code. It reads again what it needs afterwards.
    pub fn take_cache(&mut self) -> CodeCache {
        self.flow.take_cache()
    }

    /// Goes on with what another follower of the same code has read. What follows is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here: code was read in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.flow.give_cache(cache)
    }
}

/// A follower that takes the packets of a decoder; see [`Follower::input`].
#[derive(Debug)]
pub struct FollowerInput<'f, C, S> {
    follower: &'f mut Follower<C>,
    sink: &'f mut S,
}

impl<C: Code, S: Sink> PacketSink for FollowerInput<'_, C, S> {
    const TAKES_RUNS: bool = true;

    #[inline(always)]
    fn take(&mut self, packet: Located<Packet>) {
        self.follower.push(packet, self.sink);
    }

    #[inline(always)]
    fn take_run(&mut self, run: Located<AtomRun>) {
        self.follower.push_run(run, self.sink);
    }

    #[inline(always)]
    fn take_counted_run(&mut self, run: &CountedRun) {
        self.follower.push_counted_run(run, self.sink);
    }

    #[inline(always)]
    fn take_address_and_run(&mut self, address: Located<AddressPacket>, run: Located<AtomRun>) {
        self.follower.push_address_and_run(address, run, self.sink);
    }
}
