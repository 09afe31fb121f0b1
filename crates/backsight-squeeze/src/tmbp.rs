//! TMBP: a branch predictor in the trace module, and the same in the debugger.
//!
//! Both predict every branch as it retires; only mispredictions and exceptions are sent, each with the number of
//! branches (or instructions) since the last record. Outcomes come from a gshare predictor, returns from a return
//! stack, other indirect targets from a table indexed by address and path. **t** has no such table, **s** one of 32
//! entries, **b** one of 64.
//!
//! ```text
//! wrong outcome            V(branches)
//! wrong target             V(branches) 11…10 [sign] distance from the last wrong target
//! exception                0 00…0 V(instructions) address
//! V(n)                     a one for each step, 0, n
//! ```

use crate::Damage;
use crate::bits::{BitReader, BitWriter};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::{Code, Kind};
use crate::predictors::{Gshare, ReturnStack, TargetBuffer};

/// A number of variable length: its smallest size in bits, and the bits that each step adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The smallest size.
    pub size: u32,
    /// What a step adds.
    pub step: u32,
}

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tmbp {
    /// log2 of the number of outcome counters.
    pub index_bits: u32,
    /// Outcomes in the history.
    pub history_bits: u32,
    /// The lowest address bit that tables use.
    pub shift: u32,
    /// Return addresses.
    pub returns: u32,
    /// Sets of the target buffer, a power of two; 0 for none.
    pub sets: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Counts of branches.
    pub branches: Field,
    /// Distances of targets.
    pub targets: Field,
    /// Counts of instructions before exceptions.
    pub exceptions: Field,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Tmbp {
    /// tTMBP: no target buffer.
    pub const TINY: Self = Self {
        sets: 0,
        branches: Field { size: 3, step: 1 },
        targets: Field { size: 8, step: 6 },
        ..Self::BIG
    };
    /// sTMBP: 32 targets.
    pub const SMALL: Self = Self { sets: 16, ..Self::BIG };
    /// bTMBP: 64 targets.
    pub const BIG: Self = Self {
        index_bits: 9,
        history_bits: 9,
        shift: 4,
        returns: 8,
        sets: 32,
        ways: 2,
        branches: Field { size: 3, step: 2 },
        targets: Field { size: 12, step: 4 },
        exceptions: Field { size: 2, step: 4 },
        address_bits: 64,
    };

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !(1..=24).contains(&self.index_bits) || self.history_bits > 63 || self.shift > 16 {
            return Err(
                "counters are indexed by 1 to 24 bits, histories have up to 63, addresses begin at bit 16 at most",
            );
        }
        if self.sets > 0 && !self.sets.is_power_of_two() || self.sets > 1 << 16 || self.returns > 1 << 16 {
            return Err(
                "the target buffer has no sets or a power of two of them, up to 65536; so many returns too",
            );
        }
        if !(1..=16).contains(&self.ways) {
            return Err("sets of targets have 1 to 16 entries");
        }
        for field in [self.branches, self.targets, self.exceptions] {
            if !(1..=32).contains(&field.size) || !(1..=32).contains(&field.step) {
                return Err("fields begin with 1 to 32 bits, in steps of 1 to 32");
            }
        }
        crate::check_address_bits(self.address_bits)
    }

    /// The width of a target's distance after this many steps; the last is all of an address.
    fn target_bits(&self, steps: u32) -> u32 {
        (self.targets.size + steps * self.targets.step).min(self.address_bits)
    }
}

/// What both sides keep.
#[derive(Clone, Debug)]
struct Predictor {
    build: Tmbp,
    outcomes: Gshare,
    returns: ReturnStack,
    targets: TargetBuffer,
    /// The last target that was sent.
    sent: u64,
}

impl Predictor {
    fn new(build: Tmbp) -> Self {
        Self {
            build,
            outcomes: Gshare::new(build.index_bits, build.history_bits, build.shift),
            returns: ReturnStack::new(build.returns as usize),
            targets: TargetBuffer::new(build.sets as usize, build.ways as usize, build.shift),
            sent: 0,
        }
    }

