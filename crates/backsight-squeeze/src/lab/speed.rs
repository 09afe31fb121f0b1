//! How fast schemes pack and unpack.

use crate::code::Code;
use crate::data::accesses::DataScheme;
use crate::pack::{Chunk, Packer, Unpacker};
use crate::scheme::Scheme;
use backsight_core::{Address, Execution, ExecutionSink, Retired, RetiredBlock, RetiredBlocks};
use backsight_sim::{Observer, Simulator, Watch};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What a program executed, block by block, in memory: so that nothing is measured but the scheme.
#[derive(Debug, Default)]
pub(super) struct Executed {
    codes: Vec<Vec<Retired>>,
    numbers: HashMap<u64, usize>,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Block { code: usize, next: Address, taken: bool },
    Item(Execution),
}

impl Executed {
    /// Runs a program.
    pub fn record(simulator: &mut Simulator) -> Self {
        let mut executed = Self::default();
        simulator.observe(Watch::default(), &mut executed);
        executed
    }
}

impl ExecutionSink for Executed {
    fn item(&mut self, item: Execution) {
        self.steps.push(Step::Item(item));
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        let Self { codes, numbers, steps } = self;
        let code = *numbers.entry(block.number).or_insert_with(|| {
            codes.push(block.code.to_vec());
            codes.len() - 1
        });
        steps.push(Step::Block { code, next: block.next, taken: block.taken });
    }
}

impl Observer for Executed {
    const BLOCKS: bool = true;

    fn execution(&mut self, item: Execution) {
        self.item(item);
    }

    fn blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        blocks.iter().for_each(|block| self.block(&block));
    }
}

/// A hash of every instruction, in order; of other items, that they are there.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn put(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    }
}

impl ExecutionSink for Digest {
    fn item(&mut self, item: Execution) {
        match item {
            Execution::Instruction(retired) => {
                self.put(retired.address.0);
                self.put(retired.next.0 << 1 | u64::from(retired.taken));
                self.put(u64::from(retired.opcode) << 8 | u64::from(retired.size));
            }
            _ => self.put(u64::MAX),
        }
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        block.instructions().for_each(|retired| self.item(Execution::Instruction(retired)));
    }
}

impl Executed {
    fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for step in &self.steps {
            match *step {
                Step::Item(item) => digest.item(item),
                Step::Block { code, next, taken } => {
                    digest.block(&RetiredBlock { number: code as u64, code: &self.codes[code], next, taken });
                }
            }
        }
        digest.0
    }
}

/// The time that this thread had a processor, where the system says so. It is counted in ticks.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// So much of it can be believed.
const ENOUGH: Duration = Duration::from_millis(40);

/// How long `work` takes: the time that it had a processor, or what passed if that is too short to be counted.
fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (begin, before) = (Instant::now(), processor_time());
    let done = work();
    let counted = processor_time().zip(before).map(|(after, before)| after - before);
    (done, counted.filter(|&time| time >= ENOUGH).unwrap_or_else(|| begin.elapsed()))
}

fn pack(scheme: &Scheme, code: &Code, executed: &Executed) -> Result<Vec<Chunk>, String> {
    let mut packer = Packer::new(scheme, DataScheme::default(), code.clone());
    let mut chunks = Vec::new();
    let mut push = |packer: &mut Packer, item: &Execution| -> Result<(), String> {
        chunks.extend(packer.push(item).map_err(|unfit| unfit.to_string())?.map(|chunk| *chunk));
        Ok(())
    };
    for step in &executed.steps {
        match *step {
            Step::Item(item) => push(&mut packer, &item)?,
            Step::Block { code, next, taken } => {
                let block = RetiredBlock { number: code as u64, code: &executed.codes[code], next, taken };
                if !packer.push_block(&block) {
                    for retired in block.instructions() {
                        push(&mut packer, &Execution::Instruction(retired))?;
                    }
                }
            }
        }
    }
    chunks.push(packer.flush());
    Ok(chunks)
}

/// Adds up where instructions go: not all is left out by the compiler.
#[derive(Default)]
struct Sum(u64);

impl ExecutionSink for Sum {
    #[inline]
    fn item(&mut self, item: Execution) {
        if let Execution::Instruction(retired) = item {
            self.0 = self.0.wrapping_add(retired.next.0);
        }
    }

    #[inline]
    fn block(&mut self, block: &RetiredBlock<'_>) {
        self.0 = self.0.wrapping_add(block.next.0 + block.code.len() as u64);
    }
}

fn unpack<S: ExecutionSink + Default>(scheme: &Scheme, code: &Code, chunks: &[Chunk]) -> Result<S, String> {
    let mut unpacker = Unpacker::new(scheme, DataScheme::default(), code.clone());
    let mut sink = S::default();
    for chunk in chunks {
        unpacker.unpack_blocks(chunk, &mut sink).map_err(|damage| damage.to_string())?;
    }
    Ok(sink)
}

/// Instructions a second of this thread, packing and unpacking; the best of `times`.
pub(super) fn speed(
    scheme: &Scheme,
    code: &Code,
    executed: &Executed,
    times: u32,
) -> Result<[f64; 2], String> {
    let mut best = [Duration::MAX; 2];
    let mut instructions = 0;
    for round in 0..times.max(1) {
        let (chunks, packing) = time(|| pack(scheme, code, executed));
        let chunks = chunks?;
        let (sum, unpacking) = time(|| unpack::<Sum>(scheme, code, &chunks));
        std::hint::black_box(sum?.0);
        if round == 0 && unpack::<Digest>(scheme, code, &chunks)?.0 != executed.digest() {
            return Err(format!("{}: what comes back is not what went in", scheme.name()));
        }
        instructions = chunks.iter().map(|chunk| chunk.records.instructions).sum();
        best = [best[0].min(packing), best[1].min(unpacking)];
    }
    Ok(best.map(|time| instructions as f64 / time.as_secs_f64()))
}
