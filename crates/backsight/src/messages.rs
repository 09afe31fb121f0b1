//! Messages of software, put together from what was written piece by piece.
//!
//! Software writes a few bytes at a time to a stimulus port or a channel, and several channels take turns. What belongs
//! together goes on until a line ends, or a mark says so: a mark alone, or on data without a time, ends a message, one on
//! data with a time begins it. Every channel has a buffer of its own, of a bounded size.

use std::collections::BTreeMap;

use backsight_flow::{Channel, SoftwareMessage};

/// Most bytes of a message: longer ones come in pieces.
const MOST_BYTES: usize = 4096;
/// Most channels that are kept apart at a time.
const MOST_CHANNELS: usize = 1 << 16;

/// A message, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Whose it is, where several share a source.
    pub sub_source: u16,
    /// Where it was written to.
    pub channel: Channel,
    /// What was written, without the end of the line.
    pub bytes: &'m [u8],
    /// When its first piece was written, where it came with its time.
    pub time: Option<u64>,
    /// Else: not before this.
    pub after: Option<u64>,
    /// Where its first piece is: the number that was given with it.
    pub index: u64,
}

impl Message<'_> {
    /// As text; `None` if it is none.
    pub fn text(&self) -> Option<&str> {
        let is_text = |text: &&str| !text.chars().any(|c| c.is_control() && c != '\t');
        std::str::from_utf8(self.bytes).ok().filter(is_text)
    }
}

/// Puts messages together.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    channels: BTreeMap<(u16, Channel), Pending>,
}

#[derive(Clone, Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    time: Option<u64>,
    after: Option<u64>,
    index: u64,
}

impl Pending {
    fn give(&mut self, (sub_source, channel): (u16, Channel), each: &mut impl FnMut(Message<'_>)) {
        if !self.bytes.is_empty() {
            let Self { bytes, time, after, index } = &*self;
            each(Message { sub_source, channel, bytes, time: *time, after: *after, index: *index });
            self.bytes.clear();
        }
    }
}

impl Messages {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what was written; `now` is the last time that the source reported, `index` where it is in the capture.
    pub fn push(
        &mut self,
        sub_source: u16,
        written: &SoftwareMessage,
        now: Option<u64>,
        index: u64,
        each: &mut impl FnMut(Message<'_>),
    ) {
        let key = (sub_source, written.channel);
        if self.channels.len() >= MOST_CHANNELS && !self.channels.contains_key(&key) {
            self.finish(each);
        }
        let pending = self.channels.entry(key).or_default();
        let (is_marked, time) = (written.is_marked(), written.time());
        if is_marked && time.is_some() && written.size > 0 {
            pending.give(key, each);
        }
        for byte in written.bytes() {
            if pending.bytes.is_empty() {
                (pending.time, pending.after, pending.index) = (time, now.filter(|_| time.is_none()), index);
            }
            // A NUL ends text of a port; on the channel of a master it is most often a part of a number.
            let is_end = match written.channel {
                Channel::Master { .. } | Channel::Unknown => matches!(byte, b'\n' | b'\r'),
                Channel::Port(_) | Channel::ExceptionLevel(_) => matches!(byte, b'\n' | b'\r' | 0),
            };
            let ends = is_end && pending.bytes.iter().all(|byte| is_of_text(*byte));
            match ends {
                true => pending.give(key, each),
                false => pending.bytes.push(byte),
            }
            if pending.bytes.len() == MOST_BYTES {
                pending.give(key, each);
            }
        }
        if is_marked && (time.is_none() || written.size == 0) {
            pending.give(key, each);
        }
    }

    /// Gives what has not ended.
    pub fn finish(&mut self, each: &mut impl FnMut(Message<'_>)) {
        for (key, mut pending) in std::mem::take(&mut self.channels) {
            pending.give(key, each);
        }
    }
}

const fn is_of_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_together(written: &[SoftwareMessage]) -> Vec<(Channel, Vec<u8>)> {
        let (mut messages, mut found) = (Messages::new(), Vec::new());
        let mut each = |message: Message<'_>| found.push((message.channel, message.bytes.to_vec()));
        written.iter().for_each(|one| messages.push(0, one, None, 0, &mut each));
        messages.finish(&mut each);
        found
    }

    const A: Channel = Channel::Port(0);
    const B: Channel = Channel::Master { master: 1, channel: 7 };

    fn word(channel: Channel, bytes: &[u8]) -> SoftwareMessage {
        let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        SoftwareMessage::new(channel, value, bytes.len() as u8)
    }

    #[test]
    fn lines_of_several_channels_are_kept_apart() {
        let written =
            [word(A, b"Hell"), word(B, b"one"), word(A, b"o\nno"), word(B, b"\ntwo"), word(A, b"n\n")];
        let expected =
            [(A, b"Hello".to_vec()), (B, b"one".to_vec()), (A, b"non".to_vec()), (B, b"two".to_vec())];
        assert_eq!(put_together(&written), expected);
    }

    #[test]
    fn marks_begin_and_end_messages() {
        let flag = SoftwareMessage::new(B, 0, 0).marked();
        let written =
            [word(B, &[1, 2]), flag, word(B, &[3]).marked().at(5), word(B, &[0]), word(B, &[4]).marked()];
        assert_eq!(put_together(&written), [(B, vec![1, 2]), (B, vec![3, 0, 4])]);
        let starts = [word(B, &[1]), word(B, &[2]).marked().at(5), flag, flag];
        assert_eq!(put_together(&starts), [(B, vec![1]), (B, vec![2])]);
    }

    #[test]
    fn a_message_without_an_end_comes_in_pieces() {
        let written = vec![word(A, &[b'x'; 8]); 1025];
        let lengths: Vec<usize> = put_together(&written).iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, [4096, 4096, 8]);
    }
}
