//! Programs in the simulator.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use backsight_core::{Address, Execution, Isa, Retired};
use backsight_image::elf_headers::{ElfHeaders, PF_W, PF_X, PT_LOAD};
use backsight_sim::{Elf, Exit, Options, Simulator};

use crate::{CodeMap, Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// The number that the one process has.
const PROCESS: u32 = 1;

/// A statically linked RV64 program that is loaded and ready to run.
pub struct SimulatedProgram {
    simulator: Simulator,
    path: String,
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
        let moved = Elf::parse(file).map_err(refused)?.entry.wrapping_sub(headers.entry);
        let executable = |header: &&_| is_code(header);
        let segments = headers.programs.iter().filter(executable).filter_map(|header| {
            let end = header.offset.checked_add(header.file_size)?;
            Some(CodeSegment {
                address: header.address.wrapping_add(moved),
                offset: header.offset,
                writable: header.flags & PF_W != 0,
                bytes: file.get(usize::try_from(header.offset).ok()?..usize::try_from(end).ok()?)?.to_vec(),
            })
        });
        let segments = segments.collect();
        Ok(Self { simulator, path: path.display().to_string(), segments, stop, data: false })
    }

    /// Also hands out loads, stores and what comes to the program from outside.
    pub fn with_data(mut self) -> Self {
        self.data = true;
        self
    }

    /// Tells what code there is before the first instruction.
    fn show_code(&self, sink: &mut impl FnMut(Observation<'_>)) {
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

    fn ending(&self, exit: Exit) -> Ending {
        let ended = match exit {
            Exit::Status(status) => Ended::Status(status.into()),
            Exit::Signal(signal) => Ended::Signal(signal.into()),
            Exit::Fault(fault) => Ended::Fault(fault),
            Exit::Limit => Ended::Limit,
            Exit::Interrupted => Ended::Stopped,
            Exit::EndOfRecording => Ended::EndOfFile,
        };
        let unknown = self.simulator.unknown_system_calls().iter();
        let note = |(number, count): (&u64, &u64)| {
            format!(
                "system call {number} is not known here and failed with ENOSYS ({count} times); --qemu has more"
            )
        };
        Ending { ended, notes: unknown.map(note).collect() }
    }
}

fn is_code(header: &backsight_image::elf_headers::ProgramHeader) -> bool {
    header.kind == PT_LOAD && header.flags & PF_X != 0 && header.file_size > 0
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

    fn run(&mut self, sink: &mut impl FnMut(Observation<'_>)) -> Result<Ending, Error> {
        sink(Observation::ProcessStarts { pid: PROCESS });
        self.show_code(sink);
        let mut made = MadeCode::new(&self.segments);
        let mut each = |item: Execution| {
            if let Execution::Instruction(retired) = &item
                && made.is_possible(retired.address)
            {
                made.show(retired, sink);
            }
            sink(Observation::Execution(item));
        };
        let exit = match self.data {
            true => self.simulator.run_with_accesses(&mut each),
            false => self.simulator.run(&mut each),
        };
        Ok(self.ending(exit))
    }
}

/// Code that the program makes while it runs, or that it may change: it shows when it is executed.
struct MadeCode {
    /// The largest segment that cannot change: where instructions usually are.
    start: u64,
    length: u64,
    /// The other segments that cannot change: first address and length.
    others: Vec<(u64, u64)>,
    /// What was shown.
    shown: HashMap<u64, u32>,
}

impl MadeCode {
    fn new(segments: &[CodeSegment]) -> Self {
        let fixed = segments.iter().filter(|segment| !segment.writable);
        let mut others: Vec<_> = fixed.map(|segment| (segment.address, segment.bytes.len() as u64)).collect();
        others.sort_by_key(|&(_, length)| length);
        let (start, length) = others.pop().unwrap_or_default();
        Self { start, length, others, shown: HashMap::new() }
    }

    #[inline(always)]
    fn is_possible(&self, address: Address) -> bool {
        address.0.wrapping_sub(self.start) >= self.length
    }

    #[cold]
    fn show(&mut self, retired: &Retired, sink: &mut impl FnMut(Observation<'_>)) {
        let address = retired.address;
        let fixed = |&(start, length): &(u64, u64)| address.0.wrapping_sub(start) < length;
        if self.others.iter().any(fixed)
            || self.shown.insert(address.0, retired.opcode) == Some(retired.opcode)
        {
            return;
        }
        let bytes = retired.opcode.to_le_bytes();
        sink(Observation::Code { address, bytes: bytes.get(..retired.size.into()).unwrap_or(&bytes) });
    }
}
