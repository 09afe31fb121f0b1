//! Instruction streams: code that is executed without a change of control flow that the code does not tell.
//!
//! A stream is described by its start address and its length. It ends at a taken conditional branch, at an indirect
//! branch, where an exception is taken, and at the maximum length. Direct unconditional branches do not end it, because
//! a reader with the code can follow them; conditional branches inside it were not taken.

use crate::Damage;
use crate::block::{Block, Path};
use crate::code::{Code, Kind};

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Start address.
    pub start: u64,
    /// Instructions, 1 to 255.
    pub length: u8,
    /// The start address that the other side expects from the stream before, if it expects one.
    pub inferred: Option<u64>,
}

/// Where the stream after one with this last instruction begins, as far as the code tells. Both sides use the same
/// rule: a conditional branch that ends a stream was taken, a plain instruction ends one only at the maximum length.
fn infer(code: &mut Code, last: u64, full: bool) -> Option<u64> {
    let op = code.at(last)?;
    match op.kind {
        Kind::Plain => full.then(|| last.wrapping_add(u64::from(op.size))),
        Kind::Conditional | Kind::Jump | Kind::Call => Some(code.target(last)),
        Kind::Indirect | Kind::IndirectCall | Kind::Return => None,
    }
}

/// Finds streams in blocks.
#[derive(Clone, Debug)]
pub struct Detector {
    longest: u32,
    start: u64,
    length: u32,
    /// The last instruction so far.
    last: u64,
    inferred: Option<u64>,
}

impl Detector {
    /// Streams of at most `longest` instructions.
    pub fn new(longest: u8) -> Self {
        Self { longest: u32::from(longest.max(1)), start: 0, length: 0, last: 0, inferred: None }
    }

    /// Takes the next block.
    #[inline]
    pub fn push(&mut self, block: &Block, code: &mut Code, sink: &mut impl FnMut(Stream, &mut Code)) {
        if block.fresh {
            self.flush(code, sink);
        }
        let ends = block.taken || block.kind.is_indirect();
        let mut start = block.start;
        let mut left = block.count;
        while self.length + left > self.longest || self.length + left == self.longest && !ends {
            let piece = self.longest - self.length;
            // The block's instructions are known: they were just executed.
            let last = code.after(start, piece - 1).unwrap_or(block.last);
            let next = if piece == left { block.next } else { code.after(last, 1).unwrap_or(block.end) };
            self.add(start, piece, last);
            self.end(code, sink);
            left -= piece;
            start = next;
        }
        if left > 0 {
            self.add(start, left, block.last);
            if ends {
                self.end(code, sink);
            }
        }
    }

    /// Ends the stream here, if one has begun.
    pub fn flush(&mut self, code: &mut Code, sink: &mut impl FnMut(Stream, &mut Code)) {
        if self.length > 0 {
            self.end(code, sink);
        }
    }

    #[inline]
    fn add(&mut self, start: u64, count: u32, last: u64) {
        if self.length == 0 {
            self.start = start;
        }
        self.length += count;
        self.last = last;
    }

    #[inline]
    fn end(&mut self, code: &mut Code, sink: &mut impl FnMut(Stream, &mut Code)) {
        let stream = Stream { start: self.start, length: self.length as u8, inferred: self.inferred };
        self.inferred = infer(code, self.last, self.length == self.longest);
        self.length = 0;
        sink(stream, code);
    }
}

/// Follows streams through the code.
#[derive(Clone, Debug)]
pub struct Follower {
    longest: u8,
    inferred: Option<u64>,
}

impl Follower {
    /// Streams of at most `longest` instructions.
    pub fn new(longest: u8) -> Self {
        Self { longest: longest.max(1), inferred: None }
    }

    /// Where the next stream begins, if the last one tells.
    pub fn inferred(&self) -> Option<u64> {
        self.inferred
    }

    /// Gives the paths of a stream.
    #[inline]
    pub fn follow(
        &mut self,
        (start, length): (u64, u8),
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        if length == 0 || length > self.longest {
            return Err(Damage::Record("a stream of no instructions or too many"));
        }
        let mut at = start;
        let mut left = u32::from(length);
        loop {
            let straight = code.straight(at).ok_or(Damage::NoCode(at))?;
            if straight.count >= left {
                sink(Path { start: at, count: left }, code);
                let last =
                    if straight.count == left { Some(straight.last) } else { code.after(at, left - 1) };
                self.inferred = infer(code, last.unwrap_or(at), length == self.longest);
                return Ok(());
            }
            sink(Path { start: at, count: straight.count }, code);
            left -= straight.count;
            at = match straight.kind {
                Kind::Plain | Kind::Conditional => straight.end,
                Kind::Jump | Kind::Call => straight.target,
                _ => return Err(Damage::Record("a stream that goes on after an indirect branch")),
            };
        }
    }
}
