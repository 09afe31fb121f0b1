//! How often a tracer begins again, so that decoders can begin there.

/// What is counted towards the next resynchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResyncMode {
    /// Nothing: there is none.
    #[default]
    Off,
    /// Packets.
    Packets,
    /// Cycles of the hart.
    Cycles,
    /// Half-words retired.
    HalfWords,
}

/// Periodic resynchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resync {
    /// What is counted.
    pub mode: ResyncMode,
    /// When to resynchronise. Control registers offer 2^4 to 2^19.
    pub limit: u64,
}
