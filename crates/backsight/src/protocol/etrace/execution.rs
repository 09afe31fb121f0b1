//! E-Trace from bytes to execution: a follower for each hart.

use std::ops::Range;

use backsight_core::{Accounting, AddressSpace, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{CodeCache, Event, Statistics};
use backsight_image::Window;
use backsight_riscv::etrace::{BranchPacket, Config, Content, Decoder, Message, MessageSink};

use super::super::followers::{Followers, SharesCode};
use super::super::stream::{Events, Stream, StreamSink, TimedFollower};
use crate::SourceCode;

/// Most harts that are kept apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

/// Decodes a stream and follows every hart.
pub struct Execution<'c> {
    decoder: Decoder,
    harts: Harts<'c>,
}

/// Followers of all harts of a stream. Each keeps the options that its own support packets announce.
struct Harts<'c> {
    /// What a new hart's follower is made from.
    settings: Settings,
    code: SourceCode<'c>,
    followers: Followers<Follower<SourceCode<'c>>>,
    messages: u64,
}

impl<'c> Execution<'c> {
    /// No hart was met yet.
    pub(super) fn new(config: &Config, settings: Settings, code: SourceCode<'c>) -> Self {
        let followers = Followers::new(MOST_HARTS, code.fixed_image().is_some());
        Self { decoder: Decoder::new(config), harts: Harts { settings, code, followers, messages: 0 } }
    }
}

impl<'c> TimedFollower<'c> for Follower<SourceCode<'c>> {
    fn code_in(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut SourceCode<'c> {
        self.change_code(space, addresses)
    }

    fn renew_space(&mut self) {
        self.renew_space();
    }
}

impl SharesCode for Follower<SourceCode<'_>> {
    fn take_cache(&mut self) -> Option<CodeCache> {
        Self::take_cache(self)
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        Self::give_cache(self, cache)
    }

    fn exchange_caches(&mut self, other: &mut Self) {
        Self::exchange_caches(self, other);
    }
}

impl Stream for Execution<'_> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, harts } = self;
        decoder.feed(bytes, &mut Followed { harts, sink });
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, harts } = self;
        decoder.finish(&mut Followed { harts, sink });
        harts.finish(sink);
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, harts } = self;
        decoder.reset(&mut Followed { harts, sink });
        harts.finish(sink);
    }

    fn enter(&mut self, window: Window) {
        // Harts that are met later begin at this time.
        self.harts.code.enter(window);
        self.harts.followers.for_each(|_, follower| TimedFollower::enter(follower, window));
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        self.harts.followers.take_cache()
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.harts.followers.give_cache(cache)
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.harts.messages
    }

    fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.harts.followers.iter().for_each(|follower| sum += *follower.statistics());
        sum
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let followers = &self.harts.followers;
        if followers.iter().any(Follower::is_unreliable) {
            notes.push(
                "returns were left out of the trace and only their depth is reported (irdepth): execution after them \
                 may be wrong without notice"
                    .to_owned(),
            );
        }
        for fault in Fault::ALL {
            let count: u64 = followers.iter().map(|follower| follower.faults().of(fault)).sum();
            if count > 0 {
                let advice = match fault {
                    Fault::HandlerUnknown => ": --config trap_base=ADDRESS says where handlers are",
                    _ => "",
                };
                notes.push(format!("{count} times {fault}{advice}"));
            }
        }
        notes
    }
}

/// Gives every packet to the follower of its hart.
struct Followed<'h, 'c, S> {
    harts: &'h mut Harts<'c>,
    sink: &'h mut S,
}

impl<S: StreamSink<Event>> MessageSink for Followed<'_, '_, S> {
    fn take(&mut self, message: Located<Message>) {
        let Self { harts, sink } = self;
        if sink.is_done() {
            return;
        }
        harts.messages += 1;
        if matches!(message.value.content, Content::Other(..)) {
            return;
        }
        let Some(sub_source) = message.value.source else { return harts.take_nobodys(message, *sink) };
        if let Some(follower) = harts.follower(sub_source) {
            follower.push(message, &mut Events { sub_source, sink: *sink });
        }
    }

    #[inline(always)]
    fn take_branches(&mut self, packet: Located<BranchPacket>) {
        let Self { harts, sink } = self;
        if sink.is_done() {
            return;
        }
        harts.messages += 1;
        let sub_source = packet.value.source;
        if let Some(follower) = harts.follower(sub_source) {
            follower.push_branches(packet, &mut Events { sub_source, sink: *sink });
        }
    }
}

impl<'c> Harts<'c> {
    #[inline(always)]
    fn follower(&mut self, number: u16) -> Option<&mut Follower<SourceCode<'c>>> {
        let Self { settings, code, followers, .. } = self;
        followers.of(number, || Follower::new(settings.clone(), *code))
    }

    fn finish(&mut self, sink: &mut impl StreamSink<Event>) {
        self.followers.for_each(|hart, follower| {
            if !sink.is_done() {
                follower.finish(&mut Events { sub_source: hart, sink });
            }
        });
    }

    /// Whose packets bad bytes were, nobody knows: every hart may have lost one.
    #[cold]
    fn take_nobodys(&mut self, message: Located<Message>, sink: &mut impl StreamSink<Event>) {
        self.followers.for_each(|number, hart| {
            hart.push(message, &mut Events { sub_source: number, sink });
        });
    }
}
