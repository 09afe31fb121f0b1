//! What te_inst packets say.
//!
//! Address fields are kept as they are sent: a number of `iaddress_width - iaddress_lsb` bits, absolute in format 3
//! and in full address mode, otherwise the difference to the address reported before. `notify`, `updiscon` and
//! `irreport` are the flags, not the bits on the wire, which are chained by exclusive or.

use super::{BitReader, BitWriter, DataOptions, Options, Params};

/// Outcomes of branches, oldest in bit 0; 0 = taken, 1 = not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BranchMap {
    /// Number of branches, 0 to 31, or [`BranchMap::UNCOUNTED`].
    pub count: u8,
    /// The outcomes; bits from `count` on are 0.
    pub bits: u32,
}

impl BranchMap {
    /// Most branches that a map holds.
    pub const FULL: u8 = 31;

    /// The number of branches is not known: what the encoder for [CVA6](crate::cva6) sends for 16 to 30 branches and an
    /// address.
    pub const UNCOUNTED: u8 = 32;

    /// No branches.
    pub const EMPTY: Self = Self { count: 0, bits: 0 };

    /// The lowest `count` bits of `bits`.
    #[inline]
    pub const fn new(count: u8, bits: u32) -> Self {
        let count = if count > Self::FULL { Self::FULL } else { count };
        Self { count, bits: bits & ((1 << count) - 1) }
    }

    /// Appends one outcome; a full map stays as it is.
    #[inline]
    pub const fn push(&mut self, taken: bool) {
        if self.count < Self::FULL {
            self.bits |= (!taken as u32) << self.count;
            self.count += 1;
        }
    }

    /// Bits that the map takes in a packet: 1, 3, 7, 15 or 31, the least that `count` fits into.
    #[inline]
    pub const fn width(count: u8) -> u8 {
        match count {
            1..=15 => u8::MAX >> count.leading_zeros(),
            _ => 31,
        }
    }

    /// The packet that reports these branches and then an address.
    #[inline]
    pub const fn with_address(self, reported: Reported) -> Packet {
        Packet::Branches { map: self, address: Some(reported) }
    }
}

/// An address with the flags that follow it in formats 0, 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reported {
    /// The address field.
    pub address: u64,
    /// Reported because a trigger asked for it, not as the target of an uninferable discontinuity.
    pub notify: bool,
    /// Follows an uninferable discontinuity, and the next packet will be of format 3 because of a trap, a privilege
    /// change or a resync.
    pub updiscon: bool,
    /// irdepth or irets, where it is valid.
    pub irreport: Option<u32>,
}

/// Format 3 subformat 0: start of trace, or resync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Start {
    /// False only if the instruction is a branch that was taken.
    pub branch: bool,
    /// Privilege.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
    /// The address field, absolute.
    pub address: u64,
}

/// Format 3 subformat 1: exception or interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrapPacket {
    /// False only if the instruction is a branch that was taken.
    pub branch: bool,
    /// Privilege: of the handler with `thaddr`, else from before the trap.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
    /// Cause.
    pub ecause: u64,
    /// Interrupt; else exception.
    pub interrupt: bool,
    /// `address` is the first instruction of the handler, which retired. Else nothing retired in the handler, and
    /// `address` is where the exception happened if that is not known otherwise.
    pub thaddr: bool,
    /// The address field, absolute; absent in implicit exception mode with `thaddr`.
    pub address: Option<u64>,
    /// Trap value; 0 for interrupts, which carry none.
    pub tval: u64,
}

/// Format 3 subformat 2: context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextPacket {
    /// Privilege.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
}

impl ContextPacket {
    /// Reads the fields, which stand like this in every packet of format 3 that has them.
    pub(crate) fn read(bits: &mut BitReader<'_>, params: &Params) -> Self {
        Self {
            privilege: bits.take(params.privilege_width) as u8,
            time: bits.take(params.time_bits()),
            context: bits.take(params.context_bits()),
        }
    }

    /// Writes them.
    pub(crate) fn write(self, bits: &mut BitWriter, params: &Params) {
        bits.put(self.privilege.into(), params.privilege_width);
        bits.put(self.time, params.time_bits());
        bits.put(self.context, params.context_bits());
    }
}

/// What became of tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QualStatus {
    /// Nothing changed.
    #[default]
    NoChange = 0,
    /// Tracing ended; the packet before was sent only to name the last instruction.
    EndedRep = 1,
    /// Packets were lost.
    TraceLost = 2,
    /// Tracing ended; the packet before would have been sent anyway, because of an uninferable discontinuity.
    EndedNtr = 3,
}

