//! The loop over the packets of a block.

use backsight_core::Address;

use super::batch::{
    ADDRESS, CAPACITY, CYCLE_COUNT, Descriptor, HEADER_ONLY, Packed, PacketBatch, SOURCE_ADDRESS, TIMESTAMP,
};
use super::headers::{Class, Headers, has_times};
use super::lengths::{AHEAD, BLOCK, COUNT_TOO_LONG, Lengths, READ, RUN};
use super::output::{FreeSlots, OneByOne, PacketOutput};
use super::sevens::{compact, compact_count};
use super::shapes::{SHAPES, SHAPES_OF};
use crate::etm4::decode::ClearReader;
use crate::etm4::{AddressHistory, AtomRun, Is, Kind, Packet, PacketSink};

/// Bytes that are read at the start of a packet.
const WINDOW: usize = 16;
/// Fewer bytes than this are left to the clear reader.
const LEAST: usize = 2 * WINDOW;

/// What packets that the engine reads change and need: part of the state of the stream, in the shape that suits it.
#[derive(Clone, Copy, Debug)]
struct EngineState {
    /// The last addresses, the newest first, with the instruction set flag in bit 0.
    history: [u64; 3],
    timestamp: u64,
}

impl EngineState {
    fn of(reader: &ClearReader) -> Self {
        let entry = |index| {
            let (address, is) = reader.state.history.entry(index);
            address.0 | is as u64
        };
        Self { history: [entry(0), entry(1), entry(2)], timestamp: reader.state.timestamp }
    }

