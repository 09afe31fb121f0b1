//! Packets: `$contents#checksum`, acknowledged by `+` and asked for again by `-` until both sides do without.

use std::io::{self, Write};

/// Most bytes of the contents of a packet, in both directions: what `qSupported` says.
pub(super) const MOST: usize = 0x4000;

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The contents of a packet.
    Packet(Vec<u8>),
    /// The last answer was not understood.
    Again,
    /// A packet that was damaged on the way, or is too long.
    Damaged,
    /// Execution is to stop.
    Interrupt,
}

/// Puts packets together. Anything between them is passed over.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    state: State,
    contents: Vec<u8>,
    sum: u8,
    is_too_long: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Contents,
    /// After `}`: the next byte is changed by 0x20.
    Escaped,
    FirstDigit,
    SecondDigit(u8),
}

impl Receiver {
    /// Takes a byte.
    pub fn take(&mut self, byte: u8) -> Option<Received> {
        match (self.state, byte) {
            (State::Between, b'$') | (State::Contents | State::Escaped, b'$') => {
                *self = Self { state: State::Contents, ..Self::default() };
                None
            }
            (State::Between, b'-') => Some(Received::Again),
            (State::Between, 3) => Some(Received::Interrupt),
            (State::Between, _) => None,
            (State::Contents, b'#') => {
                self.state = State::FirstDigit;
                None
            }
            (State::Contents, b'}') => {
                self.sum = self.sum.wrapping_add(byte);
                self.state = State::Escaped;
                None
            }
            (State::Contents, byte) => self.put(byte, byte),
            (State::Escaped, byte) => {
                self.state = State::Contents;
                self.put(byte, byte ^ 0x20)
            }
            (State::FirstDigit, byte) => {
                self.state = State::SecondDigit(byte);
                None
            }
            (State::SecondDigit(first), second) => {
                let sum = Some([first, second]).and_then(|digits| parse_hex(&digits));
                let is_whole = sum == Some(self.sum.into()) && !self.is_too_long;
                let contents = std::mem::take(self).contents;
                Some(if is_whole { Received::Packet(contents) } else { Received::Damaged })
            }
        }
    }

    fn put(&mut self, sent: u8, byte: u8) -> Option<Received> {
        self.sum = self.sum.wrapping_add(sent);
        match self.contents.len() < MOST {
            true => self.contents.push(byte),
            false => self.is_too_long = true,
        }
        None
    }
}

/// Writes a packet.
pub(super) fn send(out: &mut impl Write, contents: &[u8]) -> io::Result<()> {
    let mut packet = Vec::with_capacity(contents.len() + 4);
    packet.push(b'$');
    let mut sum = 0_u8;
    for &byte in contents {
        let (escape, byte) = match byte {
            b'#' | b'$' | b'}' | b'*' => (Some(b'}'), byte ^ 0x20),
            _ => (None, byte),
        };
        for byte in escape.into_iter().chain([byte]) {
            sum = sum.wrapping_add(byte);
            packet.push(byte);
        }
    }
    packet.extend(format!("#{sum:02x}").bytes());
    out.write_all(&packet)?;
    out.flush()
}

/// A number in hexadecimal digits; `None` for anything else.
pub(super) fn parse_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |sum: u64, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(sum << 4 | u64::from(digit))
    })
}

/// Two numbers with a comma between them.
pub(super) fn parse_two(text: &[u8]) -> Option<(u64, u64)> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    Some((parse_hex(text.get(..comma)?)?, parse_hex(text.get(comma + 1..)?)?))
}

/// Bytes that were sent as two digits each.
pub(super) fn parse_bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| parse_hex(pair).map(|byte| byte as u8)).collect()
}

/// Bytes as two digits each.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(bytes: &[u8]) -> Vec<Received> {
        let mut receiver = Receiver::default();
        bytes.iter().filter_map(|byte| receiver.take(*byte)).collect()
    }

    #[test]
    fn what_is_sent_is_received() {
        for contents in [&b""[..], b"OK", b"#$}*", &[0, 3, 255, b'}', b'-', b'+']] {
            let mut sent = Vec::new();
            send(&mut sent, contents).expect("memory takes everything");
            assert_eq!(receive(&sent), [Received::Packet(contents.to_vec())]);
        }
    }

    #[test]
    fn between_packets_are_interrupts_and_wishes_to_hear_it_again() {
        let all = receive(b"+x$g#67\x03-+$m#00");
        let expected =
            [Received::Packet(b"g".to_vec()), Received::Interrupt, Received::Again, Received::Damaged];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_packet_that_is_too_long_takes_no_more_memory() {
        let mut receiver = Receiver::default();
        receiver.take(b'$');
        (0..10 * MOST).for_each(|_| assert_eq!(receiver.take(b'a'), None));
        assert!(receiver.contents.len() <= MOST);
        // The next one is read as ever.
        let rest: Vec<_> = b"#00$g#67".iter().filter_map(|byte| receiver.take(*byte)).collect();
        assert_eq!(rest, [Received::Damaged, Received::Packet(b"g".to_vec())]);
    }

    #[test]
    fn numbers_are_read_or_refused() {
        assert_eq!(parse_hex(b"1f"), Some(0x1F));
        assert_eq!(parse_two(b"10,4"), Some((0x10, 4)));
        assert_eq!(parse_bytes(b"6869"), Some(b"hi".to_vec()));
        for wrong in [&b""[..], b"-1", b"+1", b"g", b"11112222333344445"] {
            assert_eq!(parse_hex(wrong), None);
        }
        assert_eq!(parse_bytes(b"123"), None);
    }
}