    /// Where an indirect branch is predicted to go. Takes a return address off the stack.
    fn target(&mut self, kind: Kind, address: u64) -> Option<u64> {
        if kind == Kind::Return { self.returns.pop() } else { self.targets.predict(address) }
    }

    /// Notes where an indirect branch went.
    fn went(&mut self, kind: Kind, address: u64, end: u64, target: u64) {
        if kind != Kind::Return {
            self.targets.update(address, target);
        }
        if kind == Kind::IndirectCall {
            self.returns.push(end);
        }
        self.targets.step(address, true);
    }

    #[inline]
    fn outcome(&mut self, address: u64, taken: bool) {
        self.outcomes.update(address, taken);
        self.targets.step(address, taken);
    }

    /// The difference of two addresses, with a sign.
    fn distance(&self, target: u64) -> i64 {
        let unused = 64 - self.build.address_bits;
        (target.wrapping_sub(self.sent) << unused) as i64 >> unused
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.build.address_bits)
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct TmbpCompressor {
    predictor: Predictor,
    out: BitWriter,
    branches: u64,
    instructions: u64,
    total: u64,
    right: Share,
    outcome: Share,
    target: Share,
    exception: Share,
}

impl TmbpCompressor {
    /// With empty tables.
    pub fn new(build: Tmbp) -> Self {
        Self {
            predictor: Predictor::new(build),
            out: BitWriter::default(),
            branches: 0,
            instructions: 0,
            total: 0,
            right: Share::new("predicted"),
            outcome: Share::new("outcome"),
            target: Share::new("target"),
            exception: Share::new("exception"),
        }
    }

    fn put_count(&mut self) {
        let Field { size, step } = self.predictor.build.branches;
        self.out.put_number(self.branches, size, step);
        self.branches = 0;
        self.instructions = 0;
    }

    #[cold]
    fn put_exception(&mut self, address: u64) {
        let before = self.out.len();
        let build = self.predictor.build;
        self.out.put(0, 1 + build.branches.size);
        self.out.put_number(self.instructions, build.exceptions.size, build.exceptions.step);
        self.out.put(address, build.address_bits);
        self.branches = 0;
        self.instructions = 0;
        self.exception.add(self.out.len() - before);
    }

    fn put_target(&mut self, target: u64) {
        let build = self.predictor.build;
        let distance = self.predictor.distance(target);
        let size = distance.unsigned_abs();
        let needed = 64 - size.leading_zeros();
        let steps = (0..).find(|&steps| {
            let bits = build.target_bits(steps);
            bits >= needed || bits == build.address_bits
        });
        let steps = steps.unwrap_or(0);
        self.out.put_ones(steps);
        let bits = build.target_bits(steps);
        if bits == build.address_bits {
            self.out.put(target, bits);
        } else {
            self.out.put(u64::from(distance < 0), 1);
            self.out.put(size, bits);
        }
        self.predictor.sent = target;
    }

    #[inline]
    fn conditional(&mut self, block: &Block) {
        self.branches += 1;
        if self.predictor.outcomes.predict(block.last) == block.taken {
            self.right.events += 1;
        } else {
            let before = self.out.len();
            self.put_count();
            self.outcome.add(self.out.len() - before);
        }
        self.predictor.outcome(block.last, block.taken);
    }

    fn indirect(&mut self, block: &Block) {
        self.branches += 1;
        if self.predictor.target(block.kind, block.last) == Some(block.next) {
            self.right.events += 1;
        } else {
            let before = self.out.len();
            self.put_count();
            self.put_target(block.next);
            self.target.add(self.out.len() - before);
        }
        self.predictor.went(block.kind, block.last, block.end, block.next);
    }
}

impl Compressor for TmbpCompressor {
    #[inline]
    fn push(&mut self, block: &Block, _code: &mut Code) {
        if block.fresh {
            self.put_exception(block.start);
        }
        self.instructions += u64::from(block.count);
        self.total += u64::from(block.count);
        match block.kind {
            Kind::Conditional => self.conditional(block),
            Kind::Call => self.predictor.returns.push(block.end),
            Kind::Plain | Kind::Jump => {}
            Kind::Indirect | Kind::IndirectCall | Kind::Return => self.indirect(block),
        }
    }

