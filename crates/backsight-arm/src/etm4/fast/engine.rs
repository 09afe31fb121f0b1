//! The loop over the packets that have a value.

use backsight_core::Address;
use backsight_simd::{InstructionSet, Instructions, Task};

use super::batch::{Arrays, CAPACITY, PacketBatch, ROOM};
use super::forms::{COUNT_BYTES, Forms, SLOTS, Slots, TIMESTAMP_BYTES, timestamp};
use super::headers::{Headers, TIMESTAMPS, WITH_CYCLES};
use super::lanes::{Lanes, READ, REGION, RUN, Times};
use crate::etm4::decode::ClearReader;
use crate::etm4::{AddressHistory, Is};

/// Fewer bytes than this are left to the clear reader.
const LEAST: usize = 64;
/// How far ahead bytes are asked for. A processor finds out by itself that they are read one after the other, but begins again
/// with each page.
const AHEAD: usize = 2048;
/// Bytes that must be there from where the engine begins a step: those of a run, and of the longest packet with a value.
const STEP: usize = RUN + 16;

/// Timestamps in a region that are few: to find each by itself is faster than to look for them everywhere.
const FEW: usize = 8;
/// Regions in which they are looked for everywhere after one with more.
const STAMPED_REGIONS: u32 = 256;

/// What packets that the engine reads change and need: part of the state of the stream, in the shape that suits it.
#[derive(Clone, Debug)]
struct EngineState {
    /// The last values, each kind in its slots; addresses with their instruction set flag in bit 0.
    values: [u64; SLOTS],
    /// The number of the next address, which says which slot is its own.
    next: usize,
}

/// Entries of the address history.
const HISTORY: usize = 3;

impl EngineState {
    /// Takes over the state of a stream; the next address has this number.
    fn take(&mut self, reader: &ClearReader, next: usize) {
        for index in 0..HISTORY {
            let (address, is) = reader.state.history.entry(index as u8);
            self.values[Slots::ADDRESSES.slot(next.wrapping_sub(1 + index))] = address.0 | is as u64;
        }
        self.next = next;
        self.values[Slots::TIMESTAMP.slot(0)] = reader.state.timestamp;
    }

    fn put(&self, reader: &mut ClearReader) {
        let mut history = AddressHistory::EMPTY;
        for back in (1..=HISTORY).rev() {
            let entry = self.values[Slots::ADDRESSES.slot(self.next.wrapping_sub(back))];
            history.push(Address(entry & !1), if entry & 1 == 0 { Is::Is0 } else { Is::Is1 });
        }
        reader.state.history = history;
        reader.state.timestamp = self.values[Slots::TIMESTAMP.slot(0)];
    }
}

/// The tables of a configuration, and the lanes of the region at hand.
#[derive(Clone, Debug)]
pub(in crate::etm4) struct FastEngine {
    pub instruction_set: InstructionSet,
    times: Times,
    threshold: u32,
    forms: Forms,
    headers: Headers,
    /// Where there are timestamps and no cycle counts: as if there were none, for regions with few of them.
    without_times: Option<Headers>,
    /// Regions to come in which timestamps are not few.
    stamped: u32,
    lanes: Lanes,
    state: EngineState,
}

impl FastEngine {
    pub fn new(reader: &ClearReader, batch: &mut PacketBatch) -> Self {
        let config = &reader.config;
        let times = match (config.timestamps(), config.cycle_counting()) {
            (true, _) => Times::CountsAndTimestamps,
            (false, true) => Times::Counts,
            (false, false) => Times::None,
        };
        batch.put_header_only(reader);
        let only_stamps = config.timestamps() && !config.cycle_counting();
        let without_times =
            only_stamps.then(|| Headers::new(config.is_ete(), config.commit_mode1(), Times::None));
        Self {
            instruction_set: InstructionSet::best(),
            times,
            threshold: reader.state.threshold,
            forms: Forms::new(config.cycle_counter_mask()),
            headers: Headers::new(config.is_ete(), config.commit_mode1(), times),
            without_times,
            stamped: 0,
            lanes: Lanes::EMPTY,
            state: EngineState { values: [0; SLOTS], next: 0 },
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
        batch.end();
        used
    }

    /// Reads the packets that begin in the first bytes; gives how many bytes those have.
    fn region(&mut self, reader: &mut ClearReader, rest: &[u8], batch: &mut PacketBatch) -> usize {
        backsight_simd::prefetch(rest.get(AHEAD..AHEAD + REGION).unwrap_or_default());
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
        let has_few = self.without_times.is_some() && self.stamped == 0;
        let mut stamps = 0;
        let mut at = 0;
        while at < end {
            self.forms.renew(reader.state.wide, reader.state.threshold);
            let from = at;
            self.state.take(reader, batch.arrays.values_length);
            let (set, arrays) = (self.instruction_set, &mut batch.arrays);
            let stamps = has_few.then_some(&mut stamps);
            at = backsight_simd::run(
                set,
                Walk { engine: self, is_worked_out, stamps, block, end, at, arrays },
            );
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
        self.stamped = if stamps > FEW { STAMPED_REGIONS } else { self.stamped.saturating_sub(1) };
        at
    }
}

/// Goes from packet to packet in a region, until there is one for the clear reader. Gives where that is.
struct Walk<'a> {
    engine: &'a mut FastEngine,
    /// Are the lanes of the region worked out?
    is_worked_out: bool,
    /// Counts the timestamps, where they are few.
    stamps: Option<&'a mut usize>,
    block: &'a [u8; READ],
    /// Steps begin before this.
    end: usize,
    at: usize,
    arrays: &'a mut Arrays,
}

impl Task for Walk<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<I: Instructions>(self) -> usize {
        let Self { engine, is_worked_out, stamps, block, end, at, arrays } = self;
        if !is_worked_out {
            match &engine.without_times {
                Some(headers) if stamps.is_some() => {
                    engine.lanes.work_out::<I>(block, headers, Times::None);
                }
                _ => engine.lanes.work_out::<I>(block, &engine.headers, engine.times),
            }
        }
        let mut none = 0;
        match (engine.times, stamps) {
            (_, Some(stamps)) => engine.packets::<I, false, false, true>((block, end), at, arrays, stamps),
            (Times::None, _) => engine.packets::<I, false, false, false>((block, end), at, arrays, &mut none),
            (Times::Counts, _) => {
                engine.packets::<I, true, false, false>((block, end), at, arrays, &mut none)
            }
            (Times::CountsAndTimestamps, _) => {
                engine.packets::<I, true, true, false>((block, end), at, arrays, &mut none)
            }
        }
    }
}

