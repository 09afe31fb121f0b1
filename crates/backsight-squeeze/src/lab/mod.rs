//! The laboratory: many schemes over many programs.
//!
//! A trace port takes one bit a cycle, and an instruction retires in each: the bits of a scheme over time say how large
//! the buffer before the port must be, and how busy the port is.

pub mod data;
pub mod gates;
pub mod plot;
pub mod published;
pub mod report;
pub mod run;
mod speed;

use crate::block::{Block, Compressor, Share};
use crate::code::{Code, Section};
use crate::notes::Note;
use crate::scheme::{AnyCompressor, Scheme};
use crate::split::{Parts, Pushed, Splitter};
use backsight_core::Isa;
use backsight_sim::{Elf, ElfError};

/// A program to measure with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The name in tables.
    pub name: String,
    /// The file with its standard input.
    pub input: Option<String>,
    /// The compressed trace of the run, if it was recorded; else the program is simulated.
    pub recorded: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Case {
    /// Reads a list of them: `NAME INPUT|- PROGRAM [ARGUMENT …]`, one a line; or `NAME =TRACE PROGRAM` for a run that was recorded.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                let mut words = line.split_whitespace().map(str::to_owned);
                let (Some(name), Some(input)) = (words.next(), words.next()) else {
                    return Err(format!("line {number}: NAME INPUT PROGRAM … is expected"));
                };
                let command: Vec<_> = words.collect();
                if command.is_empty() {
                    return Err(format!("line {number}: it does not say which program to run"));
                }
                let recorded = input.strip_prefix('=').map(str::to_owned);
                let input = (input != "-" && recorded.is_none()).then_some(input);
                Ok(Self { name, input, recorded, command })
            })
            .collect()
    }
}

/// The code of a static RV64 program.
pub fn code_of(file: &[u8]) -> Result<Code, ElfError> {
    let elf = Elf::parse(file)?;
    let executable = elf.segments.iter().filter(|segment| segment.flags & 1 != 0);
    let sections =
        executable.map(|segment| Section { address: segment.address, bytes: segment.bytes.to_vec() });
    Ok(Code::new(Isa::Rv64, sections.collect()))
}

/// What a scheme made of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bits of all records.
    pub bits: u64,
    /// What they are for.
    pub shares: Vec<Share>,
    /// The most bits that waited for a port of one bit a cycle.
    pub buffer: u64,
    /// Bits of each [`WINDOW`] instructions.
    pub windows: Vec<u64>,
}

/// Instructions over which bandwidth is measured.
pub const WINDOW: u64 = 1 << 16;

/// Several schemes over one run, in one go.
pub struct Bench {
    code: Code,
    splitter: Splitter,
    compressors: Compressors,
    instructions: u64,
}

struct Compressors(Vec<Port>);

/// A compressor and the port after it.
struct Port {
    compressor: AnyCompressor,
    /// Bits made so far, and those that wait.
    made: u64,
    waiting: u64,
    most: u64,
    cycles: u64,
    windows: Vec<u64>,
}

impl Port {
    fn new(compressor: AnyCompressor) -> Self {
        Self { compressor, made: 0, waiting: 0, most: 0, cycles: 0, windows: vec![0] }
    }

    #[inline]
    fn push(&mut self, block: &Block, code: &mut Code) {
        self.compressor.push(block, code);
        let made = self.compressor.waiting();
        let cycles = u64::from(block.count);
        // The block's bits come with its last instruction.
        self.waiting = self.waiting.saturating_sub(cycles) + (made - self.made);
        self.most = self.most.max(self.waiting);
        if self.cycles / WINDOW >= self.windows.len() as u64 {
            self.windows.resize((self.cycles / WINDOW) as usize + 1, 0);
        }
        if let Some(window) = self.windows.last_mut() {
            *window += made - self.made;
        }
        self.cycles += cycles;
        self.made = made;
    }
}

impl Parts for Compressors {
    fn block(&mut self, block: &Block, code: &mut Code) {
        self.0.iter_mut().for_each(|port| port.push(block, code));
    }

    fn note(&mut self, _at: u64, _note: &Note) {}
}

impl Bench {
    /// These schemes over a run of this code.
    pub fn new(schemes: &[Scheme], code: Code) -> Self {
        let bits = schemes.iter().map(Scheme::address_bits).min().unwrap_or(64);
        let compressors = Compressors(schemes.iter().map(|scheme| Port::new(scheme.compressor())).collect());
        Self { code, splitter: Splitter::new(bits), compressors, instructions: 0 }
    }

    /// Takes an item of the run.
    #[inline]
    pub fn push(&mut self, item: &backsight_core::Execution) -> Result<(), crate::Unfit> {
        let pushed = self.splitter.push(item, &mut self.code, &mut self.compressors)?;
        if let backsight_core::Execution::Instruction(retired) = item {
            self.instructions += 1;
            if pushed == Pushed::Changed {
                self.splitter.flush(&mut self.code, &mut self.compressors);
                self.splitter.forget(retired, &mut self.code)?;
                self.splitter.push(item, &mut self.code, &mut self.compressors)?;
            }
        }
        Ok(())
    }

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// What each scheme made of it.
    pub fn finish(mut self) -> Vec<Outcome> {
        self.splitter.flush(&mut self.code, &mut self.compressors);
        let code = &mut self.code;
        let outcome = |mut port: Port| {
            let bits = port.compressor.flush(code).bits;
            Outcome { bits, shares: port.compressor.shares(), buffer: port.most, windows: port.windows }
        };
        self.compressors.0.into_iter().map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_what_is_simulated_and_what_was_recorded() {
        let cases = Case::list("# programs\nsort input/a sort -n\n\nlua =runs/lua.btmbp lua\n").unwrap();
        let [sort, lua] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!((sort.input.as_deref(), sort.recorded.as_deref()), (Some("input/a"), None));
        assert_eq!(sort.command, ["sort", "-n"]);
        assert_eq!((lua.input.as_deref(), lua.recorded.as_deref()), (None, Some("runs/lua.btmbp")));
        assert!(Case::list("lua =runs/lua.btmbp").unwrap_err().contains("line 1"));
    }
}
