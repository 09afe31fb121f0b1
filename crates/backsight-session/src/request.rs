//! What the user wants traced.

use std::ops::Range;

/// What the user wants traced, by every trace unit that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The trace units, each with its trace ID or without: then it gets the next that is free from 0x10 on. None: all.
    pub units: Vec<(String, Option<u8>)>,
    /// Where the trace goes; not needed where there is only one such place.
    pub sink: Option<String>,
    /// Memory for an ETR, where the system does not say: address and bytes.
    pub memory: Option<(u64, u64)>,
    /// Only instructions at these addresses; none: all.
    pub ranges: Vec<Range<u64>>,
    /// Only instructions while CONTEXTIDR has this value.
    pub only_context: Option<u32>,
    /// Context IDs in the trace.
    pub context_id: bool,
    /// VMIDs in the trace.
    pub vmid: bool,
    /// Cycle counts, from so many cycles on.
    pub cycle_counts: Option<u32>,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// The targets of direct branches too.
    pub branch_broadcast: bool,
    /// No targets of returns that the decoder can know.
    pub return_stack: bool,
    /// Data transfers in the trace, of units that trace them in the same stream: ETMv3.
    pub data: Option<Data>,
    /// External inputs whose events are in the trace: event 0 is the first of them. ETMv4 numbers its inputs, ETE takes
    /// the number of a PMU event.
    pub events: Vec<u16>,
    /// Bytes between synchronisations as a power of two: 8 to 20, of ETMv3 and PTM to 11; none: 12, of these 10.
    pub sync_period: Option<u8>,
}

/// What is traced of data transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Their addresses.
    Addresses,
    /// Their values.
    Values,
    /// Both.
    Both,
}

/// How often there is a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// Where the unit writes one of its own accord: when it synchronises.
    AtSynchronisation,
    /// Also every so many cycles, by a counter.
    EveryCycles(u16),
}
