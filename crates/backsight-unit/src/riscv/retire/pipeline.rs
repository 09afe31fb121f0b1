//! Cycle by cycle from the commit stage to the packets.

use std::collections::VecDeque;
use std::vec::Vec;

use backsight_core::Execution;

use super::commit::{CommitStage, Committed};
use super::{Figures, Retirement, Serialiser};
use crate::riscv::BlockTracer;
use backsight_riscv::ingress::connector::{Connector, Cycle};
use backsight_riscv::ingress::{Block, Ctype};

/// Entries of the connector's FIFOs, as in the thesis.
const FIFO: usize = 16;
/// Packets that may wait before the encoder takes no more blocks.
const MOST_WAITING: u64 = 8;

/// What takes the blocks of each cycle.
pub trait Consumer {
    /// Takes the blocks of one cycle, oldest first; gives the number of packets that they made it send.
    fn group(&mut self, blocks: &[Block]) -> u64;

    /// Execution was not observed for a while; gives the number of packets sent.
    fn gap(&mut self) -> u64;
}

/// An encoder that looks at the blocks of a cycle in order, and a sink for its packets. What it sends does not depend
/// on which blocks came together.
pub struct InOrder<'a, E, F>(pub &'a mut E, pub F);

impl<E: BlockTracer, F: FnMut(E::Packet)> Consumer for InOrder<'_, E, F> {
    fn group(&mut self, blocks: &[Block]) -> u64 {
        let Self(encoder, sink) = self;
        let mut packets = 0;
        let mut each = |packet| {
            packets += 1;
            sink(packet);
        };
        blocks.iter().for_each(|block| encoder.push(block, &mut each));
        packets
    }

    fn gap(&mut self) -> u64 {
        let Self(encoder, sink) = self;
        let mut packets = 0;
        encoder.unqualified(&mut |packet| {
            packets += 1;
            sink(packet);
        });
        packets
    }
}

/// What one commit cycle leaves in the FIFOs.
#[derive(Clone, Copy, Debug)]
struct PipelineEntry {
    /// Cycles that the serialiser still needs for it.
    steps: u8,
    /// Blocks that end in it.
    blocks: usize,
    gap: bool,
}

/// Runs executed instructions through commit ports, connector and encoder.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stage: CommitStage,
    after_commit: AfterCommit,
}

/// Everything after the commit stage.
#[derive(Clone, Debug)]
struct AfterCommit {
    retirement: Retirement,
    connector: Connector,
    fifo: VecDeque<PipelineEntry>,
    /// What stands at the encoder's inputs.
    presented: Option<PipelineEntry>,
    /// Blocks of `presented` and of the entries after it.
    blocks: VecDeque<Block>,
    group: Vec<Block>,
    waiting: u64,
    figures: Figures,
}

impl Pipeline {
    /// For an encoder with `itype_width` (3 or 4) bits; changes of context are reported by `ctype`.
    pub fn new(retirement: Retirement, itype_width: u8, ctype: Ctype) -> Self {
        let after_commit = AfterCommit {
            retirement,
            connector: Connector::new(itype_width),
            fifo: VecDeque::new(),
            presented: None,
            blocks: VecDeque::new(),
            group: Vec::new(),
            waiting: 0,
            figures: Figures::default(),
        };
        Self { stage: CommitStage::new(retirement, ctype), after_commit }
    }

    /// What was counted so far.
    pub fn figures(&self) -> Figures {
        Figures { held: self.stage.held(), ..self.after_commit.figures }
    }

    /// Takes one step of execution. Threads and memory accesses are not looked at.
    pub fn push(&mut self, execution: &Execution, consumer: &mut impl Consumer) {
        let Self { stage, after_commit } = self;
        after_commit.figures.instructions += u64::from(matches!(execution, Execution::Instruction(_)));
        stage.push(execution, &mut |committed| after_commit.take(&committed, consumer));
    }

    /// Gives the encoder everything that is under way. It may have more to say when it ends: see
    /// [`Pipeline::drain`].
    pub fn finish(&mut self, consumer: &mut impl Consumer) {
        let Self { stage, after_commit } = self;
        stage.close(&mut |committed| after_commit.take(&committed, consumer));
        after_commit.boundary(consumer);
        while after_commit.presented.is_some() || !after_commit.fifo.is_empty() {
            after_commit.tick(consumer);
        }
    }

