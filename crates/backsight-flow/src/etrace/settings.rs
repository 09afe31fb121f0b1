//! What a follower is told beyond parameters, and what it may complain about.

use std::collections::BTreeMap;
use std::fmt;

use backsight_isa::rv::Set;
use backsight_riscv::etrace::{Config, Options, Params};

/// Where trap handlers begin, for implicit exception mode, which leaves their addresses out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// Base of the vector table, as in `mtvec` or `stvec`.
    pub base: Option<u64>,
    /// Interrupts go to `base + 4 * cause`.
    pub vectored: bool,
    /// Handlers of single causes (cause, interrupt); they come before the base.
    pub single: BTreeMap<(u64, bool), u64>,
}

impl Handlers {
    /// The first instruction of the handler.
    pub fn of(&self, cause: u64, interrupt: bool) -> Option<u64> {
        if let Some(&handler) = self.single.get(&(cause, interrupt)) {
            return Some(handler);
        }
        let offset = if self.vectored && interrupt { cause.wrapping_mul(4) } else { 0 };
        self.base.map(|base| (base & !3).wrapping_add(offset))
    }
}

/// How to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Parameters of the encoder.
    pub params: Params,
    /// Options in force until a support packet says otherwise.
    pub options: Options,
    /// Instruction set.
    pub set: Set,
    /// Trap handlers, where packets leave them out.
    pub handlers: Handlers,
    /// Blocks that one packet may lead through before its path is not believed.
    pub longest_path: u64,
    /// Looks at every block before it is left. This is slower and makes no other difference: it is what the quick way
    /// is compared with.
    pub careful: bool,
}

impl Settings {
    /// Settings for RV64GC, or RV32GC where addresses have 32 bits.
    pub fn new(params: Params, options: Options) -> Self {
        let set = if params.iaddress_width > 32 { Set::RV64 } else { Set::RV32 };
        Self { params, options, set, handlers: Handlers::default(), longest_path: 1 << 28, careful: false }
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self::new(config.params, config.options)
    }
}

/// Why a follower lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A payload that is no packet.
    BadPacket,
    /// Packets were lost, says the encoder.
    TraceLost,
    /// A packet before the first synchronisation, or before the next one after a fault.
    Unsynchronised,
    /// There is no code at an address that execution reaches.
    NoCode,
    /// An uninferable discontinuity where the packet tells only branches.
    UnexpectedDiscontinuity,
    /// A branch whose outcome no packet told.
    OutcomeMissing,
    /// Outcomes of more branches than there are.
    OutcomesLeftOver,
    /// An entry of the jump target cache that holds nothing.
    CacheEntryInvalid,
    /// The address of the packet is never reached.
    PathTooLong,
    /// The handler's address was left out and is not known.
    HandlerUnknown,
    /// A payload that is no packet of data trace, or one that refers to an access that was not seen.
    BadData,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 11] = [
        Self::BadPacket,
        Self::TraceLost,
        Self::Unsynchronised,
        Self::NoCode,
        Self::UnexpectedDiscontinuity,
        Self::OutcomeMissing,
        Self::OutcomesLeftOver,
        Self::CacheEntryInvalid,
        Self::PathTooLong,
        Self::HandlerUnknown,
        Self::BadData,
    ];

    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::BadPacket => "bad packet",
            Self::TraceLost => "trace lost",
            Self::Unsynchronised => "packet before synchronisation",
            Self::NoCode => "no code at an address",
            Self::UnexpectedDiscontinuity => "uninferable discontinuity without an address",
            Self::OutcomeMissing => "branch without an outcome",
            Self::OutcomesLeftOver => "more outcomes than branches",
            Self::CacheEntryInvalid => "invalid entry of the jump target cache",
            Self::PathTooLong => "address never reached",
            Self::HandlerUnknown => "trap handler not known",
            Self::BadData => "bad data packet",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    pub(super) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often this one happened.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Does the trace leave out nothing that tables would have to tell?
pub(super) const fn is_plain(options: &Options) -> bool {
    !(options.implicit_return || options.jump_target_cache || options.branch_prediction)
}
