//! What became of every byte of a capture.

use backsight_core::TraceId;

/// Every byte that was fed is in exactly one of the byte counts once the deframer has been finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Data bytes by source ID: sources, padding (ID 0), reserved IDs, markers and, for ID 0x7F, bad data.
    pub data: [u64; 128],
    /// Bytes of a capture without frames.
    pub raw: u64,
    /// Data bytes whose source is not known, before the first ID byte or after a loss.
    pub unknown: u64,
    /// ID bytes.
    pub ids: u64,
    /// Bytes of full syncs, half syncs and barrier frames.
    pub sync: u64,
    /// Bytes of DSTREAM block footers.
    pub footers: u64,
    /// Bytes skipped while searching for a full sync.
    pub unsynchronised: u64,
    /// Bytes of frames that were cut off, by damage or by the end.
    pub partial: u64,
    /// Complete frames; each has one auxiliary byte.
    pub frames: u64,
    /// Times that the streams did not continue.
    pub discontinuities: u64,
    /// ID bytes with the ID 0x7F.
    pub illegal_ids: u64,
    /// Padding bytes that are not zero: a sign of wrong alignment.
    pub nonzero_padding: u64,
    /// ID bytes in the last position whose auxiliary bit is set, against the rules; the bit is ignored.
    pub stray_aux: u64,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self {
            data: [0; 128],
            raw: 0,
            unknown: 0,
            ids: 0,
            sync: 0,
            footers: 0,
            unsynchronised: 0,
            partial: 0,
            frames: 0,
            discontinuities: 0,
            illegal_ids: 0,
            nonzero_padding: 0,
            stray_aux: 0,
        }
    }

    /// The sources that have data, and how many bytes.
    pub fn sources(&self) -> impl Iterator<Item = (TraceId, u64)> + '_ {
        (0..=0x7F).map(TraceId::new).zip(self.data).filter(|&(id, bytes)| id.is_source() && bytes != 0)
    }

    /// Data bytes of the null source.
    pub const fn padding(&self) -> u64 {
        self.data[0]
    }

    /// Data bytes of reserved IDs.
    pub fn reserved(&self) -> u64 {
        self.data[0x70..0x7B].iter().sum::<u64>() + self.data[0x7C] + self.data[0x7E]
    }

    /// Trigger markers.
    pub const fn triggers(&self) -> u64 {
        self.data[TraceId::TRIGGER.get() as usize]
    }

    /// Flush markers.
    pub const fn flushes(&self) -> u64 {
        self.data[TraceId::FLUSH.get() as usize]
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.data.iter().sum::<u64>()
            + self.raw
            + self.unknown
            + self.ids
            + self.frames
            + self.sync
            + self.footers
            + self.unsynchronised
            + self.partial
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}
