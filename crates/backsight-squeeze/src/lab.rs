//! The laboratory: many schemes over many programs.

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
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Case {
    /// Reads a list of them: `NAME INPUT|- PROGRAM [ARGUMENT …]`, one a line.
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
                Ok(Self { name, input: (input != "-").then_some(input), command })
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
}

/// Several schemes over one run, in one go.
pub struct Bench {
    code: Code,
    splitter: Splitter,
    compressors: Compressors,
    instructions: u64,
}

struct Compressors(Vec<AnyCompressor>);

impl Parts for Compressors {
    fn block(&mut self, block: &Block, code: &mut Code) {
        self.0.iter_mut().for_each(|compressor| compressor.push(block, code));
    }

    fn note(&mut self, _at: u64, _note: &Note) {}
}

impl Bench {
    /// These schemes over a run of this code.
    pub fn new(schemes: &[Scheme], code: Code) -> Self {
        let bits = schemes.iter().map(Scheme::address_bits).min().unwrap_or(64);
        let compressors = Compressors(schemes.iter().map(Scheme::compressor).collect());
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
        let outcome = |compressor: &mut AnyCompressor| {
            let bits = compressor.flush(code).bits;
            Outcome { bits, shares: compressor.shares() }
        };
        self.compressors.0.iter_mut().map(outcome).collect()
    }
}
