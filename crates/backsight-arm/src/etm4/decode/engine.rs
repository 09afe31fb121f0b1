//! The fast engine: common packets, in blocks.
//!
//! Reading packet after packet is slow because each step waits for the one before: what is this header, how long is
//! the packet, where does the next one begin? The engine takes the waiting out. The lengths of all packets that
//! may begin in a block are worked out beforehand ([`super::lengths`]); addresses of all forms, cycle counts of all
//! formats and timestamps of all lengths are each read by the same arithmetic, without branches that depend on the
//! data; and where headers alone make up most of the stream, up to eight of them are taken at a time.
//!
//! It stops at anything uncommon or wrong, which the clear reader then takes.

use backsight_core::{Address, Located};

use super::super::{AddressHistory, Is, Packet};
use super::batch::{
    ADDRESS, Batch, CAPACITY, CYCLE_COUNT, Meaning, Packed, SOURCE_ADDRESS, TIMESTAMP, WHOLE,
};
use super::lengths::{AHEAD, BLOCK, COUNT_TOO_LONG, Lengths, READ, RUN};
use super::output::{OneByOne, Output, Places};
use super::reader::Reader;
use super::rows::{Class, Rows, SHAPES, SHAPES_OF, has_times};

/// Bytes that are read at the start of a packet.
const WINDOW: usize = 16;
/// Fewer bytes than this are left to the clear reader.
const LEAST: usize = 2 * WINDOW;

/// What packets that the engine reads change and need.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The last addresses, the newest first, with the instruction set flag in bit 0.
    history: [u64; 3],
    timestamp: u64,
}

impl State {
    fn of(reader: &Reader) -> Self {
        let entry = |index| {
            let (address, is) = reader.state.history.entry(index);
            address.0 | is as u64
        };
        Self { history: [entry(0), entry(1), entry(2)], timestamp: reader.state.timestamp }
    }

    fn put(self, reader: &mut Reader) {
        let mut history = AddressHistory::EMPTY;
        for entry in self.history.into_iter().rev() {
            history.push(Address(entry & !1), if entry & 1 == 0 { Is::Is0 } else { Is::Is1 });
        }
        reader.state.history = history;
        reader.state.timestamp = self.timestamp;
    }
}

/// The tables of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    /// What headers say where most packets are longer, and where most are a header alone.
    sparse: Rows,
    dense: Rows,
    is_dense: bool,
    has_times: bool,
    threshold: u32,
    cycle_mask: u32,
    lengths: Lengths,
}

impl Engine {
    pub fn new(reader: &Reader, batch: &mut Batch) -> Self {
        let engine = Self {
            sparse: Rows::new(reader, false),
            dense: Rows::new(reader, true),
            is_dense: false,
            has_times: has_times(&reader.config),
            threshold: reader.state.threshold,
            cycle_mask: reader.cycle_mask,
            lengths: Lengths::EMPTY,
        };
        put_whole(reader, batch);
        engine
    }

    /// Reads packets into a batch until it is full or few bytes are left; gives how many bytes that were.
    pub fn fill(&mut self, reader: &mut Reader, bytes: &[u8], batch: &mut Batch) -> usize {
        self.refresh(reader, batch);
        batch.clear(reader.offset);
        let mut places = Places::of(batch);
        let used;
        (used, places) = self.read(reader, bytes, places);
        let (free, large) = places.taken();
        (batch.length, batch.large_length) = (CAPACITY - free, large);
        self.decide(used, batch.length);
        used
    }

    /// Gives packets one by one until few bytes are left; gives how many bytes that were.
    pub fn give(
        &mut self,
        reader: &mut Reader,
        bytes: &[u8],
        batch: &mut Batch,
        sink: &mut impl FnMut(Located<Packet>),
    ) -> usize {
        self.refresh(reader, batch);
        let output = OneByOne { sink, offset: reader.offset, count: 0, whole: &batch.whole };
        let (used, output) = self.read(reader, bytes, output);
        self.decide(used, output.count);
        used
    }

    /// How to go on, after packets of so many bytes.
    fn decide(&mut self, bytes: usize, packets: usize) {
        if packets > RUN * RUN {
            self.is_dense = bytes * 5 < packets * 8;
        }
    }

    /// Adapts what depends on the threshold.
    fn refresh(&mut self, reader: &Reader, batch: &mut Batch) {
        if self.threshold != reader.state.threshold {
            self.threshold = reader.state.threshold;
            put_whole(reader, batch);
        }
    }

