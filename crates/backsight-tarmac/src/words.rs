//! How a line is split: words are runs of letters, digits and `_ - . #`, marks stand alone, white space only separates.

/// What a byte is in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Word,
    Mark,
    /// Fine in free text only.
    Other,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b' ' | b'\t' => Kind::Space,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'-' | b'.' | b'#' => Kind::Word,
            b':' | b'(' | b')' | b'[' | b']' | b',' | b'<' | b'>' => Kind::Mark,
            _ => Kind::Other,
        };
        byte += 1;
    }
    kinds
};

/// The value of each hexadecimal digit; 0xFF for all other bytes.
pub(crate) const DIGITS: [u8; 256] = {
    let mut digits = [0xFF; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a [u8]),
    Mark(u8),
    /// A byte that is in free text only.
    Other,
    End,
}

/// A place in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub const fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The column of the next word or mark.
    #[inline]
    pub fn column(&mut self) -> usize {
        while let Some(&byte) = self.line.get(self.at)
            && KINDS[usize::from(byte)] == Kind::Space
        {
            self.at += 1;
        }
        self.at
    }

    /// The next word or mark.
    #[inline]
    pub fn next(&mut self) -> Token<'a> {
        let start = self.column();
        let Some(&first) = self.line.get(start) else { return Token::End };
        match KINDS[usize::from(first)] {
            Kind::Word => {
                let mut end = start + 1;
                while let Some(&byte) = self.line.get(end)
                    && KINDS[usize::from(byte)] == Kind::Word
                {
                    end += 1;
                }
                self.at = end;
                Token::Word(&self.line[start..end])
            }
            Kind::Mark => {
                self.at = start + 1;
                Token::Mark(first)
            }
            Kind::Other | Kind::Space => {
                self.at = start + 1;
                Token::Other
            }
        }
    }

    /// The next one, which stays where it is.
    #[inline]
    pub fn peek(&self) -> Token<'a> {
        let mut ahead = *self;
        ahead.next()
    }

    /// The next one if it is a word, which stays where it is.
    #[inline]
    pub fn peek_word(&self) -> Option<&'a [u8]> {
        match self.peek() {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The next one if it is a word.
    #[inline]
    pub fn word(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        match ahead.next() {
            Token::Word(word) => {
                *self = ahead;
                Some(word)
            }
            _ => None,
        }
    }

    /// Passes over a mark, if it is the next.
    #[inline]
    pub fn mark(&mut self, mark: u8) -> bool {
        let start = self.column();
        let is_there = self.line.get(start) == Some(&mark);
        self.at += usize::from(is_there);
        is_there
    }

    /// Passes over a word, if it is the next.
    #[inline]
    pub fn keyword(&mut self, word: &[u8]) -> bool {
        let start = self.column();
        let rest = self.line.get(start..).unwrap_or_default();
        let after = rest.strip_prefix(word);
        let ends = |after: &[u8]| after.first().is_none_or(|&byte| KINDS[usize::from(byte)] != Kind::Word);
        let is_there = after.is_some_and(ends);
        if is_there {
            self.at = start + word.len();
        }
        is_there
    }

    /// A number of decimal digits at the beginning of the next word, where white space follows. Most times are that.
    #[inline]
    pub fn plain_decimal(&mut self) -> Option<u64> {
        let start = self.column();
        let rest = self.line.get(start..).unwrap_or_default();
        let (mut value, mut count) = (0_u64, 0);
        while let Some(digit) =
            rest.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10)
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            count += 1;
        }
        // So many digits fit for certain.
        let is_plain = (1..=18).contains(&count) && matches!(rest.get(count), Some(b' ' | b'\t'));
        is_plain.then(|| {
            self.at = start + count;
            value
        })
    }

    /// A hexadecimal number.
    #[inline]
    pub fn hex(&mut self) -> Option<u64> {
        let mut ahead = *self;
        let value = hex(ahead.word()?)?;
        *self = ahead;
        Some(value)
    }

    /// Passes over a physical address, and a second one: `:000000008044_NS,000000009000_NS`.
    #[inline]
    pub fn physical(&mut self) -> bool {
        !self.mark(b':') || self.word().is_some() && (!self.mark(b',') || self.word().is_some())
    }
}

/// A word of hexadecimal digits as a number of at most 64 bits.
#[inline]
pub(crate) fn hex(word: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for &byte in word {
        let digit = DIGITS[usize::from(byte)];
        if digit > 15 || value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    Some(value).filter(|_| !word.is_empty())
}

/// A word of decimal digits as a number.
#[inline]
pub(crate) fn decimal(word: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for &byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value).filter(|_| !word.is_empty())
}
