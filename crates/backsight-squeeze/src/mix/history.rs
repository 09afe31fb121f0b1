//! What came before a branch: events of all branches, the path, what the branch itself did, and the loop it is in.
//!
//! An event is an outcome or eight bits of a target. A context takes a hash of the last so many of them.

/// Mixes bits so that every one of them matters to the upper half.
#[inline(always)]
pub fn hash(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

const FACTOR: u32 = 0x2F0B_4C47;

/// The last symbols, as sums: that of the last so many is the difference of two, so that a length costs nothing until it is
/// asked for.
#[derive(Clone, Debug)]
pub struct Recent {
    sums: Box<[u32]>,
    at: usize,
}

/// A number of symbols, and what the sum before them has to be multiplied with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    symbols: u32,
    power: u32,
}

impl Length {
    /// So many symbols.
    pub fn of(symbols: u16) -> Self {
        let power = (0..symbols).fold(1u32, |power, _| power.wrapping_mul(FACTOR));
        Self { symbols: symbols.into(), power }
    }
}

impl Recent {
    /// Up to so many.
    pub fn new(longest: u16) -> Self {
        Self { sums: vec![0; (usize::from(longest) + 1).next_power_of_two()].into(), at: 0 }
    }

    /// A hash of the last symbols.
    #[inline(always)]
    pub fn hash(&self, length: Length) -> u32 {
        let mask = self.sums.len() - 1;
        let before = self.sums[self.at.wrapping_sub(length.symbols as usize) & mask];
        self.sums[self.at & mask].wrapping_sub(before.wrapping_mul(length.power))
    }

    #[inline(always)]
    pub fn push(&mut self, symbol: u32) {
        let mask = self.sums.len() - 1;
        let sum = self.sums[self.at & mask].wrapping_mul(FACTOR).wrapping_add(symbol + 1);
        self.at = self.at.wrapping_add(1);
        self.sums[self.at & mask] = sum;
    }
}

/// What one branch did lately. A run is a number of times in a row with the same outcome.
#[derive(Clone, Copy, Debug, Default)]
struct Local {
    /// Outcomes, the last in bit 0.
    outcomes: u16,
    /// The run at hand.
    run: u16,
    /// The run before it, of the other outcome.
    other: u16,
    /// The run before that, of the same outcome.
    before: u16,
}

impl Local {
    #[inline(always)]
    fn update(&mut self, taken: bool) {
        if taken == (self.outcomes & 1 == 1) {
            self.run = (self.run + 1).min(RUN_LIMIT);
        } else {
            self.before = self.other;
            self.other = self.run;
            self.run = 1;
        }
        self.outcomes = self.outcomes << 1 | u16::from(taken);
    }
}

/// Bits of the length of a run, and the longest that is counted.
pub const RUN_BITS: u32 = 10;
const RUN_LIMIT: u16 = (1 << RUN_BITS) - 1;
/// Bits of the iterations of a loop.
pub const ITERATION_BITS: u32 = 10;

/// What a context is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The last so many events.
    Events(u16),
    /// Iterations of the innermost loop, and the last so many events.
    Iterations(u16),
    /// The last so many outcomes of this branch.
    Local(u16),
    /// Where in its run the branch is, the run before it, and its last outcome.
    Runs,
    /// Whether the run at hand is as long as the last one of its outcome; the first rounds are told apart.
    Loop,
    /// The last so many steps of the path.
    Path(u16),
}

/// What came before.
#[derive(Clone, Debug)]
pub struct History {
    events: Recent,
    path: Recent,
    /// The last outcomes, the newest in bit 0; a target gives two bits.
    pub last: u32,
    /// How often the innermost loop was repeated: its backward branch was taken so many times in a row.
    iterations: u16,
    /// The backward branch of that loop.
    inner: u32,
    /// Branches whose own outcomes are kept.
    locals: Box<[Local]>,
}

/// The contexts, in their order: those of events only come first.
#[derive(Clone, Debug)]
pub struct Contexts<const L: usize> {
    contexts: [Option<Context>; L],
    lengths: [Length; L],
    events: usize,
    count: usize,
}

/// Keeps contexts apart that have the same history.
const SALT: u32 = 0x7FEB_352D;

