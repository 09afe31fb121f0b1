//! One frame: where its bytes are, and to which source each belongs.

use super::{Chunk, Counts, Loss};
use backsight_core::TraceId;

/// Bytes of a frame.
pub(super) const FRAME: usize = 16;
/// Full sync, in stream order.
pub(super) const FULL_SYNC: [u8; 4] = [0xFF, 0xFF, 0xFF, 0x7F];
/// The first byte of every sync packet; never at an even position of a frame.
pub(super) const SYNC_BYTE: u8 = 0xFF;
/// The last byte of every sync packet.
pub(super) const SYNC_END: u8 = 0x7F;

/// Bit 0 of the four mixed bytes in half a frame.
pub(super) const ID_FLAGS: u64 = 0x0001_0001_0001_0001;
/// Instead of an ID until the first one is seen.
const UNKNOWN: u8 = 0x80;

/// Receives what a frame holds.
pub(super) trait FrameOutput {
    /// The 15 data bytes of a frame without ID bytes, with a byte after them that says nothing.
    fn frame(&mut self, id: TraceId, index: u64, halves: [u64; 2]);
    /// As many of these frames, in a row from an index on, as it takes at once of those that hold nothing but bytes of this
    /// source ([`data_of`]); gives how many, and how many of them repeat the ID.
    fn frames(&mut self, _id: TraceId, _index: u64, _frames: &[[u8; FRAME]]) -> (usize, usize) {
        (0, 0)
    }
    /// Bytes `from..to` of `data`, of one source.
    fn data(&mut self, id: TraceId, index: u64, data: &[u8; 2 * FRAME], from: usize, to: usize);
    /// Anything that is not data.
    fn mark(&mut self, mark: Chunk<'static>);
}

/// Every run on its own, to a closure.
pub(super) struct Runs<'a, F>(pub(super) &'a mut F);

