//! How to follow, and what may go wrong.

use std::collections::BTreeMap;
use std::fmt;

use backsight_isa::rv::Set;
use backsight_riscv::etrace::{Config, ImplicitReturn, Options, Params};

use crate::return_stack::ReturnStack;

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
    /// Blocks that one packet may lead through before its path is not believed. A packet that counts more branches is
    /// damage. No tighter bound for a count follows from the code: it exists with branch prediction only, and the walk
    /// ends at the first place without a branch (too many jumps in a row) or without code, but a loop whose branch is
    /// predicted to be taken agrees with every count, and the branch after it may go either way.
    pub longest_path: u64,
    /// Stop at strong evidence that the code is not what was executed; go on at the next synchronisation.
    pub strict_image: bool,
    /// How many blocks of code to remember.
    pub cached_blocks: usize,
    /// Walk without a look at every block where none is needed. Without it the follower is slower, and nothing else is
    /// different: it is what the fast way is compared with.
    pub fast_walk: bool,
}

impl Settings {
    /// Settings for RV64GC, or RV32GC where addresses have 32 bits.
    pub fn new(params: Params, options: Options) -> Self {
        let set = if params.iaddress_width > 32 { Set::RV64 } else { Set::RV32 };
        Self {
            params,
            options,
            set,
            handlers: Handlers::default(),
            longest_path: 1 << 28,
            strict_image: false,
            cached_blocks: 1 << 18,
            fast_walk: true,
        }
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self::new(config.params, config.options)
    }
}

/// Why a follower lost its position.
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
    /// An uninferable discontinuity where the packet has only branches.
    UnexpectedDiscontinuity,
    /// A branch whose outcome is in no packet.
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
    /// A packet that counts more branches than is believed.
    CountTooLarge,
    /// An instruction that no program means to execute was executed.
    WrongImage,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 13] = [
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
        Self::CountTooLarge,
        Self::WrongImage,
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
            Self::CountTooLarge => "more branches counted than is believed",
            Self::WrongImage => "undefined instruction",
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

/// Does the trace leave out nothing that only tables could give back?
pub(super) const fn is_plain(options: &Options) -> bool {
    !(options.implicit_return || options.jump_target_cache || options.branch_prediction)
}

/// The return stack that an encoder with these parameters keeps. With `return_stack_size` it has 2^n entries. With
/// `call_counter_size` alone the encoder only counts, and the decoder keeps as many addresses as the counter counts
/// levels. With both (draft) an entry counts how often the same call was repeated.
pub(super) fn return_stack(params: &Params) -> ReturnStack {
    let (stack, counter) = (params.return_stack_size.min(16), params.call_counter_size.min(16));
    let repeats = stack > 0 && counter > 0 && params.implicit_return == ImplicitReturn::Returns;
    let depth = match (stack, counter) {
        (0, 0) => 0,
        (0, counter) => 1 << counter,
        (stack, _) => 1 << stack,
    };
    ReturnStack::new(depth).with_repeats(if repeats { (1 << counter) - 1 } else { 0 })
}
