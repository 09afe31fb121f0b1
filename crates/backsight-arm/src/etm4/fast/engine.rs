//! The loop over the packets that have a value.

use backsight_core::Address;
use backsight_simd::{InstructionSet, Task};

use super::batch::{Arrays, COUNT_LENGTH, PacketBatch, ROOM};
use super::forms::{FORMS, Forms, TIMESTAMP};
use super::lanes::{COUNTS_ONLY, Lanes, NO_TIMES, READ, REGION, RUN, WITH_TIMESTAMPS};
use super::sevens::{compact, compact_count};
use crate::etm4::decode::ClearReader;
use crate::etm4::{AddressHistory, Is};

/// Fewer bytes than this are left to the clear reader.
const LEAST: usize = 64;
/// Bytes that must be there from where the engine begins a step: those of a run, and of the longest packet with a value.
const STEP: usize = RUN + 16;

/// What packets that the engine reads change and need: part of the state of the stream, in the shape that suits it.
#[derive(Clone, Debug)]
struct EngineState {
    /// All addresses of a walk, oldest first, after the history that was there before, each with its instruction set flag
    /// in bit 0.
    addresses: [u64; ADDRESSES],
    /// How many they are.
    length: usize,
    timestamp: u64,
}

/// Entries of the address history.
const HISTORY: usize = 3;
/// A power of two, and more than the history and the addresses of a region.
const ADDRESSES: usize = 2 * REGION;

impl EngineState {
    fn take(&mut self, reader: &ClearReader) {
        for (entry, index) in self.addresses.iter_mut().zip((0..HISTORY).rev()) {
            let (address, is) = reader.state.history.entry(index as u8);
            *entry = address.0 | is as u64;
        }
        (self.length, self.timestamp) = (HISTORY, reader.state.timestamp);
    }

    fn put(&self, reader: &mut ClearReader) {
        let mut history = AddressHistory::EMPTY;
        for entry in self.length - HISTORY..self.length {
            let entry = self.addresses[entry % ADDRESSES];
            history.push(Address(entry & !1), if entry & 1 == 0 { Is::Is0 } else { Is::Is1 });
        }
        reader.state.history = history;
        reader.state.timestamp = self.timestamp;
    }
}

/// The tables of a configuration, and the lanes of the region at hand.
#[derive(Clone, Debug)]
pub(in crate::etm4) struct FastEngine {
    pub instruction_set: InstructionSet,
    common: Common,
    threshold: u32,
    cycle_mask: u32,
    forms: Forms,
    lanes: Lanes,
    state: EngineState,
}

/// Which packets with a value are common in a configuration, beside addresses.
#[derive(Clone, Copy, Debug)]
struct Common {
    sources: bool,
    timestamps: bool,
    cycle_counts: bool,
    /// Cycle counts are those of commit mode 1, of one field.
    counts: bool,
}

impl FastEngine {
    pub fn new(reader: &ClearReader, batch: &mut PacketBatch) -> Self {
        let config = &reader.config;
        let common = Common {
            sources: config.is_ete(),
            timestamps: config.timestamps(),
            cycle_counts: config.cycle_counting(),
            counts: config.commit_mode1(),
        };
        batch.put_header_only(reader);
        Self {
            instruction_set: InstructionSet::best(),
            common,
            threshold: reader.state.threshold,
            cycle_mask: config.cycle_counter_mask(),
            forms: Forms::new(),
            lanes: Lanes::EMPTY,
            state: EngineState { addresses: [0; ADDRESSES], length: HISTORY, timestamp: 0 },
        }
    }

    /// Reads packets into a batch until it is full, the threshold changes, or few bytes are left; gives how many bytes
    /// that were. A packet whose end is not there is left.
    pub fn fill(&mut self, reader: &mut ClearReader, bytes: &[u8], batch: &mut PacketBatch) -> usize {
        // The packets that stand for headers have the threshold in them.
        if self.threshold != reader.state.threshold {
            self.threshold = reader.state.threshold;
            batch.put_header_only(reader);
        }
        batch.clear(reader.offset);
        let mut used = 0;
        while batch.has_room_for(ROOM)
            && reader.state.threshold == self.threshold
            && let Some(rest) = bytes.get(used..).filter(|rest| rest.len() >= LEAST)
        {
            let taken = self.region(reader, rest, batch);
            if taken == 0 {
                break;
            }
            used += taken;
        }
        used
    }

    /// Reads the packets that begin in the first bytes; gives how many bytes those have.
    fn region(&mut self, reader: &mut ClearReader, rest: &[u8], batch: &mut PacketBatch) -> usize {
        match rest.first_chunk::<READ>() {
            Some(block) => self.block(reader, rest, (block, REGION), batch),
            None => {
                let mut padded = [0; READ];
                padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                let end = REGION.min(rest.len().saturating_sub(STEP));
                self.block(reader, rest, (&padded, end), batch)
            }
        }
    }

