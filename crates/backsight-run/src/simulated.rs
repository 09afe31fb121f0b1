//! Programs in the simulator.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_core::{Address, Execution, Input, Isa, RetiredBlocks};
use backsight_image::elf_headers::{ElfHeaders, PF_W, PF_X, PT_LOAD, ProgramHeader};
use backsight_sim::{Event, Exit, Hart, Observer, Options, Simulator, Watch};

use crate::{CodeMap, Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// The number that the one process has.
const PROCESS: u32 = 1;

/// A statically linked RV64 program that is loaded and ready to run.
pub struct SimulatedProgram {
    simulator: Simulator,
    path: PathBuf,
    segments: Vec<CodeSegment>,
    stop: Stop,
    data: bool,
}

/// Code that is there from the beginning.
struct CodeSegment {
    address: u64,
    offset: u64,
    writable: bool,
    bytes: Vec<u8>,
}

impl CodeSegment {
    fn new(header: &ProgramHeader, file: &[u8], bias: u64) -> Option<Self> {
        if header.kind != PT_LOAD || header.flags & PF_X == 0 || header.file_size == 0 {
            return None;
        }
        let start = usize::try_from(header.offset).ok()?;
        let bytes = file.get(start..)?.get(..usize::try_from(header.file_size).ok()?)?.to_vec();
        let (address, writable) = (header.address.wrapping_add(bias), header.flags & PF_W != 0);
        Some(Self { address, offset: header.offset, writable, bytes })
    }
}

impl SimulatedProgram {
    /// Loads the program that was read from `path`. Its [`stop`](ExecutionSource::stop) is the simulator's flag for
    /// interrupts.
    ///
    /// # Errors
    /// If it is no program that the simulator can run.
    pub fn load(path: &Path, file: &[u8], options: Options) -> Result<Self, Error> {
        let refused = |error| Error::Simulator { program: path.to_owned(), error };
        let stop = Stop::of(Arc::clone(&options.interrupt));
        let simulator = Simulator::load(file, options).map_err(refused)?;
        let headers = ElfHeaders::parse(file).map_err(|error| refused(error.into()))?;
        let segment = |header: &ProgramHeader| CodeSegment::new(header, file, simulator.bias());
        let segments = headers.programs.iter().filter_map(segment).collect();
        Ok(Self { simulator, path: path.to_owned(), segments, stop, data: false })
    }

    /// Also hands out loads, stores and what comes to the program from outside.
    pub fn with_data(mut self) -> Self {
        self.data = true;
        self
    }

    /// Shows what code there is before the first instruction.
    fn show_code(&self, sink: &mut dyn FnMut(Observation<'_>)) {
        for segment in &self.segments {
            let address = Address(segment.address);
            sink(Observation::Map(CodeMap {
                address,
                length: segment.bytes.len() as u64,
                offset: segment.offset,
                path: &self.path,
                program: true,
                writable: segment.writable,
            }));
            sink(Observation::Code { address, bytes: &segment.bytes });
        }
    }

    /// The simulator is compiled for one receiver.
    fn run_observed<const BLOCKS: bool>(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Ending {
        sink(Observation::ProcessStarts { pid: PROCESS });
        self.show_code(sink);
        let exit = if self.data {
            let first = Some(Box::new(self.simulator.hart().clone()));
            let mut observer = DataObserver { sink, first, thread: 0, calls: HashMap::new() };
            self.simulator.observe(Watch { accesses: true, external: true }, &mut observer)
        } else {
            self.simulator.observe(Watch::default(), &mut PlainObserver::<BLOCKS>(sink))
        };
        self.ending(exit)
    }

    fn ending(&self, exit: Exit) -> Ending {
        let ended = match exit {
            Exit::Status(status) => Ended::Status(status.into()),
            Exit::Signal(signal) => Ended::Signal(signal.into()),
            Exit::Fault(fault) => Ended::Fault(fault),
            Exit::Limit => Ended::Limit,
            Exit::Interrupted => Ended::Stopped,
            Exit::Deadlock => Ended::Deadlock,
            Exit::EndOfRecording => Ended::EndOfFile,
        };
        let missing = self.simulator.missing().into_iter().map(|missing| missing.to_string());
        let refused = self.simulator.refused().into_iter().map(|refused| refused.to_string());
        Ending { ended, notes: missing.chain(refused).collect() }
    }
}

impl ExecutionSource for SimulatedProgram {
    fn isa(&self) -> Isa {
        Isa::Rv64
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        Ok(self.run_observed::<false>(sink))
    }

    fn run_blocks(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        Ok(self.run_observed::<true>(sink))
    }
}

/// Passes on what is executed, and what happens to code and threads.
struct PlainObserver<'a, const BLOCKS: bool>(&'a mut dyn FnMut(Observation<'_>));

impl<const BLOCKS: bool> Observer for PlainObserver<'_, BLOCKS> {
    const BLOCKS: bool = BLOCKS;

    #[inline(always)]
    fn blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        (self.0)(Observation::Blocks(blocks));
    }

    #[inline(always)]
    fn execution(&mut self, item: Execution) {
        (self.0)(Observation::Execution(item));
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::ThreadStarts { thread, tid } => (self.0)(Observation::ThreadStarts { thread, tid }),
            Event::ThreadEnds { thread } => (self.0)(Observation::ThreadEnds { thread }),
            Event::Output { stream, bytes } => (self.0)(Observation::Output { stream, bytes }),
            Event::Code { address, bytes } => (self.0)(Observation::Code { address, bytes }),
            _ => {}
        }
    }
}

/// Passes on data, too.
struct DataObserver<'a> {
    sink: &'a mut dyn FnMut(Observation<'_>),
    /// The registers that the program begins with, until they were handed out.
    first: Option<Box<Hart>>,
    thread: u32,
    /// Threads in a system call: where they go on if it just returns.
    calls: HashMap<u32, u64>,
}

impl DataObserver<'_> {
    fn input(&mut self, input: Input) {
        (self.sink)(Observation::Execution(Execution::Input(input)));
    }

    /// All registers of RV64, as DWARF numbers them: x0 to x31, f0 to f31, control and status registers from 4096 on.
    fn registers(&mut self, hart: &Hart) {
        const FCSR: u16 = 4096 + 3;
        let integers = (0..).zip(hart.integers()).skip(1);
        let floats = (32..).zip(hart.floats().iter().copied());
        let fcsr = (FCSR, u64::from(hart.frm) << 5 | u64::from(hart.fflags));
        for (number, value) in integers.chain(floats).chain([fcsr]) {
            self.input(Input::Register { number, value });
        }
    }
}

impl Observer for DataObserver<'_> {
    fn execution(&mut self, item: Execution) {
        const ECALL: u32 = 0x73;
        match item {
            Execution::Thread(thread) => self.thread = thread,
            Execution::Instruction(retired) if retired.opcode == ECALL => {
                self.calls.insert(self.thread, retired.next.0);
            }
            _ => {}
        }
        (self.sink)(Observation::Execution(item));
        if matches!(item, Execution::Context(_))
            && let Some(hart) = self.first.take()
        {
            self.registers(&hart);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Written { address, bytes } => {
                Input::written(address, bytes).for_each(|input| self.input(input))
            }
            Event::Cleared { address, length } => self.input(Input::Cleared { address, length }),
            Event::Time(time) => self.input(Input::Counter(time)),
            Event::Registers(hart) => match self.calls.remove(&self.thread) {
                Some(next) if next == hart.pc => self.input(Input::Result(hart.x(10))),
                _ => self.registers(hart),
            },
            event => PlainObserver::<false>(&mut *self.sink).event(event),
        }
    }
}
