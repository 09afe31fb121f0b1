//! The harts of a stream, each with a follower of its own.

use backsight_core::Located;
use backsight_flow::{CodeCache, Event, FollowHart, Sink, Statistics};
use backsight_image::Window;

use super::execution::Following;
use super::followers::Followers;
use super::packets::PacketDecoder;
use super::stream::{Events, Notes, StreamSink, Timed, TimedFollower};
use crate::SourceCode;

/// Most harts that are kept apart: more are a sign of a wrong configuration.
const MOST_HARTS: usize = 1024;

/// Harts that are compared where pieces of a stream meet: of each there may be a thousand calls under way.
const MOST_COMPARED: usize = 64;

/// Whose a packet is.
pub enum Whose {
    /// That hart's.
    Hart(u16),
    /// Nobody knows: every hart may have lost one.
    Unknown,
    /// It is nothing of execution.
    Nobody,
}

/// The follower of one hart.
pub trait HartFollower<'c, D: PacketDecoder>: FollowHart<Code = SourceCode<'c>> {
    /// What a follower is made from.
    type Settings;

    /// That of a hart that was not met before.
    fn begin(settings: &Self::Settings, code: SourceCode<'c>) -> Self;

    /// Whose a packet is.
    fn whose(packet: &D::Packet) -> Whose;

    /// Takes a packet.
    fn push(&mut self, packet: Located<D::Packet>, sink: &mut impl Sink);

    /// Decodes bytes, and takes their packets until the sink has enough; how many.
    fn feed<S: StreamSink<Event>>(
        harts: &mut Harts<'c, D, Self>,
        decoder: &mut D,
        bytes: &[u8],
        sink: &mut S,
    ) -> u64
    where
        Self: Sized,
    {
        let mut packets = 0;
        decoder.feed(bytes, &mut |packet| {
            if !sink.is_done() {
                packets += 1;
                harts.push(packet, sink);
            }
        });
        packets
    }

    /// What a user should know.
    fn notes(&self) -> Notes {
        Notes::default()
    }
}

/// All harts of a stream.
pub struct Harts<'c, D: PacketDecoder, F: HartFollower<'c, D>> {
    settings: F::Settings,
    code: SourceCode<'c>,
    followers: Followers<F>,
    /// The last packet of a hart.
    at: Located<()>,
    /// What was counted and found before others went on.
    before: (Statistics, Notes),
}

/// What is known of all harts.
#[derive(Clone, Debug, PartialEq)]
pub struct HartStates<T> {
    /// By their numbers.
    harts: Vec<(u16, T)>,
    at: Located<()>,
}

impl<'c, D: PacketDecoder, F: HartFollower<'c, D>> Harts<'c, D, F> {
    /// No hart was met yet.
    pub(super) fn new(settings: F::Settings, code: SourceCode<'c>) -> Self {
        let followers = Followers::new(MOST_HARTS, code.fixed_image().is_some());
        let at = Located { offset: 0, length: 0, value: () };
        Self { settings, code, followers, at, before: Default::default() }
    }

    /// The follower of a hart, which has a packet there; `None` if there are too many.
    #[inline(always)]
    pub(super) fn follower(&mut self, number: u16, at: Located<()>) -> Option<&mut F> {
        self.at = at;
        self.hart(number)
    }

    #[inline(always)]
    fn hart(&mut self, number: u16) -> Option<&mut F> {
        let Self { settings, code, followers, .. } = self;
        followers.of(number, || F::begin(settings, *code))
    }

    /// Meets a hart, even if it says nothing.
    pub(super) fn meet(&mut self, number: u16) {
        self.hart(number);
    }

    #[cold]
    fn push_to_all<S: StreamSink<Event>>(&mut self, packet: Located<D::Packet>, sink: &mut S) {
        self.at = packet.map(|_| ());
        self.followers.for_each(|sub_source, follower| {
            follower.push(packet, &mut Events { sub_source, sink });
        });
    }
}

impl<'c, D: PacketDecoder, F: HartFollower<'c, D>> Following<D> for Harts<'c, D, F> {
    type State = HartStates<F::State>;

    fn state(&self) -> Self::State {
        let of = |(number, follower): &(u16, F)| (*number, F::known_at(follower.state(), self.at));
        HartStates { harts: self.followers.iter().map(of).collect(), at: self.at }
    }

    /// Harts may have sent nothing in between, and none need repeat its options.
    fn starting_at(beginning: &Self::State, earlier: Option<&Self::State>, offset: u64) -> Self::State {
        let later = |(number, known): &(u16, F::State)| (*number, F::known_from(known.clone(), offset));
        let harts = earlier.unwrap_or(beginning).harts.iter().map(later).collect();
        HartStates { harts, at: Located { offset, length: 0, value: () } }
    }

    fn is_costly(&self) -> bool {
        self.followers.len() > MOST_COMPARED
    }

    fn restore(&mut self, known: &Self::State) {
        self.before = (self.statistics(), self.notes().counts());
        self.followers.clear();
        for (number, state) in &known.harts {
            self.hart(*number).into_iter().for_each(|follower| follower.restore(state));
        }
        self.at = known.at;
    }

    fn push<S: StreamSink<Event>>(&mut self, packet: Located<D::Packet>, sink: &mut S) {
        match F::whose(&packet.value) {
            Whose::Hart(sub_source) => {
                if let Some(follower) = self.follower(sub_source, packet.map(|_| ())) {
                    follower.push(packet, &mut Events { sub_source, sink });
                }
            }
            Whose::Unknown => self.push_to_all(packet, sink),
            Whose::Nobody => {}
        }
    }

    #[inline]
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut D, bytes: &[u8], sink: &mut S) -> u64 {
        F::feed(self, decoder, bytes, sink)
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let at = self.at;
        self.followers.for_each(|sub_source, follower| {
            if !sink.is_done() {
                follower.set_position(at);
                follower.finish(&mut Events { sub_source, sink });
            }
        });
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        self.finish(sink);
    }

    fn enter(&mut self, window: Window) {
        // Harts that are met later begin at this time.
        self.code.enter(window);
        self.followers.for_each(|_, follower| Timed(follower).enter(window));
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        self.followers.take_cache()
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.followers.give_cache(cache)
    }

    fn statistics(&self) -> Statistics {
        let mut sum = self.before.0;
        self.followers.iter().for_each(|(_, follower)| sum += *follower.statistics());
        sum
    }

    fn notes(&self) -> Notes {
        let mut sum = self.before.1.clone();
        self.followers.iter().for_each(|(_, follower)| sum += &F::notes(follower));
        sum
    }
}
