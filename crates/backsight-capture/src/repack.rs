//! Trace in a form that a format can describe, made while it is copied.

use backsight_arm::frame::{Batch, Demultiplexer, Formatter, FormatterConfig, Framing};
use std::io::{self, Read};

/// Bytes taken from the source at a time.
const PIECE: usize = 64 << 10;

/// Something that turns pieces of a stream into pieces of another.
pub(crate) trait Convert {
    /// Takes a piece; an empty one is the end.
    fn convert(&mut self, piece: &[u8], out: &mut Vec<u8>);
}

/// Reads a stream through a conversion.
pub(crate) struct Converted<R, C> {
    inner: R,
    conversion: C,
    ready: Vec<u8>,
    place: usize,
    ended: bool,
}

impl<R: Read, C: Convert> Converted<R, C> {
    pub(crate) fn new(inner: R, conversion: C) -> Self {
        Self { inner, conversion, ready: Vec::new(), place: 0, ended: false }
    }
}

impl<R: Read, C: Convert> Read for Converted<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.place == self.ready.len() {
            if self.ended || buffer.is_empty() {
                return Ok(0);
            }
            let mut piece = vec![0; PIECE];
            let count = self.inner.read(&mut piece)?;
            self.ready.clear();
            self.place = 0;
            self.ended = count == 0;
            self.conversion.convert(&piece[..count], &mut self.ready);
        }
        let rest = &self.ready[self.place..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.place += count;
        Ok(count)
    }
}

/// Cuts the footers out of a DSTREAM dump: what is left is a trace port capture with full syncs.
#[derive(Default)]
pub(crate) struct WithoutFooters {
    place: usize,
}

impl Convert for WithoutFooters {
    fn convert(&mut self, mut piece: &[u8], out: &mut Vec<u8>) {
        while !piece.is_empty() {
            let end = if self.place < 504 { 504 } else { 512 };
            let (part, rest) = piece.split_at(piece.len().min(end - self.place));
            if self.place < 504 {
                out.extend_from_slice(part);
            }
            self.place = (self.place + part.len()) % 512;
            piece = rest;
        }
    }
}

/// Packs the streams of a trace port capture again, as a memory buffer holds them. Damage becomes a barrier.
pub(crate) struct Repacked {
    demultiplexer: Demultiplexer,
    formatter: Formatter,
}

impl Repacked {
    pub(crate) fn new(framing: Framing) -> Self {
        let formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
        Self { demultiplexer: Demultiplexer::new(framing), formatter }
    }
}

impl Convert for Repacked {
    fn convert(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
        let formatter = &mut self.formatter;
        if piece.is_empty() {
            return formatter.finish(&mut sink);
        }
        self.demultiplexer.feed(piece, &mut |batch| match batch {
            // The demultiplexer delivers sources only.
            Batch::Data { id, bytes, .. } => drop(formatter.push(id, bytes, &mut sink)),
            Batch::Trigger { .. } => formatter.trigger(&mut sink),
            Batch::Flush { .. } => formatter.flush_done(&mut sink),
            Batch::Discontinuity { .. } => formatter.barrier(&mut sink),
        });
    }
}