    fn flush(&mut self, _code: &mut Code) -> Records {
        let (bytes, bits) = self.out.take();
        self.branches = 0;
        self.instructions = 0;
        Records { bytes, bits, instructions: std::mem::take(&mut self.total) }
    }

    fn waiting(&self) -> u64 {
        self.out.len()
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.right, self.outcome, self.target, self.exception]
    }
}

/// What the next record says.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The branch after this many is mispredicted.
    Branch(u64),
    /// After this many instructions control goes elsewhere.
    Exception(u64, u64),
    /// No more records: everything is as predicted.
    None,
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct TmbpDecompressor {
    predictor: Predictor,
    at: u64,
}

impl TmbpDecompressor {
    /// With empty tables.
    pub fn new(build: Tmbp) -> Self {
        Self { predictor: Predictor::new(build), at: 0 }
    }

    fn event(&self, bits: &mut BitReader<'_>) -> Result<Event, Damage> {
        if bits.is_empty() {
            return Ok(Event::None);
        }
        let build = &self.predictor.build;
        let count = bits.take_number(build.branches.size, build.branches.step)?;
        if count > 0 {
            return Ok(Event::Branch(count - 1));
        }
        let count = bits.take_number(build.exceptions.size, build.exceptions.step)?;
        Ok(Event::Exception(count, bits.take(build.address_bits)?))
    }

    fn take_target(&mut self, bits: &mut BitReader<'_>) -> Result<u64, Damage> {
        let build = self.predictor.build;
        let size = build.target_bits(bits.take_ones(64)?);
        let target = if size == build.address_bits {
            bits.take(size)?
        } else {
            let negative = bits.take(1)? == 1;
            let distance = bits.take(size)?;
            let distance = if negative { distance.wrapping_neg() } else { distance };
            self.predictor.sent.wrapping_add(distance) & self.predictor.mask()
        };
        self.predictor.sent = target;
        Ok(target)
    }
}

impl Decompressor for TmbpDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let mut bits = BitReader::new(&records.bytes, records.bits);
        let mut left = records.instructions;
        let mut event = self.event(&mut bits)?;
        while left > 0 {
            let mut most = left;
            if let Event::Exception(count, address) = event {
                if count == 0 {
                    self.at = address;
                    event = self.event(&mut bits)?;
                    continue;
                }
                most = most.min(count);
            }
            let straight = code.straight(self.at).ok_or(Damage::NoCode(self.at))?;
            let whole = u64::from(straight.count) <= most;
            let count = if whole { straight.count } else { most as u32 };
            sink(Path { start: self.at, count }, code);
            left -= u64::from(count);
            if let Event::Exception(until, _) = &mut event {
                *until -= u64::from(count);
            }
            if !whole {
                self.at = code.after(self.at, count).ok_or(Damage::NoCode(self.at))?;
                continue;
            }
            let mispredicted = match &mut event {
                Event::Branch(0) => true,
                Event::Branch(count) if straight.kind == Kind::Conditional || straight.kind.is_indirect() => {
                    *count -= 1;
                    false
                }
                _ => false,
            };
            let predictor = &mut self.predictor;
            self.at = match straight.kind {
                Kind::Plain => straight.end,
                Kind::Jump => straight.target,
                Kind::Call => {
                    predictor.returns.push(straight.end);
                    straight.target
                }
                Kind::Conditional => {
                    let taken = predictor.outcomes.predict(straight.last) != mispredicted;
                    predictor.outcome(straight.last, taken);
                    if mispredicted {
                        event = self.event(&mut bits)?;
                    }
                    if taken { straight.target } else { straight.end }
                }
                Kind::Indirect | Kind::IndirectCall | Kind::Return => {
                    let mut target = predictor.target(straight.kind, straight.last);
                    if mispredicted {
                        target = Some(self.take_target(&mut bits)?);
                        event = self.event(&mut bits)?;
                    }
                    let target = target.ok_or(Damage::Record("a branch without a prediction is not sent"))?;
                    self.predictor.went(straight.kind, straight.last, straight.end, target);
                    target
                }
            };
        }
        Ok(())
    }
}
