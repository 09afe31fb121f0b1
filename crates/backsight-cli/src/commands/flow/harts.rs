//! E-Trace from the bytes of a stream to execution: a follower for each hart.

use backsight_core::{Accounting, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;
use backsight_riscv::PerSource;
use backsight_riscv::etrace::{Config, Content, Decoder, Message};

/// Most harts that are told apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

/// Decodes a stream and follows every hart.
pub struct Harts<'i> {
    decoder: Decoder,
    crew: Crew<'i>,
}

/// Followers of all harts of a stream. Each keeps the options that its own support packets announce.
struct Crew<'i> {
    /// What a new hart's follower is made from.
    settings: Settings,
    image: &'i Image,
    followers: PerSource<Follower<&'i Image>>,
    messages: u64,
}

impl<'i> Harts<'i> {
    /// No hart was seen yet.
    pub fn new(config: &Config, settings: Settings, image: &'i Image) -> Self {
        let followers = PerSource::new(MOST_HARTS);
        let crew = Crew { settings, image, followers, messages: 0 };
        Self { decoder: Decoder::new(config), crew }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Event>)) {
        let Self { decoder, crew } = self;
        decoder.feed(bytes, &mut |message| crew.take(message, sink));
    }

    /// The stream ends, or does not continue.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        let Self { decoder, crew } = self;
        decoder.finish(&mut |message| crew.take(message, sink));
        crew.followers.iter_mut().for_each(|follower| follower.finish(sink));
    }

    /// Frames so far, those that are no packets included.
    pub const fn frames(&self) -> u64 {
        self.crew.messages
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        self.decoder.accounting()
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
    fn take(&mut self, message: Located<Message>, sink: &mut impl FnMut(Located<Event>)) {
        self.messages += 1;
        if matches!(message.value.content, Content::Other(..)) {
            return;
        }
        if let Some(source) = message.value.source {
            let (settings, image) = (&self.settings, self.image);
            if let Some(hart) = self.followers.of(source, || Follower::new(settings.clone(), image)) {
                hart.push(message, sink);
            }
        } else {
            self.take_nobodys(&message, sink);
        }
    }

    /// Whose packets bad bytes were, nobody knows: every hart may have lost one.
    #[cold]
    fn take_nobodys(&mut self, message: &Located<Message>, sink: &mut impl FnMut(Located<Event>)) {
        self.followers.iter_mut().for_each(|hart| hart.push(*message, sink));
    }
}