    /// The same for a block, whose bytes are the first of `rest`. Steps begin before `end`.
    fn block(
        &mut self,
        reader: &mut ClearReader,
        rest: &[u8],
        (block, end): (&[u8; READ], usize),
        batch: &mut PacketBatch,
    ) -> usize {
        let mut is_worked_out = false;
        let mut at = 0;
        while at < end {
            self.forms.renew(reader.state.wide, reader.state.threshold);
            let from = at;
            self.state.take(reader);
            let (set, arrays) = (self.instruction_set, &mut batch.arrays);
            at = backsight_simd::run(set, Walk { engine: self, is_worked_out, block, end, at, arrays });
            is_worked_out = true;
            self.state.put(reader);
            reader.offset += (at - from) as u64;
            reader.accounting.decoded += (at - from) as u64;
            if at >= end || !batch.has_room() {
                break;
            }
            let rest = rest.get(at..).unwrap_or_default();
            let Some(packet) = reader.read(rest) else { break };
            match rest.first() {
                Some(&header) if reader.header_only[usize::from(header)].is_some() => {
                    batch.push_alone(header)
                }
                _ => batch.push(packet),
            }
            at += packet.length as usize;
            if reader.state.threshold != self.threshold {
                break;
            }
        }
        at
    }
}

/// Goes from packet to packet in a region, until there is one for the clear reader. Gives where that is.
struct Walk<'a> {
    engine: &'a mut FastEngine,
    /// Are the lanes of the region worked out?
    is_worked_out: bool,
    block: &'a [u8; READ],
    /// Steps begin before this.
    end: usize,
    at: usize,
    arrays: &'a mut Arrays,
}

impl Task for Walk<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self { engine, is_worked_out, block, end, at, arrays } = self;
        let Common { sources, timestamps, cycle_counts, counts } = engine.common;
        let is_timed = timestamps || cycle_counts;
        let lanes = &mut engine.lanes;
        match (sources, timestamps) {
            _ if is_worked_out => {}
            (false, true) => lanes.work_out::<false, WITH_TIMESTAMPS>(block, counts),
            (true, true) => lanes.work_out::<true, WITH_TIMESTAMPS>(block, counts),
            (false, _) if is_timed => lanes.work_out::<false, COUNTS_ONLY>(block, counts),
            (true, _) if is_timed => lanes.work_out::<true, COUNTS_ONLY>(block, counts),
            (false, _) => lanes.work_out::<false, NO_TIMES>(block, counts),
            (true, _) => lanes.work_out::<true, NO_TIMES>(block, counts),
        }
        if is_timed {
            engine.packets::<true>((block, end), at, arrays)
        } else {
            engine.packets::<false>((block, end), at, arrays)
        }
    }
}

impl FastEngine {
    /// Reads packets from a position of a region on; gives where it stops.
    #[inline(always)]
    fn packets<const TIMED: bool>(
        &mut self,
        (block, end): (&[u8; READ], usize),
        mut at: usize,
        arrays: &mut Arrays,
    ) -> usize {
        let Self { lanes, forms, cycle_mask, state, .. } = self;
        let (mut known, mut timestamp) = (state.length, state.timestamp);
        let addresses = &mut state.addresses;
        let (mut count, mut valued) = (arrays.length, arrays.values_length);
        let Arrays { headers, values, forms: forms_out, counts, .. } = arrays;
        let end = REGION.min(end);
        while at < end {
            let (to, over) = (usize::from(lanes.to[at]), usize::from(lanes.over[at]));
            // Whatever they are: those that are no headers are written over.
            if let (Some(out), Some(from)) = (run_mut(headers, count), run(block, at)) {
                *out = *from;
            }
            let special = at + to;
            if over == to {
                count += to;
                at = special;
                if to < RUN {
                    break;
                }
                continue;
            }
            let form = lanes.form[special];
            let payload = word(block, special + 1);
            let value;
            if TIMED && form >= TIMESTAMP {
                let time = &forms.times[usize::from(form) % FORMS];
                let bits = compact(payload & time.bits).wrapping_add(time.add.into());
                value = bits | timestamp & time.keep;
                timestamp = core::hint::select_unpredictable(time.is_timestamp, value, timestamp);
                // Whether a count follows is as good as random: it is read in any case.
                let stamp = usize::from(time.bytes & 0xF);
                let bytes = (over - to - 1).wrapping_sub(stamp) & 3;
                let field = word(block, special + 1 + stamp) & LOW[bytes];
                if let Some(count_out) = counts.get_mut(valued) {
                    *count_out = compact_count(field as u32) & *cycle_mask | (bytes as u32) << COUNT_LENGTH;
                }
            } else {
                let bits = &forms.addresses[usize::from(form) % FORMS];
                let entry = addresses[known.wrapping_sub(bits.entry.into()) % ADDRESSES];
                value = bits.address(payload, entry);
                addresses[known % ADDRESSES] = value;
                known += 1;
            }
            if let (Some(value_out), Some(form_out)) = (values.get_mut(valued), forms_out.get_mut(valued)) {
                (*value_out, *form_out) = (value, form);
            }
            valued += 1;
            count += to + 1;
            at += over;
        }
        (state.length, state.timestamp) = (known, timestamp);
        (arrays.length, arrays.values_length) = (count, valued);
        at
    }
}

/// As many bytes as are passed over at a time.
#[inline(always)]
fn run(bytes: &[u8], at: usize) -> Option<&[u8; RUN]> {
    bytes.get(at..)?.first_chunk()
}

/// The same, to write to.
#[inline(always)]
fn run_mut(bytes: &mut [u8], at: usize) -> Option<&mut [u8; RUN]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// The lowest so many bytes, of eight.
const LOW: [u64; 4] = [0, 0xFF, 0xFFFF, 0xFF_FFFF];

/// Eight bytes as a number.
#[inline(always)]
fn word(block: &[u8; READ], at: usize) -> u64 {
    block.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
