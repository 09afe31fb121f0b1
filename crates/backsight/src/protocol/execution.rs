//! Bytes to execution, for protocols whose followers take packets one by one.

use std::fmt::Debug;

use backsight_core::{Accounting, Located};
use backsight_flow::{CodeCache, Event, Follow, Statistics};
use backsight_image::Window;

use super::packets::PacketDecoder;
use super::stream::{Events, Notes, Resumable, SavedState, Stream, StreamSink, Timed, TimedFollower};
use crate::SourceCode;

/// What follows the packets of a stream: one follower, or one for each hart.
pub trait Following<D: PacketDecoder> {
    /// All that decides what comes of the packets that follow.
    type State: Clone + PartialEq + Debug + Send + Sync + 'static;

    /// What it knows now.
    fn state(&self) -> Self::State;

    /// What one knows that begins at this offset, in the middle of a stream, at whose beginning one knows `beginning`; and at
    /// an earlier offset `earlier`, if that is given. It speaks of nothing before the offset.
    fn starting_at(beginning: &Self::State, _earlier: Option<&Self::State>, _offset: u64) -> Self::State {
        beginning.clone()
    }

    /// Is that so much that it is kept only where it has to be?
    fn is_costly(&self) -> bool {
        false
    }

    /// Goes on as one that knows this. Counts go on.
    fn restore(&mut self, known: &Self::State);

    /// Takes a packet.
    fn push<S: StreamSink<Event>>(&mut self, packet: Located<D::Packet>, sink: &mut S);

    /// Decodes bytes, and takes their packets until the sink has enough; how many.
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut D, bytes: &[u8], sink: &mut S) -> u64;

    /// The trace ends.
    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S);

    /// Bytes are missing here.
    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S);

    /// What follows happened in this span of time.
    fn enter(&mut self, window: Window);

    /// What it has read of the code.
    fn take_cache(&mut self) -> Option<CodeCache>;

    /// Goes on with what another has read of the code, or gives it back.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache>;

    /// What was counted.
    fn statistics(&self) -> Statistics;

    /// What a user should know.
    fn notes(&self) -> Notes {
        Notes::default()
    }
}

/// A follower that takes the packets of a decoder.
pub trait PacketFollower<D: PacketDecoder>: Follow {
    /// Takes a packet.
    fn push(&mut self, packet: Located<D::Packet>, sink: &mut impl backsight_flow::Sink);

    /// Decodes bytes, and takes their packets until the sink has enough; how many.
    #[inline]
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut D, bytes: &[u8], sink: &mut S) -> u64 {
        let mut packets = 0;
        decoder.feed(bytes, &mut |packet| {
            if !sink.is_done() {
                packets += 1;
                self.push(packet, &mut Events { sub_source: 0, sink });
            }
        });
        packets
    }
}

/// The follower of a stream of one core.
pub struct Core<F>(F);

impl<'c, D, F> Following<D> for Core<F>
where
    D: PacketDecoder,
    F: PacketFollower<D> + Follow<Code = SourceCode<'c>>,
{
    type State = F::State;

    fn state(&self) -> F::State {
        self.0.state()
    }

    fn restore(&mut self, known: &F::State) {
        self.0.restore(known);
    }

    fn push<S: StreamSink<Event>>(&mut self, packet: Located<D::Packet>, sink: &mut S) {
        self.0.push(packet, &mut Events { sub_source: 0, sink });
    }

    #[inline]
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut D, bytes: &[u8], sink: &mut S) -> u64 {
        self.0.feed(decoder, bytes, sink)
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        self.0.finish(&mut Events { sub_source: 0, sink });
    }

    fn reset<S: StreamSink<Event>>(&mut self, _sink: &mut S) {
        self.0.reset();
    }

    fn enter(&mut self, window: Window) {
        Timed(&mut self.0).enter(window);
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        Some(self.0.take_cache())
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.0.give_cache(cache)
    }

    fn statistics(&self) -> Statistics {
        *self.0.statistics()
    }
}

/// Bytes to execution.
pub struct Execution<D: PacketDecoder, F: Following<D>> {
    decoder: D,
    following: F,
    /// What both know at the beginning.
    beginning: (D, F::State),
    packets: u64,
    /// What became of bytes before the decoder went on elsewhere.
    before: Accounting,
}

impl<'c, D, F> Execution<D, Core<F>>
where
    D: PacketDecoder,
    F: PacketFollower<D> + Follow<Code = SourceCode<'c>>,
{
    /// By one follower.
    pub(super) fn of_core(decoder: D, follower: F) -> Self {
        Self::new(decoder, Core(follower))
    }
}

impl<D: PacketDecoder, F: Following<D>> Execution<D, F> {
    pub(super) fn new(decoder: D, following: F) -> Self {
        let beginning = (decoder.state(), following.state());
        Self { decoder, following, beginning, packets: 0, before: Accounting::default() }
    }
}

/// Follows packets at the end of a piece of stream.
fn last<'s, D: PacketDecoder, F: Following<D>, S: StreamSink<Event>>(
    following: &'s mut F,
    packets: &'s mut u64,
    sink: &'s mut S,
) -> impl FnMut(Located<D::Packet>) {
    |packet| {
        if !sink.is_done() {
            *packets += 1;
            following.push(packet, sink);
        }
    }
}

impl<D: PacketDecoder, F: Following<D>> Stream for Execution<D, F> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.packets += self.following.feed(&mut self.decoder, bytes, sink);
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, following, packets, .. } = self;
        decoder.finish(&mut last::<D, F, S>(following, packets, sink));
        if !sink.is_done() {
            following.finish(sink);
        }
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, following, packets, .. } = self;
        decoder.reset(&mut last::<D, F, S>(following, packets, sink));
        following.reset(sink);
    }

    fn enter(&mut self, window: Window) {
        self.following.enter(window);
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        if self.decoder.synchronises() { Some(self) } else { None }
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        self.following.take_cache()
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.following.give_cache(cache)
    }

    fn accounting(&self) -> Accounting {
        let mut sum = self.before;
        sum += self.decoder.accounting();
        sum
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn statistics(&self) -> Statistics {
        self.following.statistics()
    }

    fn notes(&self) -> Notes {
        self.following.notes()
    }
}

impl<D: PacketDecoder, F: Following<D>> Resumable for Execution<D, F> {
    fn state(&self) -> SavedState {
        SavedState::new((self.decoder.state(), self.following.state()))
    }

    fn is_costly(&self) -> bool {
        self.following.is_costly()
    }

    fn restore(&mut self, state: &SavedState) {
        if let Some((decoder, following)) = state.get::<(D, F::State)>() {
            self.before = self.accounting();
            self.decoder = decoder.clone();
            self.following.restore(following);
        }
    }

    fn starting_at(&self, offset: u64, earlier: Option<&SavedState>) -> SavedState {
        let (first, beginning) = &self.beginning;
        let earlier = earlier.and_then(SavedState::get::<(D, F::State)>);
        let following = F::starting_at(beginning, earlier.map(|(_, following)| following), offset);
        let decoder =
            earlier.map_or_else(|| first.starting_at(offset), |(one, _)| one.starting_later(offset));
        SavedState::new((decoder, following))
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.decoder.last_sync(bytes, from)
    }
}