    /// Reads packets until there is no room for more, the threshold changes, or few bytes are left. A packet whose end
    /// is not there is left. Gives how many bytes that were.
    #[inline(always)]
    fn read<O: Output>(&mut self, reader: &mut Reader, bytes: &[u8], mut output: O) -> (usize, O) {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| rest.len() >= LEAST) {
            let mut padded = [0; READ];
            let (block, end) = match rest.first_chunk::<READ>() {
                Some(block) => (block, BLOCK),
                // Packets begin where all of them is there.
                None => {
                    let length = rest.len().min(READ);
                    if let (Some(to), Some(from)) = (padded.get_mut(..length), rest.get(..length)) {
                        to.copy_from_slice(from);
                    }
                    (&padded, BLOCK.min(length - WINDOW + 1))
                }
            };
            if self.has_times {
                self.lengths.timed(block);
            } else {
                self.lengths.addresses(block);
            }
            if O::RUNS && self.is_dense {
                self.lengths.runs(block);
            }
            let (taken, goes_on);
            (taken, goes_on, output) = self.block(reader, rest, (block, end), output);
            used += taken;
            if !goes_on {
                break;
            }
        }
        (used, output)
    }

    /// Reads the packets that begin before `end` in a block, whose bytes are the first of `rest`. Gives how many bytes
    /// those have, and whether the output may take more.
    #[inline(always)]
    fn block<O: Output>(
        &self,
        reader: &mut Reader,
        rest: &[u8],
        (block, end): (&[u8; READ], usize),
        mut output: O,
    ) -> (usize, bool, O) {
        let mut at = 0;
        loop {
            let (from, wide) = (at, reader.state.wide);
            let mut state = State::of(reader);
            (at, output) = if self.is_dense {
                self.packets::<true, O>(&mut state, wide, block, (at, end), output)
            } else {
                self.packets::<false, O>(&mut state, wide, block, (at, end), output)
            };
            state.put(reader);
            reader.offset += (at - from) as u64;
            reader.accounting.decoded += (at - from) as u64;
            if at >= end || !output.has_room() || !output.has_room_for_any() {
                return (at, at >= end, output);
            }
            let Some(packet) = reader.read(rest.get(at..).unwrap_or_default()) else {
                return (at, false, output);
            };
            output.put_any(packet);
            at += packet.length as usize;
            // The packets that stand for headers have the threshold in them.
            let goes_on = reader.state.threshold == self.threshold;
            if !goes_on || at >= end {
                return (at, goes_on, output);
            }
        }
    }

    /// Reads packets, from one place to another in a block, until there is one for the clear reader, or no room. Gives
    /// where that was.
    #[inline(never)]
    fn packets<const DENSE: bool, O: Output>(
        &self,
        state: &mut State,
        wide: bool,
        block: &[u8; READ],
        (mut at, end): (usize, usize),
        output: O,
    ) -> (usize, O) {
        // A local, so that it can be in registers.
        let mut output = output;
        let State { mut history, mut timestamp } = *state;
        let Rows { rows, templates } = if DENSE { &self.dense } else { &self.sparse };
        let shapes = &SHAPES_OF[usize::from(wide)];
        let lengths = self.lengths.packet.get(..end).unwrap_or_default();
        while let Some(&length) = lengths.get(at)
            && let Some(window) = block.get(at..).and_then(<[u8]>::first_chunk::<WINDOW>)
            && output.has_room()
        {
            let header = window[0];
            let row = rows[usize::from(header)];
            let template = &templates[usize::from(header)];
            let length = usize::from(length);
            if DENSE && O::RUNS && row.class.is(Class::RUN) {
                let run = usize::from(self.lengths.run[at % BLOCK]);
                output.put_run(word(window, 0).to_le_bytes(), templates, run);
                at += run;
            } else if !(DENSE && O::RUNS) && row.class.is(Class::HEADER) {
                output.put::<WHOLE>(*template);
                at += 1;
            } else if row.class.is(Class::ANY_ADDRESS) {
                let payload = word(window, 1);
                let longer = (payload >> 7) as u8 & row.continues;
                let shape = &shapes[usize::from((row.shape + longer) % SHAPES)];
                let packed = Packed { value: shape.address(payload, history), meaning: shape.meaning };
                history = [packed.value, history[0], history[1]];
                if row.class.is(Class::ADDRESS) {
                    output.put::<ADDRESS>(packed);
                } else {
                    output.put::<SOURCE_ADDRESS>(packed);
                }
                at += length;
            } else if row.class.is(Class::CYCLE_COUNT) {
                if length > COUNT_TOO_LONG {
                    break;
                }
                let fields = half_word(window, 1) & LOW[(length - 1) & 7] as u32;
                let base = (template.meaning.0 as u32).wrapping_add(self.threshold);
                let count = base.wrapping_add(compact_count(fields) & template.value as u32);
                let rest = template.meaning.0 & !u64::from(u32::MAX) | (length as u64) << Meaning::LENGTH;
                let meaning = Meaning(rest | u64::from(count));
                output.put::<CYCLE_COUNT>(Packed { value: 0, meaning });
                at += length;
            } else if row.class.is(Class::TIMESTAMP) {
                // Whether a count follows is as good as random: it is read in any case.
                let behind = at + length;
                let count_length = usize::from(self.lengths.count[behind.min(BLOCK + AHEAD - 1)]);
                let counts = usize::from(header & 1);
                if (length > TIMESTAMP_TOO_LONG) | ((count_length >= COUNT_TOO_LONG) & (counts == 1)) {
                    break;
                }
                let bytes = length - 1;
                timestamp = timestamp & KEEP[bytes & 15] | compact(word(window, 1) & LOW[bytes & 15]);
                let fields = half_word(window, length) & LOW[count_length & 7] as u32;
                let count = u64::from(compact_count(fields) & self.cycle_mask);
                let if_counts = 0usize.wrapping_sub(counts);
                let all = length + (count_length & if_counts);
                let meaning = Meaning::new(TIMESTAMP, 0, 0).0
                    | count & if_counts as u64
                    | (all as u64) << Meaning::LENGTH
                    | (bytes as u64) << Meaning::DETAIL
                    | (counts as u64) << Meaning::COUNTS;
                output.put::<TIMESTAMP>(Packed { value: timestamp, meaning: Meaning(meaning) });
                at += all;
            } else if row.class.is(Class::SINGLE) {
                output.put::<WHOLE>(*template);
                at += 1;
            } else {
                break;
            }
        }
        *state = State { history, timestamp };
        (at, output)
    }
}

