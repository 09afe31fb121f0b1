//! A small model of a core: two caches, a branch predictor, and what they cost.
//!
//! The trace units follow execution, which knows neither time nor misses. The model adds both: every instruction takes a
//! cycle, a miss or a wrong guess more of them, and each is an event that a performance monitoring unit would count and
//! signal to the trace unit, a few cycles late. So traces with event packets and cycle counts can be made whose truth is
//! known. It is an in-order core of one instruction a cycle, not any that is built.

mod cache;
mod predictor;

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use backsight_core::{Access, Retired};
use backsight_isa::classify_retired;

pub use cache::CacheShape;
use cache::{Cache, CacheOutcome};
use predictor::Predictor;

/// The events of the model by their number in event packets, with the names of the architecture.
pub const MODEL_EVENTS: [&str; 4] =
    ["L1D_CACHE_REFILL", "BR_MIS_PRED_RETIRED", "L1I_CACHE_REFILL", "L1D_CACHE_WB"];

/// The parameters of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// The cache of instructions.
    pub l1i: CacheShape,
    /// The cache of data.
    pub l1d: CacheShape,
    /// The branch predictor has 2^n counters.
    pub predictor_bits: u32,
    /// Cycles that a miss costs.
    pub miss: u32,
    /// Cycles that a wrong prediction costs.
    pub mispredict: u32,
    /// Cycles after which an event reaches the trace unit.
    pub delay: u32,
}

/// What can be set, and what it means.
const SETTINGS: &str = "l1i=BYTES:WAYS:LINE, l1d=BYTES:WAYS:LINE, predictor=BITS (2 to 20), miss=CYCLES, \
                        mispredict=CYCLES, delay=CYCLES (0 to 4096)";

impl Default for ModelConfig {
    /// The caches of a small application core.
    fn default() -> Self {
        Self {
            l1i: CacheShape { size: 32 << 10, ways: 2, line: 64 },
            l1d: CacheShape { size: 32 << 10, ways: 4, line: 64 },
            predictor_bits: 12,
            miss: 12,
            mispredict: 8,
            delay: 4,
        }
    }
}

impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { l1i, l1d, predictor_bits, miss, mispredict, delay } = self;
        for (name, shape) in [("l1i", l1i), ("l1d", l1d)] {
            write!(f, "{name}={}:{}:{},", shape.size, shape.ways, shape.line)?;
        }
        write!(f, "predictor={predictor_bits},miss={miss},mispredict={mispredict},delay={delay}")
    }
}

impl FromStr for ModelConfig {
    type Err = String;

    /// Settings with commas between them; those that are not given stay what they are.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut config = Self::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let refused = || format!("`{setting}`: expected one of {SETTINGS}");
            let (key, value) = setting.split_once('=').ok_or_else(refused)?;
            let number = |most: u32| value.parse().ok().filter(|&number| number <= most).ok_or_else(refused);
            match key {
                "l1i" => config.l1i = shape(value).ok_or_else(refused)?,
                "l1d" => config.l1d = shape(value).ok_or_else(refused)?,
                "predictor" => {
                    config.predictor_bits =
                        number(20).and_then(|bits| if bits >= 2 { Ok(bits) } else { Err(refused()) })?;
                }
                "miss" => config.miss = number(1 << 16)?,
                "mispredict" => config.mispredict = number(1 << 16)?,
                "delay" => config.delay = number(4096)?,
                _ => return Err(refused()),
            }
        }
        Ok(config)
    }
}

fn shape(text: &str) -> Option<CacheShape> {
    let mut numbers = text.split(':');
    let (size, ways, line) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (size, scale) = match size.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1024),
        None => (size, 1),
    };
    let size = size.parse::<u64>().ok()?.checked_mul(scale)?;
    let shape = CacheShape { size, ways: ways.parse().ok()?, line: line.parse().ok()? };
    (numbers.next().is_none() && shape.is_possible()).then_some(shape)
}

/// What an instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOutcome {
    /// The cycle in which it retired.
    pub cycle: u64,
    /// The events that it caused: bit i for event i of [`MODEL_EVENTS`].
    pub events: u8,
}