impl QualStatus {
    /// From the two bits on the wire.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::NoChange,
            1 => Self::EndedRep,
            2 => Self::TraceLost,
            _ => Self::EndedNtr,
        }
    }
}

/// What the draft standard support packet says about the encoder's parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disclosed {
    /// The Implicit Return extension: irets instead of irdepth.
    pub iret_ext: bool,
    /// Bits of time divided by 16.
    pub time_width: u8,
    /// Bits of the subformat of format 0.
    pub f0s_width: u8,
    /// Return stack size.
    pub return_stack_size: u8,
    /// Call counter size.
    pub call_counter_size: u8,
    /// Predictor size.
    pub bpred_size: u8,
    /// Jump target cache size.
    pub cache_size: u8,
    /// The Multi-Memory-Access/CAS extension of data trace.
    pub mmacas_ext: bool,
}

/// Format 3 subformat 3: state of the encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Support {
    /// The instruction trace encoder is enabled.
    pub ienable: bool,
    /// Trace algorithm; 0: branch trace.
    pub encoder_mode: u8,
    /// What became of tracing.
    pub qual_status: QualStatus,
    /// Run-time options of instruction trace.
    pub options: Options,
    /// The option bit `delta_address` of the encoder for CVA6; false elsewhere.
    pub delta_address: bool,
    /// Data trace is enabled.
    pub denable: bool,
    /// Data packets were lost.
    pub dloss: bool,
    /// Run-time options of data trace.
    pub data_options: DataOptions,
    /// Parameters, in the layout that has them.
    pub disclosed: Option<Disclosed>,
}

/// Where a count of predicted branches ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountEnd {
    /// No address: the branch after the counted ones was mispredicted (branch_fmt 0).
    Mispredicted,
    /// The address of an instruction that is not a branch, or a branch predicted correctly (branch_fmt 2).
    Address(Reported),
    /// The address of a mispredicted branch, which is not counted (branch_fmt 3).
    MispredictedAt(Reported),
}

/// One te_inst packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// Format 0 subformat 0: this many branches were predicted correctly, less 31.
    BranchCount {
        /// The number less 31.
        count: u32,
        /// What came then.
        end: CountEnd,
    },
    /// Format 0 subformat 1: the target of an uninferable discontinuity is in the jump target cache.
    JumpTarget {
        /// Which entry.
        index: u32,
        /// Branches before (and at) it.
        map: BranchMap,
        /// irdepth or irets, where it is valid.
        irreport: Option<u32>,
    },
    /// Format 1: branches, and where the last of them led to; without an address the map is full. Format 2: no
    /// branches, and an address.
    Branches {
        /// The outcomes.
        map: BranchMap,
        /// The address.
        address: Option<Reported>,
    },
    /// Format 3 subformat 0.
    Start(Start),
    /// Format 3 subformat 1.
    Trap(TrapPacket),
    /// Format 3 subformat 2.
    Context(ContextPacket),
    /// Format 3 subformat 3.
    Support(Support),
}

const _: () = assert!(size_of::<Packet>() <= 64);

impl Packet {
    /// Format and, for formats 0 and 3, subformat.
    pub const fn format(&self) -> (u8, Option<u8>) {
        match self {
            Self::BranchCount { .. } => (0, Some(0)),
            Self::JumpTarget { .. } => (0, Some(1)),
            Self::Branches { map: BranchMap { count: 0, .. }, .. } => (2, None),
            Self::Branches { .. } => (1, None),
            Self::Start(_) => (3, Some(0)),
            Self::Trap(_) => (3, Some(1)),
            Self::Context(_) => (3, Some(2)),
            Self::Support(_) => (3, Some(3)),
        }
    }

    /// The name in listings.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BranchCount { .. } => "branch_count",
            Self::JumpTarget { .. } => "jump_target",
            Self::Branches { map: BranchMap { count: 0, .. }, .. } => "address",
            Self::Branches { address: None, .. } => "branches",
            Self::Branches { .. } => "branches_address",
            Self::Start(_) => "start",
            Self::Trap(_) => "trap",
            Self::Context(_) => "context",
            Self::Support(_) => "support",
        }
    }

    /// Format 2.
    pub const fn address(reported: Reported) -> Self {
        BranchMap::EMPTY.with_address(reported)
    }

    /// Is this a synchronisation packet (format 3 subformat 0 or 1)?
    pub const fn is_sync(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Trap(_))
    }
}