/// Gives a batch the packets that are all in their header.
fn put_whole(reader: &Reader, batch: &mut Batch) {
    for (to, from) in batch.whole.iter_mut().zip(reader.whole) {
        *to = from.unwrap_or(Packet::Ignore);
    }
}

/// A timestamp whose ninth byte has eight bits is uncommon.
const TIMESTAMP_TOO_LONG: usize = 9;

/// The lowest so many bytes, of eight.
const LOW: [u64; 16] = {
    let mut masks = [!0; 16];
    let mut bytes = 0;
    while bytes < 8 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

/// What a timestamp of so many bytes keeps of the last one.
const KEEP: [u64; 16] = {
    let mut masks = [0; 16];
    let mut bytes = 0;
    while bytes < 9 {
        masks[bytes] = !0 << (7 * bytes);
        bytes += 1;
    }
    masks
};

/// Four bytes as a number.
#[inline(always)]
fn half_word(window: &[u8; WINDOW], at: usize) -> u32 {
    window.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Eight bytes as a number.
#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    window.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Puts the low seven bits of each of three bytes together.
#[inline(always)]
const fn compact_count(bytes: u32) -> u32 {
    bytes & 0x7F | bytes >> 1 & 0x7F << 7 | bytes >> 2 & 0x7F << 14
}

/// Puts the low seven bits of each of eight bytes together.
#[inline(always)]
const fn compact(bytes: u64) -> u64 {
    let bits = bytes & 0x7F7F_7F7F_7F7F_7F7F;
    let pairs = bits & 0x007F_007F_007F_007F | bits >> 1 & 0x3F80_3F80_3F80_3F80;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | pairs >> 2 & 0x0FFF_C000_0FFF_C000;
    fours & 0x0FFF_FFFF | fours >> 4 & 0x00FF_FFFF_F000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_puts_seven_bits_of_each_byte_together() {
        for index in 0..8 {
            for bit in 0..7 {
                assert_eq!(compact(1 << (8 * index + bit)), 1 << (7 * index + bit));
            }
        }
        assert_eq!(compact(u64::MAX), (1 << 56) - 1);
        assert_eq!(compact_count(0xFF_FFFF), (1 << 21) - 1);
        assert_eq!(compact_count(0x01_0102), 1 << 14 | 1 << 7 | 2);
    }
}
