//! E-Trace from packets to execution: a follower for each hart, which keeps the options that its own support packets announce.

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Sink};
use backsight_riscv::etrace::{BranchPacket, Content, Decoder, Message, MessageSink};

use super::super::execution::Following;
use super::super::harts::{HartFollower, Harts, Whose};
use super::super::stream::{Events, Notes, StreamSink};
use crate::SourceCode;

impl<'c> HartFollower<'c, Decoder> for Follower<SourceCode<'c>> {
    type Settings = Settings;

    fn begin(settings: &Settings, code: SourceCode<'c>) -> Self {
        Self::new(settings.clone(), code)
    }

    fn whose(message: &Message) -> Whose {
        match (&message.content, message.source) {
            (Content::Other(..), _) => Whose::Nobody,
            (_, Some(hart)) => Whose::Hart(hart),
            (_, None) => Whose::Unknown,
        }
    }

    fn push(&mut self, message: Located<Message>, sink: &mut impl Sink) {
        Self::push(self, message, sink);
    }

    #[inline]
    fn feed<S: StreamSink<Event>>(
        harts: &mut Harts<'c, Decoder, Self>,
        decoder: &mut Decoder,
        bytes: &[u8],
        sink: &mut S,
    ) -> u64 {
        let mut followed = Followed { harts, sink, messages: 0 };
        decoder.feed(bytes, &mut followed);
        followed.messages
    }

    fn notes(&self) -> Notes {
        let unreliable = "returns were left out of the trace and only their depth is reported (irdepth): execution after \
                          them may be wrong without notice";
        let mut notes = Notes::of(self.is_unreliable().then(|| unreliable.to_owned()));
        for fault in Fault::ALL {
            let advice = match fault {
                Fault::HandlerUnknown => ": --config trap_base=ADDRESS says where handlers are",
                _ => "",
            };
            notes.count(&format!("{fault}{advice}"), self.faults().of(fault));
        }
        notes
    }
}

/// Gives every packet to the follower of its hart.
struct Followed<'h, 'c, S> {
    harts: &'h mut Harts<'c, Decoder, Follower<SourceCode<'c>>>,
    sink: &'h mut S,
    messages: u64,
}

impl<S: StreamSink<Event>> MessageSink for Followed<'_, '_, S> {
    fn take(&mut self, message: Located<Message>) {
        if !self.sink.is_done() {
            self.messages += 1;
            self.harts.push(message, self.sink);
        }
    }

    #[inline(always)]
    fn take_branches(&mut self, packet: Located<BranchPacket>) {
        let Self { harts, sink, messages } = self;
        if sink.is_done() {
            return;
        }
        *messages += 1;
        let (sub_source, at) = (packet.value.source, packet.map(|_| ()));
        if let Some(follower) = harts.follower(sub_source, at) {
            follower.push_branches(packet, &mut Events { sub_source, sink: *sink });
        }
    }
}