impl<const L: usize> Contexts<L> {
    pub fn new(mut contexts: impl Iterator<Item = Context>) -> Self {
        let contexts: [Option<Context>; L] = std::array::from_fn(|_| contexts.next());
        let lengths = contexts.map(|context| match context {
            Some(Context::Events(length) | Context::Iterations(length) | Context::Path(length)) => {
                Length::of(length)
            }
            _ => Length::of(0),
        });
        let of_events = |context: &Option<Context>| matches!(context, Some(Context::Events(_)));
        let events = contexts.iter().take_while(|context| of_events(context)).count();
        Self { contexts, lengths, events, count: contexts.iter().flatten().count() }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count.min(L)
    }

    /// A number for a context at this branch.
    #[inline(always)]
    pub fn number(&self, lane: usize, history: &History, key: u32) -> u32 {
        let number = if lane < self.events {
            history.events.hash(self.lengths[lane])
        } else {
            history.other(self.contexts[lane], self.lengths[lane], key)
        };
        number ^ SALT.wrapping_mul(lane as u32 + 1)
    }
}

impl History {
    /// With so many events and steps of the path, and so many branches whose own outcomes are kept.
    pub fn new((events, path): (u16, u16), locals: usize) -> Self {
        Self {
            events: Recent::new(events),
            path: Recent::new(path),
            last: 0,
            iterations: 0,
            inner: 0,
            locals: vec![Local::default(); locals].into(),
        }
    }

    #[inline(always)]
    fn slot(&self, key: u32) -> usize {
        ((u64::from(key) * self.locals.len() as u64) >> 32) as usize
    }

    /// The number of a context that is not of events only.
    fn other(&self, context: Option<Context>, length: Length, key: u32) -> u32 {
        let local = self.locals.get(self.slot(key)).copied().unwrap_or_default();
        let Some(context) = context else { return 0 };
        let number = match context {
            Context::Events(_) => self.events.hash(length),
            Context::Iterations(_) => {
                self.events.hash(length) ^ (u32::from(self.iterations) + 1).wrapping_mul(0x9E37)
            }
            Context::Local(length) => u32::from(local.outcomes) & ((1 << length) - 1),
            Context::Runs => {
                u32::from(local.run) << 16 ^ u32::from(local.other) << 1 ^ u32::from(local.outcomes & 1)
            }
            Context::Loop => {
                let phase = match local.run.cmp(&local.before) {
                    std::cmp::Ordering::Less => 0,
                    std::cmp::Ordering::Equal => 1,
                    std::cmp::Ordering::Greater => 2,
                };
                let round = if local.run < 4 { local.run } else { 0 };
                u32::from(round << 4 | phase << 1 | (local.outcomes & 1))
            }
            Context::Path(_) => self.path.hash(length),
        };
        number.wrapping_mul(0x9E37_79B1)
    }

    /// A hash of the last events.
    #[inline(always)]
    pub fn events(&self, length: Length) -> u32 {
        self.events.hash(length)
    }

    /// The branch of this key had an outcome, as far as only it is concerned.
    #[inline(always)]
    pub fn local(&mut self, key: u32, taken: bool) {
        let slot = self.slot(key);
        if let Some(local) = self.locals.get_mut(slot) {
            local.update(taken);
        }
    }

    /// A conditional branch was executed; `backward` says where it went if it was taken.
    #[inline(always)]
    pub fn outcome(&mut self, key: u32, backward: bool, taken: bool) {
        self.last = self.last << 1 | u32::from(taken);
        self.events.push(u32::from(taken));
        if taken {
            if backward {
                self.iterations =
                    if self.inner == key { (self.iterations + 1) & ((1 << ITERATION_BITS) - 1) } else { 1 };
                self.inner = key;
            }
            self.step(key);
        } else if self.inner == key {
            self.iterations = 0;
        }
    }

    /// An indirect branch went there.
    #[inline(always)]
    pub fn target(&mut self, target: u32) {
        self.last = self.last << 2 | target >> 30;
        self.events.push(2 + (target >> 16 & 0xFF));
        self.step(target);
    }

    /// Control went somewhere: one step on the path.
    #[inline(always)]
    pub fn step(&mut self, key: u32) {
        if self.path.sums.len() > 1 {
            self.path.push(key >> 16);
        }
    }
}
