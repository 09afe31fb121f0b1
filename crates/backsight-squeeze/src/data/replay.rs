//! Replay of a whole program from its load values alone.
//!
//! A debugger that has the program, its first registers, the values its loads bring and what enters from outside can
//! execute it again: control flow, addresses and stored values follow. Loads are compressed with a cache that both sides
//! keep; results of system calls and readings of the clock are sent as they are.

use super::addresses::op_of;
use super::values::{ValueCache, ValueCompressor, ValueDecompressor};
use crate::notes::{Cursor, put_number};
use backsight_core::Execution;
use backsight_sim::decode::Kind;
use backsight_sim::{Elf, Exit, Hart, Inputs, Replay};

/// What a run is replayed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The cache that both sides keep.
    pub cache: ValueCache,
    /// Instructions of the run.
    pub instructions: u64,
    /// Load values.
    pub loads: Vec<u8>,
    /// Their number of bits.
    pub load_bits: u64,
    /// What entered from outside.
    pub outside: Vec<u8>,
}

/// Makes a recording from a run with its accesses, and the values that [`backsight_sim::Simulator::record`] gives for
/// the same run.
pub struct RecordingWriter<I> {
    values: I,
    compressor: ValueCompressor,
    recording: Recording,
}

/// The time register.
const TIME: u32 = 0xC01;

impl<I: Iterator<Item = u64>> RecordingWriter<I> {
    /// With this cache; `values` are all that entered the program, in order.
    pub fn new(cache: ValueCache, values: I) -> Self {
        let recording =
            Recording { cache, instructions: 0, loads: Vec::new(), load_bits: 0, outside: Vec::new() };
        Self { values, compressor: ValueCompressor::new(cache), recording }
    }

    /// Takes an item of the run.
    pub fn push(&mut self, item: &Execution) {
        match item {
            Execution::Instruction(retired) => {
                self.recording.instructions += 1;
                let kind = op_of(retired).kind;
                let from_outside = kind == Kind::Ecall || kind == Kind::Csr && retired.opcode >> 20 == TIME;
                // A program that ends itself gets no result.
                if let Some(value) = from_outside.then(|| self.values.next()).flatten() {
                    put_number(&mut self.recording.outside, value);
                }
            }
            Execution::Access(access) if access.store => {
                self.compressor.store(access.address.0, access.size, access.value);
            }
            Execution::Access(access) => {
                // It is in the list of all values too.
                self.values.next();
                self.compressor.load(access.address.0, access.size, access.value);
            }
            _ => {}
        }
    }

    /// The recording, and how many bits the loads had.
    pub fn finish(mut self) -> (Recording, u64) {
        let raw = self.compressor.raw_bits;
        let (loads, load_bits) = self.compressor.take();
        (Recording { loads, load_bits, ..self.recording }, raw)
    }
}

/// The values of a recording, as the replayed program asks for them.
struct Recorded<'a> {
    loads: ValueDecompressor<'a>,
    outside: Cursor<'a>,
}

impl Inputs for Recorded<'_> {
    fn load(&mut self, address: u64, size: u8) -> Option<u64> {
        self.loads.load(address, size).ok()
    }

    fn store(&mut self, address: u64, size: u8, value: u64) {
        self.loads.store(address, size, value);
    }

    fn outside(&mut self) -> Option<u64> {
        self.outside.number().ok()
    }
}

/// Executes a program again from a recording, beginning with these registers: every item goes to `sink`. Gives how it
/// ended and the registers at the end.
pub fn replay(
    elf: &Elf<'_>,
    hart: Hart,
    recording: &Recording,
    sink: &mut impl FnMut(Execution),
) -> (Exit, Hart) {
    let loads = ValueDecompressor::new(recording.cache, &recording.loads, recording.load_bits);
    let inputs = Recorded { loads, outside: Cursor::new(&recording.outside) };
    let mut replay = Replay::new(elf, hart, inputs, recording.instructions);
    let exit = replay.run_with_accesses(sink);
    (exit, replay.hart().clone())
}
