//! Commit logs of RISC-V cores and simulators as a source.

use std::io::{BufRead, Read};

use backsight_core::Isa;
use backsight_riscv::ingress::LogReader;

use crate::{Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// No line of a log is longer.
const LONGEST_LINE: u64 = 1 << 16;

/// What one hart of a log did. [`LogReader`] says which lines are understood.
pub struct CommitLog<R> {
    name: String,
    input: R,
    reader: LogReader,
    isa: Isa,
    stop: Stop,
}

impl<R: BufRead> CommitLog<R> {
    /// Reads what `hart` did. `name` is for messages.
    pub fn new(name: &str, input: R, isa: Isa, hart: u32) -> Self {
        Self { name: name.to_owned(), input, reader: LogReader::new(isa, hart), isa, stop: Stop::new() }
    }
}

impl<R: BufRead> ExecutionSource for CommitLog<R> {
    fn isa(&self) -> Isa {
        self.isa
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let Self { name, input, reader, stop, .. } = self;
        let mut each = |item| sink(Observation::Execution(item));
        let mut line = Vec::new();
        while !stop.is_requested() {
            line.clear();
            let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| Error::file(&*name, error))? == 0 {
                reader.finish(&mut each);
                return Ok(Ended::EndOfFile.into());
            }
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                return Err(Error::LongLine { name: name.clone(), longest: LONGEST_LINE });
            }
            let text = String::from_utf8_lossy(&line);
            reader.line(&text, &mut each).map_err(|error| Error::Log { name: name.clone(), error })?;
        }
        Ok(Ended::Stopped.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Execution;

    fn addresses(log: &[u8]) -> Result<Vec<u64>, Error> {
        let mut addresses = Vec::new();
        CommitLog::new("log", log, Isa::Rv64, 0).run(&mut |seen| {
            if let Observation::Execution(Execution::Instruction(retired)) = seen {
                addresses.push(retired.address.0);
            }
        })?;
        Ok(addresses)
    }

    #[test]
    fn the_instructions_of_a_log_are_executed() {
        let log =
            "core   0: 3 0x0000000000001000 (0x00200513)\ncore   0: 3 0x0000000000001004 (0x00008067)\n";
        assert_eq!(addresses(log.as_bytes()).expect("a log"), [0x1000, 0x1004]);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let error = addresses(&vec![b' '; 1 << 20]).expect_err("no log");
        assert!(error.to_string().contains("65536 bytes"), "{error}");
    }
}
