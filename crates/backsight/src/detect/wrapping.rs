//! What lies around trace: bytes before it, words that were turned round, compression, text.

use std::io::Read;

use super::kind;

/// Bytes that are unpacked.
const MOST_UNPACKED: u64 = 1 << 17;
/// Digits of a text without which it is no dump.
const FEWEST_DIGITS: usize = 32;

/// Something that has to be undone before the trace can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrapping {
    /// Compressed by gzip.
    Gzip,
    /// Bytes as hexadecimal digits.
    Hexadecimal,
    /// Lines of an offset with a colon, hexadecimal digits and characters, as `xxd` writes them.
    Xxd,
    /// Lines of an offset, hexadecimal digits, and characters between bars, as `hexdump -C` writes them.
    HexDump,
    /// Words of so many bytes, each with its last byte first.
    Swapped(usize),
    /// So many bytes before the trace.
    Skip(u64),
}

impl Wrapping {
    /// In words, after "the trace".
    pub fn words(self) -> String {
        match self {
            Self::Gzip => "is compressed by gzip".to_owned(),
            Self::Hexadecimal => "is written as hexadecimal digits".to_owned(),
            Self::Xxd | Self::HexDump => "is written as a hexadecimal dump with offsets".to_owned(),
            Self::Swapped(size) => {
                format!("is stored in words of {} bits with the last byte first", size * 8)
            }
            Self::Skip(bytes) => format!("begins after {}", crate::listing::counted(bytes, "byte")),
        }
    }

    /// The command of a shell that undoes it, from one file to another; both are quoted already.
    pub fn undo(self, from: &str, to: &str) -> String {
        match self {
            Self::Gzip => format!("gunzip -c < {from} > {to}"),
            Self::Hexadecimal => {
                format!("sed 's/0[xX]//g; s/[^0-9a-fA-F]//g' {from} | xxd -r -p > {to}")
            }
            Self::Xxd => format!("xxd -r {from} > {to}"),
            Self::HexDump => {
                format!("sed 's/^[0-9a-fA-F]* *//; s/|.*//; s/[^0-9a-fA-F]//g' {from} | xxd -r -p > {to}")
            }
            Self::Swapped(2) => format!("dd conv=swab if={from} of={to}"),
            Self::Swapped(size) => {
                format!("objcopy -I binary -O binary --reverse-bytes={size} {from} {to}")
            }
            Self::Skip(bytes) => format!("tail -c +{} {from} > {to}", bytes + 1),
        }
    }
}

/// What is in a file that holds another one.
pub(super) fn unpacked(start: &[u8]) -> Option<(Wrapping, Vec<u8>)> {
    if start.starts_with(&[0x1F, 0x8B, 8]) {
        let mut bytes = Vec::new();
        // The file may be cut off, or go on after what was looked at: what can be unpacked is enough.
        let _ = flate2::read::MultiGzDecoder::new(start).take(MOST_UNPACKED).read_to_end(&mut bytes);
        return Some((Wrapping::Gzip, bytes)).filter(|(_, bytes)| !bytes.is_empty());
    }
    if !kind::is_text(start) {
        return None;
    }
    let text = String::from_utf8_lossy(start);
    digits(&text).map(|bytes| (Wrapping::Hexadecimal, bytes)).or_else(|| dump(&text))
}

/// The bytes of a text that is nothing but hexadecimal digits in pairs, with whatever is usual between them.
fn digits(text: &str) -> Option<Vec<u8>> {
    let text = text.replace("0x", " ").replace("0X", " ");
    let is_between = |c: char| c.is_whitespace() || ",;{}".contains(c);
    // What was looked at may end within a word.
    let whole = text.rmatch_indices(is_between).next().map_or(text.len(), |(at, one)| at + one.len());
    let (text, last) = text.split_at(whole);
    let mut bytes = Vec::new();
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        if !pairs(word, &mut bytes) {
            return None;
        }
    }
    pairs(last.get(..last.len() & !1).unwrap_or_default(), &mut bytes);
    Some(bytes).filter(|bytes| bytes.len() * 2 >= FEWEST_DIGITS)
}

/// The bytes of lines with an offset, digits, and characters after two blanks or a bar.
fn dump(text: &str) -> Option<(Wrapping, Vec<u8>)> {
    let (mut bytes, mut lines, mut step) = (Vec::new(), 0_usize, Wrapping::HexDump);
    for line in text.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let digits = line.bytes().take_while(u8::is_ascii_hexdigit).count();
        let rest = &line[digits..];
        let (own, hex) = match rest.strip_prefix(':') {
            Some(rest) => (Wrapping::Xxd, rest.trim_start().split("  ").next()),
            None => (Wrapping::HexDump, rest.split('|').next()),
        };
        if digits < 4 || lines > 0 && own != step {
            return None;
        }
        step = own;
        // The last line may be cut off.
        let is_read = hex.unwrap_or_default().split_whitespace().all(|word| pairs(word, &mut bytes));
        lines += usize::from(is_read);
        if !is_read {
            break;
        }
    }
    Some((step, bytes)).filter(|(_, bytes)| lines >= 2 && bytes.len() * 2 >= FEWEST_DIGITS)
}

/// Adds the bytes that pairs of digits stand for; `false` if they do not.
fn pairs(word: &str, bytes: &mut Vec<u8>) -> bool {
    let digits = word.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return false;
    }
    digits.chunks_exact(2).all(|pair| match (value(pair[0]), value(pair[1])) {
        (Some(high), Some(low)) => {
            bytes.push((high << 4 | low) as u8);
            true
        }
        _ => false,
    })
}

/// The same bytes with words of this size turned round; what is no whole word at the end is left out.
pub(super) fn swapped(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks_exact(size).flat_map(|word| word.iter().rev().copied()).collect()
}