    /// Lets the packets leave that wait, and `more` that the encoder sent at its end.
    pub fn drain(&mut self, more: u64) {
        self.after_commit.waiting += more;
        self.after_commit.figures.packets += more;
        while self.after_commit.waiting > 0 {
            self.after_commit.figures.cycles += 1;
            self.after_commit.send();
            count(&mut self.after_commit.figures.by_blocks, 0);
        }
    }
}

impl AfterCommit {
    fn take(&mut self, committed: &Committed<'_>, consumer: &mut impl Consumer) {
        match committed {
            Committed::Cycle(cycle) => self.cycle(cycle, consumer),
            Committed::Boundary => self.boundary(consumer),
            Committed::Gap => {
                self.boundary(consumer);
                self.commit(PipelineEntry { steps: 1, blocks: 0, gap: true }, consumer);
            }
        }
    }

    fn cycle(&mut self, cycle: &Cycle<'_>, consumer: &mut impl Consumer) {
        let place = cycle.ports.first().map(|port| port.pc);
        if cycle.trap.is_some() && place != Some(self.connector.counted().end()) {
            // The trap happened elsewhere than after the instructions counted.
            self.boundary(consumer);
        }
        let Self { connector, blocks, .. } = self;
        let mut ended = 0;
        connector.cycle(cycle, &mut |group| {
            ended = group.len();
            blocks.extend(group);
        });
        let steps = match self.retirement.serialiser {
            Serialiser::Serial if cycle.trap.is_none() => self.retirement.ports,
            _ => 1,
        };
        self.commit(PipelineEntry { steps, blocks: ended, gap: false }, consumer);
    }

    fn boundary(&mut self, consumer: &mut impl Consumer) {
        if let Some(block) = self.connector.end_block() {
            self.blocks.push_back(block);
            self.commit(PipelineEntry { steps: 1, blocks: 1, gap: false }, consumer);
        }
    }

    /// The core commits, in the first cycle in which the FIFOs have room.
    fn commit(&mut self, entry: PipelineEntry, consumer: &mut impl Consumer) {
        while self.fifo.len() == FIFO {
            self.figures.stalls += 1;
            self.tick(consumer);
        }
        self.fifo.push_back(entry);
        self.figures.commit_cycles += 1;
        self.tick(consumer);
    }

    /// One cycle, from its end to its beginning, so that everything moves one stage.
    fn tick(&mut self, consumer: &mut impl Consumer) {
        self.figures.cycles += 1;
        self.send();
        self.encode(consumer);
        if let Some(front) = self.fifo.front_mut() {
            front.steps = front.steps.saturating_sub(1);
            if front.steps == 0 && self.presented.is_none() {
                self.presented = self.fifo.pop_front().filter(|entry| entry.blocks > 0 || entry.gap);
            }
        }
    }

    fn send(&mut self) {
        let leaving = self.waiting.min(self.retirement.architecture.most_packets().into());
        self.waiting -= leaving;
        count(&mut self.figures.by_packets, leaving as usize);
    }

    fn encode(&mut self, consumer: &mut impl Consumer) {
        let Some(entry) = &mut self.presented else { return count(&mut self.figures.by_blocks, 0) };
        if self.waiting > MOST_WAITING {
            self.figures.waits += 1;
            return count(&mut self.figures.by_blocks, 0);
        }
        let taken = entry.blocks.min(self.retirement.architecture.most_blocks().into());
        self.group.clear();
        self.group.extend(self.blocks.drain(..taken));
        entry.blocks -= taken;
        let mut packets = if taken > 0 { consumer.group(&self.group) } else { 0 };
        if entry.gap {
            packets += consumer.gap();
        }
        if entry.blocks == 0 {
            self.presented = None;
        }
        self.waiting += packets;
        let Figures { blocks, packets: sent, most_waiting, by_blocks, .. } = &mut self.figures;
        *blocks += taken as u64;
        *sent += packets;
        *most_waiting = self.waiting.max(*most_waiting);
        count(by_blocks, taken);
    }
}

fn count(cycles: &mut [u64], size: usize) {
    if let Some(cycles) = cycles.get_mut(size) {
        *cycles += 1;
    }
}
