//! What the cycles cost.

use super::MOST_PORTS;

/// Numbers of things that one cycle may hold: 0 to the most blocks of any architecture.
const SIZES: usize = MOST_PORTS as usize + 2;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Instructions that retired.
    pub instructions: u64,
    /// Cycles from the first commit to the last packet.
    pub cycles: u64,
    /// Cycles in which something retired or trapped.
    pub commit_cycles: u64,
    /// Of these, those that ended early: a port was free, but the interface could not carry another block.
    pub held: u64,
    /// Cycles in which the core stood still, because the connector's FIFOs were full.
    pub stalls: u64,
    /// Cycles in which blocks waited, because the encoder had too many packets to get rid of.
    pub waits: u64,
    /// Blocks that the encoder took.
    pub blocks: u64,
    /// Packets that it sent.
    pub packets: u64,
    /// Most packets that waited to leave.
    pub most_waiting: u64,
    /// Cycles by how many blocks the encoder took in them.
    pub by_blocks: [u64; SIZES],
    /// Cycles by how many packets left in them.
    pub by_packets: [u64; SIZES],
}

impl Figures {
    /// Instructions in a cycle.
    pub fn instructions_per_cycle(&self) -> f64 {
        per(self.instructions, self.cycles)
    }

    /// Blocks in a cycle.
    pub fn blocks_per_cycle(&self) -> f64 {
        per(self.blocks, self.cycles)
    }

    /// Packets in a cycle.
    pub fn packets_per_cycle(&self) -> f64 {
        per(self.packets, self.cycles)
    }

    /// Most blocks that any cycle brought.
    pub fn most_blocks(&self) -> usize {
        most(&self.by_blocks)
    }

    /// Most packets that left in any cycle.
    pub fn most_packets(&self) -> usize {
        most(&self.by_packets)
    }
}

fn per(count: u64, cycles: u64) -> f64 {
    count as f64 / cycles.max(1) as f64
}

fn most(cycles: &[u64]) -> usize {
    cycles.iter().rposition(|&cycles| cycles > 0).unwrap_or(0)
}