/// A core.
#[derive(Debug)]
pub struct CoreModel {
    config: ModelConfig,
    l1i: Cache,
    l1d: Cache,
    predictor: Predictor,
    cycle: u64,
    /// Events on their way to the trace unit, and when they get there.
    signals: VecDeque<(u64, u8)>,
}

impl CoreModel {
    /// A core whose caches are empty.
    ///
    /// # Errors
    /// If there can be no cache of such a shape.
    pub fn new(config: ModelConfig) -> Result<Self, &'static str> {
        let cache = |shape| Cache::new(shape).ok_or("there can be no cache of this shape");
        Ok(Self {
            l1i: cache(config.l1i)?,
            l1d: cache(config.l1d)?,
            predictor: Predictor::new(config.predictor_bits.clamp(2, 20)),
            config,
            cycle: 0,
            signals: VecDeque::new(),
        })
    }

    /// An instruction retires, with what it loaded and stored.
    pub fn retire(&mut self, retired: &Retired, accesses: &[Access]) -> ModelOutcome {
        let fetch = self.l1i.access(retired.address.0, retired.size.into(), false);
        let mut data = CacheOutcome::default();
        for access in accesses {
            let one = self.l1d.access(access.address.0, access.size.into(), access.store);
            data.refill |= one.refill;
            data.write_back |= one.write_back;
        }
        let wrong = self.predictor.is_wrong(retired, &classify_retired(retired));
        let cost = |happened: bool, cycles: u32| if happened { u64::from(cycles) } else { 0 };
        self.cycle += 1
            + cost(fetch.refill, self.config.miss)
            + cost(data.refill, self.config.miss)
            + cost(wrong, self.config.mispredict);
        let events = u8::from(data.refill)
            | u8::from(wrong) << 1
            | u8::from(fetch.refill) << 2
            | u8::from(data.write_back) << 3;
        if events != 0 {
            self.signals.push_back((self.cycle + u64::from(self.config.delay), events));
        }
        ModelOutcome { cycle: self.cycle, events }
    }

    /// The cycle that the core has reached.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The next events that have reached the trace unit by now.
    pub fn arrived(&mut self) -> Option<u8> {
        let &(due, events) = self.signals.front()?;
        if due > self.cycle {
            return None;
        }
        self.signals.pop_front();
        Some(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Isa};

    fn instruction(address: u64) -> Retired {
        let (address, opcode) = (Address(address), 0xF940_0000); // ldr x0, [x0]
        Retired { address, next: address.plus(4), cycle: 0, opcode, size: 4, isa: Isa::A64, taken: true }
    }

    fn load(address: u64) -> Access {
        Access { address: Address(address), value: 0, size: 8, store: false, known: false }
    }

    #[test]
    fn misses_cost_cycles_and_are_signalled_late() {
        let config: ModelConfig = "miss=10,delay=12".parse().expect("settings");
        let mut core = CoreModel::new(config).expect("a core");
        let first = core.retire(&instruction(0x1000), &[load(0x8000)]);
        assert_eq!(first, ModelOutcome { cycle: 21, events: 0b101 });
        assert_eq!(core.arrived(), None);
        let second = core.retire(&instruction(0x1004), &[load(0x8008)]);
        assert_eq!(second, ModelOutcome { cycle: 22, events: 0 });
        assert_eq!(core.retire(&instruction(0x1008), &[load(0x9000)]).cycle, 33);
        assert_eq!(core.arrived(), Some(0b101));
        assert_eq!(core.arrived(), None);
    }

    #[test]
    fn settings_are_read_back_as_they_are_written() {
        let config: ModelConfig = "l1d=1K:2:32,predictor=5,delay=0".parse().expect("settings");
        assert_eq!((config.l1d.size, config.l1d.ways, config.l1d.line), (1024, 2, 32));
        assert_eq!(config.to_string().parse(), Ok(config));
        assert_eq!("".parse(), Ok(ModelConfig::default()));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_with_what_would() {
        for text in ["l2=1", "l1d=1000:2:64", "l1d=64:1", "predictor=1", "predictor=21", "delay=5000", "miss"]
        {
            let refused = text.parse::<ModelConfig>().expect_err(text);
            assert!(refused.contains("l1d=BYTES:WAYS:LINE"), "{refused}");
        }
    }
}
