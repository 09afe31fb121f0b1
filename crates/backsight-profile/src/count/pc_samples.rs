//! Samples of the program counter: what a source gives that does not follow execution.
//!
//! The DWT of a Cortex-M and some encoders of RISC-V write the program counter every so many cycles. A sample counts as
//! one execution of its instruction: weights are samples then, and nothing is known of edges.

use backsight::core::{Address, AddressSpace, Isa};
use backsight::flow::{DwtMeaning, HardwareEvent, Range};
use backsight::image::Code as _;
use backsight::isa::{Class, Flags, classify};
use backsight::riscv::ntrace::in_circuit;

use super::hash::NumberMap;
use super::{Counter, NONE};

/// Most different addresses. What comes after them is not counted.
const MOST: usize = 1 << 20;

/// Samples of one source.
#[derive(Debug, Default)]
pub(crate) struct PcSamples {
    counts: NumberMap<(u64, u8), u64>,
    uncounted: u64,
    sleeping: u64,
}

impl PcSamples {
    /// Takes what hardware noticed, if it is a sample.
    pub fn take(&mut self, event: &HardwareEvent) {
        match event {
            HardwareEvent::Dwt(event) => match event.meaning() {
                // Cortex-M executes T32 only.
                DwtMeaning::PcSample(address) => self.add(u64::from(address) & !1, Isa::T32),
                DwtMeaning::Sleeping => self.sleeping += 1,
                _ => {}
            },
            HardwareEvent::InCircuit(event) if event.event == in_circuit::PC_SAMPLE => {
                event.address().into_iter().for_each(|address| self.add(address.0, Isa::Rv64));
            }
            _ => {}
        }
    }

    /// Adds those of the next part of the source. False if there is no room for all of them.
    pub fn join(&mut self, later: Self) -> bool {
        for (key, count) in later.counts {
            *self.counts.entry(key).or_default() += count;
        }
        self.sleeping += later.sleeping;
        later.uncounted == 0 && self.counts.len() < MOST
    }

    fn add(&mut self, address: u64, isa: Isa) {
        let key = (address, isa as u8);
        let is_full = self.counts.len() >= MOST;
        match self.counts.get_mut(&key) {
            Some(count) => *count += 1,
            None if is_full => self.uncounted += 1,
            None => drop(self.counts.insert(key, 1)),
        }
    }
}

impl Counter<'_> {
    /// Counts samples as executions, where nothing else is known of what was executed.
    pub(super) fn count_samples(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        if !self.blocks.blocks.is_empty() {
            return;
        }
        let mut counts: Vec<_> = samples.counts.into_iter().collect();
        counts.sort_unstable();
        self.totals.uncounted += samples.uncounted;
        self.totals.sleeping_samples += samples.sleeping;
        let root = self.hart.stack.node();
        for ((address, isa), count) in counts {
            if self.filter.as_ref().is_some_and(|(filter, _)| !filter.wants_address(Address(address))) {
                continue;
            }
            let isa = if isa == Isa::T32 as u8 { Isa::T32 } else { Isa::Rv64 };
            let range = self.instruction_at(Address(address), isa);
            let Some(block) = self.add(&range) else { continue };
            let Some(record) = self.blocks.blocks.get_mut(block as usize) else { continue };
            record.entries += count;
            self.totals.samples += count;
            let node = self.tree.callee(root, record.function);
            if let Some(node) = self.tree.nodes.get_mut(node as usize).filter(|_| node != NONE) {
                node.instructions += count;
            }
        }
    }

    /// The instruction at an address. Without code, it is taken to have the size of the shortest.
    fn instruction_at(&self, address: Address, isa: Isa) -> Range {
        let (bytes, length) = self.functions.code().opcode_at(AddressSpace::ANY, address);
        let instruction = classify(isa, bytes.get(..length).unwrap_or_default(), address);
        let size = instruction.map_or(2, |instruction| instruction.size);
        Range {
            start: address,
            end: address.plus(size.into()),
            instructions: 1,
            isa,
            // How it was left is not known.
            class: Class::Other,
            flags: Flags::NONE,
            last_size: size,
            executed: true,
        }
    }
}
