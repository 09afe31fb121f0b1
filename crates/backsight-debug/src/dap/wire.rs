//! Messages: headers, an empty line, and a body of JSON.

use std::io::{self, Write};

/// Most bytes of a body that is read.
pub(super) const MOST: usize = 1 << 18;

/// Most bytes of the headers of one.
const MOST_HEADERS: usize = 1 << 12;

/// Puts messages together.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    bytes: Vec<u8>,
    /// The length of the body that is awaited.
    length: Option<usize>,
}

impl Receiver {
    /// Takes bytes, and gives the bodies of the messages that are whole with them.
    ///
    /// # Errors
    /// In words, if no message can be found in them any more.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.bytes.extend_from_slice(bytes);
        let (mut bodies, mut at) = (Vec::new(), 0);
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            match self.length {
                Some(length) if rest.len() >= length => {
                    bodies.push(rest[..length].to_vec());
                    at += length;
                    self.length = None;
                }
                Some(_) => break,
                None => match rest.windows(4).position(|four| four == b"\r\n\r\n") {
                    Some(end) if end <= MOST_HEADERS => {
                        self.length = Some(length_of(&rest[..end])?);
                        at += end + 4;
                    }
                    None if rest.len() <= MOST_HEADERS => break,
                    _ => return Err(format!("no message begins within {MOST_HEADERS} bytes")),
                },
            }
        }
        self.bytes.drain(..at);
        Ok(bodies)
    }

    /// Is there a part of a message?
    pub fn is_between(&self) -> bool {
        self.bytes.is_empty() && self.length.is_none()
    }
}

/// The length of a body, out of its headers.
fn length_of(headers: &[u8]) -> Result<usize, String> {
    let lines = headers.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
    });
    let mut lengths = lines.filter(|(name, _)| name.trim_ascii().eq_ignore_ascii_case(b"Content-Length"));
    let (_, digits) = lengths.next().ok_or("a message without Content-Length")?;
    let length: Option<usize> = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    match length {
        Some(length) if length <= MOST => Ok(length),
        Some(length) => Err(format!("a message of {length} bytes: no more than {MOST} are read")),
        None => Err("a Content-Length that is no number".to_owned()),
    }
}

/// Writes a message.
pub(super) fn send(out: &mut impl Write, body: &str) -> io::Result<()> {
    out.write_all(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    out.flush()
}

/// Bytes as the protocol has them in text: base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let is_there = digit <= three.len();
            let index = (word >> (18 - 6 * digit) & 63) as usize;
            text.push(if is_there { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received_however_it_is_cut() {
        let mut sent = Vec::new();
        for body in ["{}", "", "{\"a\": \"ä\r\n\r\n\"}"] {
            send(&mut sent, body).expect("memory takes everything");
        }
        for size in [1, 2, 7, 1000] {
            let mut receiver = Receiver::default();
            let bodies: Vec<_> =
                sent.chunks(size).flat_map(|part| receiver.take(part).expect("whole messages")).collect();
            assert_eq!(bodies, [&b"{}"[..], b"", "{\"a\": \"ä\r\n\r\n\"}".as_bytes()]);
            assert!(receiver.is_between());
        }
    }

    #[test]
    fn what_is_no_message_is_refused_and_takes_no_memory() {
        for wrong in [
            "Content-Length: 99999999999\r\n\r\n",
            "Content-Length: 99999999999999999999999\r\n\r\n",
            "Content-Length: -1\r\n\r\n",
            "Content-Type: x\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(Receiver::default().take(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let mut receiver = Receiver::default();
        let outcome = (0..100).try_for_each(|_| receiver.take(&[b'a'; 100]).map(drop));
        assert!(outcome.is_err());
        assert!(receiver.bytes.len() <= MOST_HEADERS + 100);
        // Other headers, and in other letters.
        let text = "content-length:2\r\nContent-Type: text\r\n\r\n{}";
        assert_eq!(Receiver::default().take(text.as_bytes()), Ok(vec![b"{}".to_vec()]));
    }

    #[test]
    fn base64_is_as_the_standard_has_it() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xFF, 0xFE, 0]), "//4A");
    }
}
