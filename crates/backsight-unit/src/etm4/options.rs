//! How a unit is built and programmed.

use super::controls::Controls;
use super::port::Fifo;
use super::speculation::FrontEnd;
use backsight_arm::etm4::Config;
use backsight_core::{Context, Security};
use core::fmt;

/// Largest return stack: decoders hold 16 entries, and a unit must hold fewer.
const DEEPEST_STACK: u8 = 15;

/// Everything that makes a unit what it is.
#[derive(Clone, Debug)]
pub struct UnitConfig {
    /// The registers that a decoder needs too: what the unit has, and what is switched on. The cycle count
    /// threshold is here (TRCCCCTLR), and the maximum speculation depth (TRCIDR8).
    pub config: Config,
    /// The registers that a decoder can do without: filters, ranges, synchronisation period.
    pub controls: Controls,
    /// Entries of the return stack, 1 to 15, where it is switched on.
    pub return_stack_depth: u8,
    /// When to write timestamps, where they are switched on.
    pub timestamps: Timestamps,
    /// Events at regular intervals: every so many cycles (or instructions), these bits (1 to 15).
    pub events: Option<(u64, u8)>,
    /// The buffer after the unit; without one nothing is ever lost.
    pub fifo: Option<Fifo>,
    /// A front end that guesses; without one everything traced is what was executed. Needs TRCIDR8 above 0.
    pub front_end: Option<FrontEnd>,
    /// Most instructions in one Q element, where they are switched on.
    pub longest_q: u32,
    /// ETE: taken P0 instructions are named by their address where this replaces at least so many `N` atoms.
    pub source_addresses: Option<u32>,
    /// The context until the stream tells another. Register width follows the instructions.
    pub context: Context,
    /// Instructions after the last P0 element are unknown to a decoder. With this, where execution is lost or
    /// ends, a Debug halt exception tells how far it went.
    pub halt_at_end: bool,
}

/// When timestamps are written and what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// Cycles (or instructions) between two.
    pub period: u64,
    /// Value at cycle 0.
    pub first: u64,
    /// Cycles in one tick of the clock; not 0.
    pub divider: u32,
}

impl Default for UnitConfig {
    fn default() -> Self {
        Self::new(Config::etm4_default())
    }
}

impl UnitConfig {
    /// A unit with these registers and nothing special.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            controls: Controls::default(),
            return_stack_depth: 8,
            timestamps: Timestamps { period: 4096, first: 0, divider: 1 },
            events: None,
            fifo: None,
            front_end: None,
            longest_q: 64,
            source_addresses: None,
            context: Context::arm(0, Security::NonSecure, false),
            halt_at_end: true,
        }
    }

    /// Can there be such a unit?
    pub(super) fn check(&self) -> Result<(), UnitError> {
        let registers = &self.config.registers;
        let has = |shift: u32, bits: u32| registers.idr0 >> shift & bits != 0;
        let config = &self.config;
        let q = registers.configr >> 13 & 3 != 0;
        let p0_accesses = config.loads_p0() || config.stores_p0();
        let refused = [
            (config.data_trace(), "data trace is on; this unit traces instructions only"),
            (config.conditional(), "conditional instruction tracing is on; this unit has none"),
            (
                config.branch_broadcast() && !has(5, 1),
                "branch broadcast is on, but TRCIDR0.TRCBB says there is none",
            ),
            (
                config.cycle_counting() && !has(7, 1),
                "cycle counting is on, but TRCIDR0.TRCCCI says there is none",
            ),
            (
                config.return_stack() && !has(9, 1),
                "the return stack is on, but TRCIDR0.RETSTACK says there is none",
            ),
            (
                config.timestamps() && config.timestamp_bits() == 0,
                "timestamps are on, but TRCIDR0.TSSIZE says there are none",
            ),
            (q && !has(15, 3), "Q elements are on, but TRCIDR0.QSUPP says there are none"),
            (
                p0_accesses && (config.is_ete() || !has(1, 3)),
                "loads or stores are P0, but TRCIDR0.INSTP0 says they cannot be",
            ),
            (
                config.context_id() && config.context_id_bytes() == 0,
                "context IDs are on, but TRCIDR2.CIDSIZE says there are none",
            ),
            (
                config.vmid() && config.vmid_bytes() == 0,
                "VMIDs are on, but TRCIDR2.VMIDSIZE says there are none",
            ),
            (!(1..=DEEPEST_STACK).contains(&self.return_stack_depth), "the return stack has 1 to 15 entries"),
            (self.timestamps.divider == 0, "the timestamp divider is 0"),
            (
                self.events.is_some_and(|(period, bits)| period == 0 || bits & 0xF == 0),
                "an event needs a period and a bit in 3:0",
            ),
            (
                self.front_end.is_some() && config.max_speculation() == 0,
                "a front end that guesses needs TRCIDR8.MAXSPEC above 0",
            ),
            (self.source_addresses.is_some() && !config.is_ete(), "source addresses exist in ETE only"),
            (self.longest_q == 0, "a Q element has at least one instruction"),
        ];
        match refused.iter().find(|(refused, _)| *refused) {
            Some(&(_, why)) => Err(UnitError(why)),
            None => Ok(()),
        }
    }
}

/// Why there can be no such unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitError(&'static str);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for UnitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_switched_on_must_be_there() {
        let mut unit = UnitConfig::default();
        assert_eq!(unit.check(), Ok(()));
        unit.config.registers.configr |= 1 << 13;
        assert!(unit.check().unwrap_err().to_string().contains("QSUPP"));
        unit.config.registers.idr0 |= 3 << 15;
        assert_eq!(unit.check(), Ok(()));
        unit.source_addresses = Some(0);
        assert!(unit.check().is_err());
        unit.config = Config::ete_default();
        assert_eq!(unit.check(), Ok(()));
        unit.front_end = Some(FrontEnd::default());
        assert!(unit.check().unwrap_err().to_string().contains("MAXSPEC"));
    }
}
