//! What came before a branch: events of all branches, the path, what the branch itself did, and the loop it is in.
//!
//! An event is an outcome or eight bits of a target. A context takes the last so many of them, as a hash of sixteen bits
//! that is kept up event by event: the new one comes in, the oldest goes out.

/// Mixes bits so that every one of them matters to the upper half.
#[inline(always)]
pub fn hash(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

const FACTOR: u16 = 0x4C47;

/// Hashes of the last symbols, one of each length.
#[derive(Clone, Debug)]
pub struct Rolling<const W: usize> {
    lengths: [u16; W],
    powers: [u16; W],
    sums: [u16; W],
    ring: Box<[u16]>,
    at: usize,
}

impl<const W: usize> Rolling<W> {
    /// Of these lengths; 0 for lanes that are not used.
    pub fn new(lengths: [u16; W]) -> Self {
        let power = |length: u16| (0..length).fold(1u16, |power, _| power.wrapping_mul(FACTOR));
        let longest = lengths.into_iter().max().unwrap_or(0);
        let ring = vec![0; (usize::from(longest) + 1).next_power_of_two()].into();
        Self { lengths, powers: lengths.map(power), sums: [0; W], ring, at: 0 }
    }

    /// The hash of the first lane.
    #[inline(always)]
    pub fn sum(&self) -> u16 {
        self.sums[0]
    }

    #[inline(always)]
    pub fn push(&mut self, symbol: u16) {
        let mask = self.ring.len() - 1;
        self.at = (self.at + 1) & mask;
        self.ring[self.at] = symbol;
        // Of length 0, the newest goes out at once.
        let old: [u16; W] = std::array::from_fn(|lane| {
            self.ring[self.at.wrapping_sub(usize::from(self.lengths[lane])) & mask]
        });
        for ((sum, old), power) in self.sums.iter_mut().zip(old).zip(self.powers) {
            *sum = sum.wrapping_mul(FACTOR).wrapping_add(symbol).wrapping_sub(old.wrapping_mul(power));
        }
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
pub struct History<const W: usize> {
    contexts: [Option<Context>; W],
    events: Rolling<W>,
    path: Option<Rolling<W>>,
    /// The last outcomes, the newest in bit 0; a target gives two bits.
    pub last: u32,
    /// How often the innermost loop was repeated: its backward branch was taken so many times in a row.
    iterations: u16,
    /// The backward branch of that loop.
    inner: u32,
    /// Branches whose own outcomes are kept.
    locals: Box<[Local]>,
    /// Some context is not of events only.
    mixed: bool,
}

impl<const W: usize> History<W> {
    /// For these contexts, with so many branches whose own outcomes are kept.
    pub fn new(contexts: [Option<Context>; W], locals: usize) -> Self {
        let events = contexts.map(|context| match context {
            Some(Context::Events(length) | Context::Iterations(length)) => length,
            _ => 0,
        });
        let path = contexts.map(|context| if let Some(Context::Path(length)) = context { length } else { 0 });
        Self {
            contexts,
            events: Rolling::new(events),
            path: path.iter().any(|&length| length > 0).then(|| Rolling::new(path)),
            last: 0,
            iterations: 0,
            inner: 0,
            locals: vec![Local::default(); locals].into(),
            mixed: contexts.iter().flatten().any(|context| !matches!(context, Context::Events(_))),
        }
    }

    #[inline(always)]
    fn slot(&self, key: u32) -> usize {
        ((u64::from(key) * self.locals.len() as u64) >> 32) as usize
    }

    /// A number for each context at this branch.
    #[inline(always)]
    pub fn contexts(&self, key: u32) -> [u16; W] {
        let mut sums = self.events.sums;
        if self.mixed {
            self.mix(key, &mut sums);
        }
        sums
    }

    #[inline(always)]
    fn mix(&self, key: u32, sums: &mut [u16; W]) {
        let local = self.locals.get(self.slot(key)).copied().unwrap_or_default();
        for (lane, (sum, context)) in sums.iter_mut().zip(self.contexts).enumerate() {
            let Some(context) = context else { break };
            match context {
                Context::Events(_) => {}
                Context::Iterations(_) => *sum ^= (self.iterations + 1).wrapping_mul(0x9E37),
                Context::Local(length) => *sum = local.outcomes & ((1u32 << length) - 1) as u16,
                Context::Runs => {
                    *sum = local.run.wrapping_mul(0x9E35) ^ local.other << 1 ^ (local.outcomes & 1) << 15;
                }
                Context::Loop => {
                    let phase = match local.run.cmp(&local.before) {
                        std::cmp::Ordering::Less => 0,
                        std::cmp::Ordering::Equal => 1,
                        std::cmp::Ordering::Greater => 2,
                    };
                    let round = if local.run < 4 { local.run } else { 0 };
                    *sum = round << 4 | phase << 1 | (local.outcomes & 1);
                }
                Context::Path(_) => *sum = self.path.as_ref().map_or(0, |path| path.sums[lane]),
            }
        }
    }

    /// The branch of this key had an outcome, as far as only it is concerned.
    #[inline(always)]
    pub fn local(&mut self, key: u32, taken: bool) {
        let slot = self.slot(key);
        if let Some(local) = self.locals.get_mut(slot) {
            local.update(taken);
        }
    }

    /// A conditional branch was executed; `backward` says where it goes when it is taken.
    #[inline(always)]
    pub fn outcome(&mut self, key: u32, backward: bool, taken: bool) {
        self.last = self.last << 1 | u32::from(taken);
        self.events.push(1 + u16::from(taken));
        if backward && taken {
            self.iterations =
                if self.inner == key { (self.iterations + 1) & ((1 << ITERATION_BITS) - 1) } else { 1 };
            self.inner = key;
        } else if backward && self.inner == key {
            self.iterations = 0;
        }
        if taken {
            self.step(key);
        }
    }

    /// An indirect branch went there.
    #[inline(always)]
    pub fn target(&mut self, target: u32) {
        self.last = self.last << 2 | target >> 30;
        self.events.push((target >> 16) as u16 & 0xFF);
        self.step(target);
    }

    /// Control went somewhere: one step on the path.
    #[inline(always)]
    pub fn step(&mut self, key: u32) {
        if let Some(path) = &mut self.path {
            path.push((key >> 16) as u16);
        }
    }
}