impl FastEngine {
    /// Reads packets from a position of a region on; gives where it stops.
    #[inline(always)]
    fn packets<I: Instructions, const TIMED: bool, const STAMPS: bool, const FEW_STAMPS: bool>(
        &mut self,
        (block, end): (&[u8; READ], usize),
        mut at: usize,
        arrays: &mut Arrays,
        stamps: &mut usize,
    ) -> usize {
        let Self { lanes, forms, state, .. } = self;
        let mut next = state.next;
        let before = &mut state.values;
        let (mut count, mut valued) = (arrays.length, arrays.values_length);
        let Arrays { headers, values, forms: forms_out, counts, .. } = arrays;
        let end = REGION.min(end);
        // There is room for all values of a region: the compiler is to know it, too.
        while at < end && valued < CAPACITY {
            let (to, over) = (usize::from(lanes.to[at]), usize::from(lanes.over[at]));
            // Whatever they are: those that are no headers are written over.
            if let (Some(out), Some(from)) = (run_mut(headers, count), run(block, at)) {
                *out = *from;
            }
            let special = at + to;
            count += to;
            if over == to {
                at = special;
                if to == RUN {
                    continue;
                }
                // Where timestamps are few, one may be here; else it is a packet for the clear reader.
                if FEW_STAMPS && let Some((form, length)) = stamp(block, at) {
                    let field = word(block, at + 1 + usize::from(forms.bits(form).bytes));
                    counts[valued] = forms.count::<I>(form, field);
                    let slot = Slots::TIMESTAMP.slot(0);
                    let value = forms.value::<I, true>(form, word(block, at + 1), before[slot]);
                    before[slot] = value;
                    (values[valued], forms_out[valued]) = (value, form);
                    // Addresses have the numbers of all values: those before it get the next ones.
                    for back in 0..HISTORY {
                        let number = valued.wrapping_sub(back);
                        before[Slots::ADDRESSES.slot(number)] =
                            before[Slots::ADDRESSES.slot(number.wrapping_sub(1))];
                    }
                    (count, valued, at) = (count + 1, valued + 1, at + length);
                    *stamps += 1;
                    continue;
                }
                break;
            }
            count += 1;
            at += over;
            let form = lanes.form[special];
            let bits = forms.bits(form);
            forms_out[valued] = form;
            if STAMPS && let Some(out) = counts.get_mut(valued) {
                // Whether a count follows is as good as random: it is read in any case.
                let field = word(block, special + 1 + usize::from(bits.bytes));
                *out = forms.count::<I>(form, field);
            }
            // Where all values are addresses, those have their numbers.
            let (slots, number) = if TIMED { (bits.slots, next) } else { (Slots::ADDRESSES, valued) };
            let entry = before[slots.slot(number.wrapping_sub(bits.entry.into()))];
            let value = forms.value::<I, TIMED>(form, word(block, special + 1), entry);
            before[slots.slot(number)] = value;
            next += bits.addresses();
            values[valued] = value;
            valued += 1;
        }
        state.next = if TIMED { next } else { valued };
        (arrays.length, arrays.values_length) = (count, valued);
        at
    }
}

/// The form and the length of the timestamp there; `None` if there is none, or a longer one than is read here.
#[inline(never)]
fn stamp(block: &[u8; READ], at: usize) -> Option<(u8, usize)> {
    let header = *block.get(at).filter(|&&header| TIMESTAMPS.contains(header))?;
    let field = |at, most| {
        let last = !word(block, at) & 0x8080_8080_8080_8080;
        let bytes = last.trailing_zeros() as u8 / 8 + 1;
        (bytes <= most).then_some(bytes)
    };
    let bytes = field(at + 1, TIMESTAMP_BYTES)?;
    let beside = match WITH_CYCLES.contains(header) {
        true => field(at + 1 + usize::from(bytes), COUNT_BYTES)?,
        false => 0,
    };
    Some((timestamp(bytes, beside), usize::from(1 + bytes + beside)))
}

/// As many bytes as are passed over at a time, and the header after them.
#[inline(always)]
fn run(bytes: &[u8], at: usize) -> Option<&[u8; RUN + 1]> {
    bytes.get(at..)?.first_chunk()
}

/// The same, to write to.
#[inline(always)]
fn run_mut(bytes: &mut [u8], at: usize) -> Option<&mut [u8; RUN + 1]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Eight bytes as a number.
#[inline(always)]
fn word(block: &[u8; READ], at: usize) -> u64 {
    block.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
