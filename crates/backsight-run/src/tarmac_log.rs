//! Tarmac logs as a source.

use std::collections::BTreeMap;
use std::io::Read;

use backsight_core::{Execution, Isa, Located};
use backsight_flow::tarmac::Retirement;
use backsight_tarmac::{Config, Decoder, Line, Packet, State};

use crate::{Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 18;

/// Cores of a log, each of which is a thread. What other cores did is left out, and said.
const MOST_CORES: usize = 256;

/// What the cores of a Tarmac log did.
pub struct TarmacLog<R> {
    name: String,
    input: R,
    config: Config,
    isa: Isa,
    stop: Stop,
}

impl<R: Read> TarmacLog<R> {
    /// Opens a log that can be opened again: it is looked through for its first instruction. `name` is for messages.
    ///
    /// # Errors
    /// If it cannot be read, or has no instruction.
    pub fn open(
        name: &str,
        config: &Config,
        mut open: impl FnMut() -> std::io::Result<R>,
    ) -> Result<Self, Error> {
        let failed = |error| Error::file(name, error);
        let (mut decoder, mut first) = (Decoder::new(config), None);
        each_block(&mut open().map_err(failed)?, &mut |block| {
            decoder.feed(block, &mut |packet| {
                if let Line::Instruction(it) = packet.value.line {
                    first.get_or_insert(it.state);
                }
            });
            first.is_none()
        })
        .map_err(failed)?;
        let isa = match first {
            Some(State::A32) => Isa::A32,
            Some(State::T32) => Isa::T32,
            Some(State::A64) => Isa::A64,
            None => {
                let why = "the log has no instruction";
                return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
            }
        };
        let input = open().map_err(failed)?;
        Ok(Self { name: name.to_owned(), input, config: *config, isa, stop: Stop::new() })
    }
}

/// Reads block by block, as long as more is wanted.
fn each_block(input: &mut impl Read, each: &mut dyn FnMut(&[u8]) -> bool) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) if each(block.get(..count).unwrap_or_default()) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The cores of a log, in the order in which they came.
#[derive(Default)]
struct Cores {
    all: BTreeMap<u16, (u32, Retirement)>,
    current: Option<u32>,
    /// Lines of cores that are left out.
    left_out: u64,
}

impl Cores {
    fn push(&mut self, packet: &Located<Packet>, sink: &mut dyn FnMut(Observation<'_>)) {
        let count = self.all.len();
        if count >= MOST_CORES && !self.all.contains_key(&packet.value.core) {
            self.left_out += 1;
            return;
        }
        let new = || (count as u32, Retirement::new());
        let (thread, core) = self.all.entry(packet.value.core).or_insert_with(new);
        let current = &mut self.current;
        core.push(packet, &mut |item| give(current, *thread, item, sink));
    }

    fn finish(&mut self, sink: &mut dyn FnMut(Observation<'_>)) {
        for (thread, core) in self.all.values_mut() {
            let current = &mut self.current;
            core.finish(&mut |item| give(current, *thread, item, sink));
        }
    }
}

fn give(current: &mut Option<u32>, thread: u32, item: Execution, sink: &mut dyn FnMut(Observation<'_>)) {
    let before = current.replace(thread);
    // Without a word, everything is of the first.
    if before.unwrap_or(0) != thread {
        sink(Observation::Execution(Execution::Thread(thread)));
    }
    sink(Observation::Execution(item));
}

impl<R: Read> ExecutionSource for TarmacLog<R> {
    fn isa(&self) -> Isa {
        self.isa
    }

    fn has_threads(&self) -> bool {
        self.config.cores
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let Self { name, input, config, stop, .. } = self;
        let (mut decoder, mut cores) = (Decoder::new(config), Cores::default());
        let read = each_block(input, &mut |block| {
            decoder.feed(block, &mut |packet| cores.push(&packet, sink));
            !stop.is_requested()
        });
        read.map_err(|error| Error::file(&*name, error))?;
        decoder.finish(&mut |packet| cores.push(&packet, sink));
        cores.finish(sink);
        let mut notes = Vec::new();
        match cores.all.values().map(|(_, core)| core.gaps()).sum::<u64>() {
            0 => {}
            gaps => notes.push(format!("{name}: in {gaps} places the log does not say what was executed")),
        }
        if cores.left_out > 0 {
            notes.push(format!(
                "{name}: {} lines of cores after the first {MOST_CORES} are left out",
                cores.left_out
            ));
        }
        let ended = if stop.is_requested() { Ended::Stopped } else { Ended::EndOfFile };
        Ok(Ending { ended, notes })
    }
}
