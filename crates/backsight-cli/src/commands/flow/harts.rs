//! E-Trace from the bytes of a stream to execution: a follower for each hart.

use backsight_core::{Accounting, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;
use backsight_riscv::encap::{Deframer, Frame, Framing, Kind};

use crate::per_source::PerSource;

/// Most harts that are told apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

/// Takes frames apart and follows every hart.
pub struct Harts<'i> {
    deframer: Deframer,
    crew: Crew<'i>,
}

/// Followers of all harts of a stream. Each keeps the options that its own support packets announce.
struct Crew<'i> {
    /// What a new hart's follower is made from.
    settings: Settings,
    image: &'i Image,
    followers: PerSource<Follower<'i, Image>>,
    frames: u64,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

impl<'i> Harts<'i> {
    /// No hart was seen yet.
    pub fn new(framing: Framing, settings: Settings, image: &'i Image) -> Self {
        let followers = PerSource::new(MOST_HARTS);
        let crew = Crew { settings, image, followers, frames: 0, bad: 0 };
        Self { deframer: Deframer::new(framing), crew }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Event>)) {
        let Self { deframer, crew } = self;
        deframer.feed(bytes, &mut |frame| crew.take(&frame, sink));
    }

    /// The stream ends, or does not continue.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        let Self { deframer, crew } = self;
        deframer.finish(&mut |frame| crew.take(&frame, sink));
        crew.followers.iter_mut().for_each(|follower| follower.finish(sink));
    }

    /// Frames so far, those that are no packets included.
    pub const fn frames(&self) -> u64 {
        self.crew.frames
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.crew.bad;
        accounting.bad += self.crew.bad;
        accounting
    }

    /// What was counted.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.crew.followers.iter().for_each(|follower| sum += *follower.statistics());
        sum
    }

    /// What a user should know about the result.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.crew.followers.iter().any(Follower::is_unreliable) {
            notes.push(
                "returns were left out of the trace and only their depth is told (irdepth): execution behind them \
                 may be wrong without notice"
                    .to_owned(),
            );
        }
        for fault in Fault::ALL {
            let count: u64 = self.crew.followers.iter().map(|follower| follower.faults().of(fault)).sum();
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

impl Crew<'_> {
    #[inline(always)]
    fn take(&mut self, frame: &Located<Frame<'_>>, sink: &mut impl FnMut(Located<Event>)) {
        let Located { offset, length, .. } = *frame;
        self.frames += 1;
        match frame.value {
            Frame::Message(message) if message.kind == Kind::Instruction => {
                let (settings, image) = (&self.settings, self.image);
                let hart = self.followers.of(message.source, || Follower::new(settings.clone(), image));
                let payload = Located { offset, length, value: message.payload };
                if hart.is_some_and(|hart| hart.feed(payload, sink).is_err()) {
                    self.bad += u64::from(length);
                }
            }
            // Whose packets these bytes were, nobody knows.
            Frame::Fault(_) => {
                let place = Located { offset, length, value: () };
                self.followers.iter_mut().for_each(|follower| follower.push_bad(place, sink));
            }
            Frame::Message(_) | Frame::Null => {}
        }
    }
}
