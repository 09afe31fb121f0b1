//! The last step of an encoder: repetitions are counted, and messages get their time.

use backsight_riscv::ntrace::{Message, Packet, REPETITION_BITS};

use super::settings::{Settings, Timestamps};

/// Most repetitions in one message.
const MOST_REPEATS: u32 = (1 << REPETITION_BITS) - 1;

/// Sends messages.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    source: u16,
    timestamps: Timestamps,
    repeat_branch: bool,
    now: u64,
    /// The time that a decoder knows.
    sent_time: Option<u64>,
    /// The latest message, if the same again can be counted, and how often it came again.
    latest: Option<Message>,
    repeats: u32,
    sent: u64,
}

impl Sender {
    pub const fn new(settings: &Settings) -> Self {
        Self {
            source: settings.source,
            timestamps: settings.timestamps,
            repeat_branch: settings.repeat_branch,
            now: 0,
            sent_time: None,
            latest: None,
            repeats: 0,
            sent: 0,
        }
    }

    /// What follows happens at this time.
    pub const fn advance_to(&mut self, time: u64) {
        if time > self.now {
            self.now = time;
        }
    }

    /// Messages sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Nothing that was sent is known to have arrived.
    pub const fn forget(&mut self) {
        (self.sent_time, self.latest, self.repeats) = (None, None, 0);
    }

    pub fn send(&mut self, message: Message, sink: &mut impl FnMut(Packet)) {
        if self.latest == Some(message) {
            self.repeats += 1;
            if self.repeats < MOST_REPEATS {
                return;
            }
            self.send_repeats(sink);
            self.latest = None;
            return;
        }
        self.send_repeats(sink);
        self.latest = Some(message).filter(|message| self.repeat_branch && is_repeatable(message));
        self.emit(message, sink);
    }

    fn send_repeats(&mut self, sink: &mut impl FnMut(Packet)) {
        let count = core::mem::take(&mut self.repeats);
        if count > 0 {
            self.emit(Message::RepeatBranch { count }, sink);
        }
    }

    fn emit(&mut self, message: Message, sink: &mut impl FnMut(Packet)) {
        let timestamp = match (self.timestamps, message.is_sync(), self.sent_time) {
            (Timestamps::Off, ..) | (_, false, None) | (Timestamps::Synchronising, false, _) => None,
            (_, true, _) => Some(self.now),
            (_, false, Some(sent)) => Some(self.now - sent),
        };
        if timestamp.is_some() {
            self.sent_time = Some(self.now);
        }
        self.sent += 1;
        sink(Packet::new(self.source, timestamp, message));
    }
}

/// Does the message mean the same when it comes again? Some decoders apply a difference of addresses once more: only
/// where there is none they agree.
const fn is_repeatable(message: &Message) -> bool {
    matches!(
        message,
        Message::DirectBranch { .. }
            | Message::IndirectBranch { address: 0, .. }
            | Message::IndirectBranchHistory { address: 0, .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn sent(settings: &Settings, messages: &[(u64, Message)]) -> Vec<(Option<u64>, Message)> {
        let (mut sender, mut sent) = (Sender::new(settings), Vec::new());
        for &(time, message) in messages {
            sender.advance_to(time);
            sender.send(message, &mut |packet| sent.push((packet.timestamp, packet.message)));
        }
        assert_eq!(sender.sent(), sent.len() as u64);
        sent
    }

    const SYNC: Message = Message::ProgramTraceSync { reason: 5, count: 0, address: 8 };
    const BRANCH: Message = Message::DirectBranch { count: 3 };

    #[test]
    fn time_is_whole_where_a_message_synchronises_and_else_what_passed() {
        let messages = [(7, BRANCH), (10, SYNC), (14, BRANCH), (15, BRANCH), (20, SYNC)];
        let times = |timestamps| {
            let settings = Settings { timestamps, ..Settings::default() };
            sent(&settings, &messages).into_iter().map(|(time, _)| time).collect::<Vec<_>>()
        };
        assert_eq!(times(Timestamps::All), [None, Some(10), Some(4), Some(1), Some(20)]);
        assert_eq!(times(Timestamps::Synchronising), [None, Some(10), None, None, Some(20)]);
        assert_eq!(times(Timestamps::Off), [None; 5]);
    }

    #[test]
    fn what_comes_again_is_counted_until_something_else_comes() {
        let settings = Settings { repeat_branch: true, ..Settings::default() };
        let messages = [SYNC, BRANCH, BRANCH, BRANCH, SYNC, SYNC, BRANCH].map(|message| (0, message));
        let messages: Vec<_> = sent(&settings, &messages).into_iter().map(|(_, message)| message).collect();
        assert_eq!(messages, [SYNC, BRANCH, Message::RepeatBranch { count: 2 }, SYNC, SYNC, BRANCH]);
    }

    #[test]
    fn a_count_ends_where_its_field_does() {
        let settings = Settings { repeat_branch: true, ..Settings::default() };
        let messages: Vec<_> = (0..MOST_REPEATS + 3).map(|_| (0, BRANCH)).chain([(0, SYNC)]).collect();
        let messages: Vec<_> = sent(&settings, &messages).into_iter().map(|(_, message)| message).collect();
        let repeat = |count| Message::RepeatBranch { count };
        assert_eq!(messages, [BRANCH, repeat(MOST_REPEATS), BRANCH, repeat(1), SYNC]);
    }
}