    fn put(self, reader: &mut ClearReader) {
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
pub(in crate::etm4) struct FastEngine {
    /// What headers introduce where most packets are longer, and where most are a header alone.
    sparse: Headers,
    dense: Headers,
    is_dense: bool,
    has_times: bool,
    threshold: u32,
    cycle_mask: u32,
    lengths: Lengths,
}

impl FastEngine {
    pub fn new(reader: &ClearReader, batch: &mut PacketBatch) -> Self {
        let engine = Self {
            sparse: Headers::new(reader, false),
            dense: Headers::new(reader, true),
            is_dense: false,
            has_times: has_times(&reader.config),
            threshold: reader.state.threshold,
            cycle_mask: reader.config.cycle_counter_mask(),
            lengths: Lengths::EMPTY,
        };
        put_header_only(reader, batch);
        engine
    }

    /// Reads packets into a batch until it is full or few bytes are left; gives how many bytes that were.
    pub fn fill(&mut self, reader: &mut ClearReader, bytes: &[u8], batch: &mut PacketBatch) -> usize {
        self.refresh(reader, batch);
        batch.clear(reader.offset);
        let mut slots = FreeSlots::of(batch);
        let used;
        (used, slots) = self.read(reader, bytes, slots);
        let (free, large) = slots.taken();
        (batch.length, batch.large_length) = (CAPACITY - free, large);
        self.decide(used, batch.length);
        used
    }

    /// Gives packets one by one until few bytes are left; gives how many bytes that were.
    pub fn give(
        &mut self,
        reader: &mut ClearReader,
        bytes: &[u8],
        batch: &mut PacketBatch,
        sink: &mut impl PacketSink,
    ) -> usize {
        self.refresh(reader, batch);
        let output = OneByOne { sink, offset: reader.offset, count: 0, header_only: &batch.header_only };
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
    fn refresh(&mut self, reader: &ClearReader, batch: &mut PacketBatch) {
        if self.threshold != reader.state.threshold {
            self.threshold = reader.state.threshold;
            put_header_only(reader, batch);
        }
    }

    /// Reads packets until there is no room for more, the threshold changes, or few bytes are left. A packet whose end
    /// is not there is left. Gives how many bytes that were.
    #[inline(always)]
    fn read<O: PacketOutput>(&mut self, reader: &mut ClearReader, bytes: &[u8], mut output: O) -> (usize, O) {
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
    fn block<O: PacketOutput>(
        &self,
        reader: &mut ClearReader,
        rest: &[u8],
        (block, end): (&[u8; READ], usize),
        mut output: O,
    ) -> (usize, bool, O) {
        let mut at = 0;
        loop {
            let (from, wide) = (at, reader.state.wide);
            let mut state = EngineState::of(reader);
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

    /// Reads packets, from one position to another in a block, until there is one for the clear reader, or no room. Gives
    /// where that was.
    #[inline(never)]
    fn packets<const DENSE: bool, O: PacketOutput>(
        &self,
        state: &mut EngineState,
        wide: bool,
        block: &[u8; READ],
        (mut at, end): (usize, usize),
        output: O,
    ) -> (usize, O) {
        // A local, so that it can be in registers.
        let mut output = output;
        let EngineState { mut history, mut timestamp } = *state;
        let Headers { headers, templates } = if DENSE { &self.dense } else { &self.sparse };
        let shapes = &SHAPES_OF[usize::from(wide)];
        let lengths = self.lengths.packet.get(..end).unwrap_or_default();
        while let Some(&length) = lengths.get(at)
            && let Some(window) = block.get(at..).and_then(<[u8]>::first_chunk::<WINDOW>)
            && output.has_room()
        {
            let header = window[0];
            let entry = headers[usize::from(header)];
            let template = &templates[usize::from(header)];
            let length = usize::from(length);
            if O::ATOM_RUNS && AtomRun::begins_with(header) {
                let run = AtomRun::leading(word(window, 0), (end - at) as u32);
                output.put_atoms(run);
                at += run.len() as usize;
            } else if DENSE && O::RUNS && entry.class.is(Class::RUN) {
                let run = usize::from(self.lengths.run[at % BLOCK]);
                output.put_run(word(window, 0).to_le_bytes(), templates, run);
                at += run;
            } else if !(DENSE && O::RUNS) && entry.class.is(Class::HEADER) {
                output.put::<HEADER_ONLY>(*template);
                at += 1;
            } else if entry.class.is(Class::ANY_ADDRESS) {
                let payload = word(window, 1);
                let longer = (payload >> 7) as u8 & entry.continues;
                let shape = &shapes[usize::from((entry.shape + longer) % SHAPES)];
                let packed = Packed { value: shape.address(payload, history), descriptor: shape.descriptor };
                history = [packed.value, history[0], history[1]];
                if entry.class.is(Class::ADDRESS) {
                    output.put::<ADDRESS>(packed);
                } else {
                    output.put::<SOURCE_ADDRESS>(packed);
                }
                at += length;
            } else if entry.class.is(Class::CYCLE_COUNT) {
                if length > COUNT_TOO_LONG {
                    break;
                }
                let fields = half_word(window, 1) & LOW[(length - 1) & 7] as u32;
                let base = (template.descriptor.0 as u32).wrapping_add(self.threshold);
                let count = base.wrapping_add(compact_count(fields) & template.value as u32);
                let rest =
                    template.descriptor.0 & !u64::from(u32::MAX) | (length as u64) << Descriptor::LENGTH;
                let descriptor = Descriptor(rest | u64::from(count));
                output.put::<CYCLE_COUNT>(Packed { value: 0, descriptor });
                at += length;
            } else if entry.class.is(Class::TIMESTAMP) {
                // Whether a count follows is as good as random: it is read in any case.
                let after = at + length;
                let count_length = usize::from(self.lengths.count[after.min(BLOCK + AHEAD - 1)]);
                let counts = usize::from(Kind::Timestamp.field(header));
                if (length > TIMESTAMP_TOO_LONG) | ((count_length >= COUNT_TOO_LONG) & (counts == 1)) {
                    break;
                }
                let bytes = length - 1;
                timestamp = timestamp & KEEP[bytes & 15] | compact(word(window, 1) & LOW[bytes & 15]);
                let fields = half_word(window, length) & LOW[count_length & 7] as u32;
                let count = u64::from(compact_count(fields) & self.cycle_mask);
                let if_counts = 0usize.wrapping_sub(counts);
                let all = length + (count_length & if_counts);
                let descriptor = Descriptor::new(TIMESTAMP, 0, 0).0
                    | count & if_counts as u64
                    | (all as u64) << Descriptor::LENGTH
                    | (bytes as u64) << Descriptor::DETAIL
                    | (counts as u64) << Descriptor::COUNTS;
                output.put::<TIMESTAMP>(Packed { value: timestamp, descriptor: Descriptor(descriptor) });
                at += all;
            } else if entry.class.is(Class::SINGLE) {
                output.put::<HEADER_ONLY>(*template);
                at += 1;
            } else {
                break;
            }
        }
        *state = EngineState { history, timestamp };
        (at, output)
    }
}

/// Gives a batch the packets that are a header alone.
fn put_header_only(reader: &ClearReader, batch: &mut PacketBatch) {
    for (to, from) in batch.header_only.iter_mut().zip(reader.header_only) {
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
