//! E-Trace from bytes to execution: a follower for each hart.

use backsight_core::{Accounting, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;
use backsight_riscv::encap::{Deframer, Frame, Framing, Kind};

use super::super::Stream;
use super::super::by_sub_source::BySubSource;

/// Most harts that are kept apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

/// Takes frames apart and follows every hart.
pub struct Execution<'c> {
    deframer: Deframer,
    harts: Harts<'c>,
}

/// Followers of all harts of a stream. Each keeps the options that its own support packets announce.
struct Harts<'c> {
    /// What a new hart's follower is made from.
    settings: Settings,
    code: &'c Image,
    followers: BySubSource<Follower<'c, Image>>,
    frames: u64,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

impl<'c> Execution<'c> {
    /// No hart was met yet.
    pub(super) fn new(framing: Framing, settings: Settings, code: &'c Image) -> Self {
        let followers = BySubSource::new(MOST_HARTS);
        let harts = Harts { settings, code, followers, frames: 0, bad: 0 };
        Self { deframer: Deframer::new(framing), harts }
    }
}

impl Stream for Execution<'_> {
    type Value = Event;

    fn feed<S: FnMut(u16, Located<Event>)>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { deframer, harts } = self;
        deframer.feed(bytes, &mut |frame| harts.take(&frame, sink));
    }

    fn finish<S: FnMut(u16, Located<Event>)>(&mut self, sink: &mut S) {
        let Self { deframer, harts } = self;
        deframer.finish(&mut |frame| harts.take(&frame, sink));
        for (hart, follower) in harts.followers.iter_mut() {
            follower.finish(&mut |event| sink(hart, event));
        }
    }

    fn reset<S: FnMut(u16, Located<Event>)>(&mut self, sink: &mut S) {
        self.finish(sink);
    }

    fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.harts.bad;
        accounting.bad += self.harts.bad;
        accounting
    }

    fn packets(&self) -> u64 {
        self.harts.frames
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
                "returns were left out of the trace and only their depth is told (irdepth): execution behind them \
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

impl Harts<'_> {
    #[inline(always)]
    fn take(&mut self, frame: &Located<Frame<'_>>, sink: &mut impl FnMut(u16, Located<Event>)) {
        let Located { offset, length, .. } = *frame;
        self.frames += 1;
        match frame.value {
            Frame::Message(message) if message.kind == Kind::Instruction => {
                let (settings, code, number) = (&self.settings, self.code, message.source);
                let hart = self.followers.of(number, || Follower::new(settings.clone(), code));
                let payload = Located { offset, length, value: message.payload };
                if hart.is_some_and(|hart| hart.feed(payload, &mut |event| sink(number, event)).is_err()) {
                    self.bad += u64::from(length);
                }
            }
            // Whose packets these bytes were, nobody knows.
            Frame::Fault(_) => {
                let bytes = Located { offset, length, value: () };
                for (number, follower) in self.followers.iter_mut() {
                    follower.push_bad(bytes, &mut |event| sink(number, event));
                }
            }
            Frame::Message(_) | Frame::Null => {}
        }
    }
}