impl<F: FnMut(Chunk<'_>)> FrameOutput for Runs<'_, F> {
    #[inline(always)]
    fn frame(&mut self, id: TraceId, index: u64, halves: [u64; 2]) {
        (self.0)(Chunk::Data { id, index, bytes: &join(halves)[..15] });
    }

    #[inline(always)]
    fn data(&mut self, id: TraceId, index: u64, data: &[u8; 2 * FRAME], from: usize, to: usize) {
        if let Some(bytes) = data.get(from..to) {
            (self.0)(Chunk::Data { id, index, bytes });
        }
    }

    #[inline]
    fn mark(&mut self, mark: Chunk<'static>) {
        (self.0)(mark);
    }
}

/// The data of a frame that holds nothing but bytes of a source, with what says nothing after it, and its length: 15 bytes
/// without ID bytes, 14 with that of the same source, which formatters repeat every so many frames. `None` for other frames,
/// barriers included.
#[inline(always)]
pub(super) fn data_of(id: TraceId, frame: &[u8; FRAME]) -> Option<([u64; 2], usize)> {
    let [low, high] = halves(frame);
    let data = with_low_bits([low, high]);
    if (low | high) & ID_FLAGS == 0 {
        return Some((data, FRAME - 1));
    }
    without_repeated_id(id, [low, high], data).map(|data| (data, FRAME - 2))
}

/// The data of a frame, with what says nothing after it, whose only ID byte is that of the current source.
#[inline]
fn without_repeated_id(id: TraceId, halves: [u64; 2], data: [u64; 2]) -> Option<[u64; 2]> {
    let (bits, data) = (joined(halves), joined(data));
    let flag = bits & joined([ID_FLAGS; 2]);
    let position = flag.trailing_zeros();
    let is_only = flag.is_power_of_two() && (bits >> position) as u8 >> 1 == id.get();
    // In the last pair, the bit of the auxiliary byte for an ID says nothing, and is counted where it is set.
    let is_stray = flag >> (8 * 14) != 0 && bits >> 127 != 0;
    let before = flag.wrapping_sub(1);
    let data = data & before | data >> 8 & !before;
    (is_only && !is_stray).then_some([data as u64, (data >> 64) as u64])
}

/// Takes frames apart. Knows the current source, which persists from frame to frame.
#[derive(Clone, Debug)]
pub(super) struct Unpacker {
    /// The current source ID, or [`UNKNOWN`].
    current: u8,
    pub(super) counts: Counts,
}

impl Unpacker {
    pub(super) const fn new() -> Self {
        Self { current: UNKNOWN, counts: Counts::new() }
    }

    /// The source that the next byte belongs to, if it is known.
    pub(super) fn source(&self) -> Option<TraceId> {
        (self.current != UNKNOWN).then(|| TraceId::new(self.current))
    }

    /// The next byte belongs to this source.
    pub(super) fn set_source(&mut self, id: Option<TraceId>) {
        self.current = id.map_or(UNKNOWN, TraceId::get);
    }

    /// The source is unknown until the next ID byte.
    pub(super) fn forget(&mut self) {
        self.current = UNKNOWN;
    }

    /// Says that the streams do not continue here.
    pub(super) fn lose(&mut self, index: u64, why: Loss, out: &mut impl FrameOutput) {
        self.forget();
        self.counts.discontinuities += 1;
        out.mark(Chunk::Discontinuity { index, why });
    }

    /// Takes apart the frame that begins at `offset`.
    #[inline(always)]
    pub(super) fn frame(&mut self, frame: &[u8; FRAME], offset: u64, out: &mut impl FrameOutput) {
        self.counts.frames += 1;
        let [low, high] = halves(frame);
        let data = with_low_bits([low, high]);
        let id = TraceId::new(self.current);
        if (low | high) & ID_FLAGS != 0 {
            self.mixed_frame(gather(low) | gather(high) << 4, frame[15], data, offset, out);
        } else if self.current < UNKNOWN && id.is_source() {
            self.counts.data[id.get() as usize] += 15;
            out.frame(id, offset, data);
        } else {
            self.special(offset, &join(data)[..15], out);
        }
    }

    /// Takes apart frames in a row, the first of which begins at `offset`, as long as they hold nothing but bytes of the
    /// current source; gives how many.
    #[inline]
    pub(super) fn frames_of_source(
        &mut self,
        frames: &[[u8; FRAME]],
        offset: u64,
        out: &mut impl FrameOutput,
    ) -> usize {
        let id = TraceId::new(self.current);
        if self.current >= UNKNOWN || !id.is_source() {
            return 0;
        }
        let (count, ids) = out.frames(id, offset, frames);
        self.counts.frames += count as u64;
        self.counts.ids += ids as u64;
        self.counts.data[id.get() as usize] += (15 * count - ids) as u64;
        count
    }

    /// A frame with ID bytes: bit `k` of `ids` says that byte `2k` is one.
    fn mixed_frame(&mut self, ids: u8, aux: u8, halves: [u64; 2], offset: u64, out: &mut impl FrameOutput) {
        self.counts.ids += u64::from(ids.count_ones());
        let mut data = [0; 2 * FRAME];
        data[..FRAME].copy_from_slice(&join(halves));
        // The run being collected: where its bytes begin, and the index of the first.
        let (mut from, mut index) = (0, offset);
        let mut rest = ids;
        while rest != 0 {
            let k = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let position = 2 * k;
            let (id, delayed) = (data[position] >> 1, aux >> k & 1 != 0);
            self.counts.stray_aux += u64::from(delayed && k == 7);
            if id == self.current {
                // Repeated: the run goes on, and the ID byte is not counted in its indices.
                self.run(index, &data, from, position, out);
                index += (position - from) as u64;
                from = position + 1;
                continue;
            }
            let mut end = position;
            if delayed && k < 7 {
                // The data byte after the ID byte still belongs to the old source.
                data[position] = data[position + 1];
                end += 1;
            }
            self.run(index, &data, from, end, out);
            (from, index) = (end + 1, offset + position as u64);
            self.current = id;
            if id == TraceId::ILLEGAL.get() {
                self.counts.illegal_ids += 1;
                self.lose(index, Loss::IllegalId, out);
            }
        }
        self.run(index, &data, from, 15, out);
    }

    /// Delivers or discards bytes `from..to` of the current source.
    #[inline]
    fn run(
        &mut self,
        index: u64,
        data: &[u8; 2 * FRAME],
        from: usize,
        to: usize,
        out: &mut impl FrameOutput,
    ) {
        if from >= to {
            return;
        }
        let id = TraceId::new(self.current);
        if self.current < UNKNOWN && id.is_source() {
            self.counts.data[id.get() as usize] += (to - from) as u64;
            out.data(id, index, data, from, to);
        } else {
            self.special(index, &data[from..to], out);
        }
    }

    /// Bytes that belong to no source.
    fn special(&mut self, index: u64, bytes: &[u8], out: &mut impl FrameOutput) {
        let length = bytes.len() as u64;
        if self.current >= UNKNOWN {
            self.counts.unknown += length;
            return;
        }
        let id = TraceId::new(self.current);
        self.counts.data[id.get() as usize] += length;
        match id {
            TraceId::NULL => {
                self.counts.nonzero_padding += bytes.iter().filter(|&&byte| byte != 0).count() as u64;
            }
            TraceId::TRIGGER => (0..length).for_each(|j| out.mark(Chunk::Trigger { index: index + j })),
            TraceId::FLUSH => (0..length).for_each(|j| out.mark(Chunk::Flush { index: index + j })),
            _ => {}
        }
    }
}

/// The halves of a frame as numbers.
#[inline(always)]
const fn halves(frame: &[u8; FRAME]) -> [u64; 2] {
    let bits = u128::from_le_bytes(*frame);
    [bits as u64, (bits >> 64) as u64]
}

/// The halves of a frame whose mixed bytes have the lowest bits that its last byte holds for them.
#[inline(always)]
const fn with_low_bits([low, high]: [u64; 2]) -> [u64; 2] {
    let aux = (high >> 56) as u8;
    [low | spread(aux), high | spread(aux >> 4)]
}

/// A frame as a number.
#[inline(always)]
const fn joined([low, high]: [u64; 2]) -> u128 {
    low as u128 | (high as u128) << 64
}

/// The bytes of a frame from its halves.
#[inline(always)]
pub(super) const fn join(halves: [u64; 2]) -> [u8; FRAME] {
    joined(halves).to_le_bytes()
}

/// Puts bits 0 to 3 of `aux` at bit 0 of the four mixed bytes of half a frame.
#[inline(always)]
const fn spread(aux: u8) -> u64 {
    // Copies of the nibble at distances of 15 bits bring bit k to 16 k.
    ((aux & 0x0F) as u64).wrapping_mul(0x0000_2000_4000_8001) & ID_FLAGS
}

/// Collects bit 0 of the four mixed bytes of half a frame in bits 0 to 3: the inverse of [`spread`].
#[inline(always)]
const fn gather(half: u64) -> u8 {
    ((half & ID_FLAGS).wrapping_mul(0x0001_0002_0004_0008) >> 48) as u8 & 0x0F
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_is_the_inverse_of_spread() {
        for nibble in 0..16 {
            assert_eq!(gather(spread(nibble)), nibble);
            assert_eq!(gather(spread(nibble) | !ID_FLAGS), nibble);
            let gathered = (0..4).filter(|k| spread(nibble) >> (16 * k) & 1 == 1).map(|k| 1 << k).sum::<u8>();
            assert_eq!(gathered, nibble);
        }
    }
}
