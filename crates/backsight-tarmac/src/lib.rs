//! Tarmac logs: what Arm's simulators and RTL testbenches write of every instruction, register and access, as text.
//!
//! There is no grammar that all producers follow. Two families of lines are read here, in any mixture: those of Fast Models,
//! gem5 and some testbenches (`IT`, `MR4`), and those of Cycle Models and the RTL of larger cores (`ES`, `LD`). A line becomes
//! a [`Packet`]; a line that makes no sense becomes one that says why, and reading goes on with the next.
//!
//! ```
//! use backsight_tarmac::{Config, Decoder, Line};
//! let mut decoder = Decoder::new(&Config::default());
//! let mut opcodes = Vec::new();
//! decoder.feed(b"17 clk IT (17) 00008044 e2811004 A svc_s : ADD r1,r1,#4\n", &mut |packet| {
//!     if let Line::Instruction(instruction) = packet.value.line {
//!         opcodes.push((instruction.address, instruction.opcode));
//!     }
//! });
//! assert_eq!(opcodes, [(0x8044, 0xE281_1004)]);
//! ```
//!
//! # What is where
//!
//! `words`: how a line is split; `head`: time, core and type of a line; `fast`: the lines that are most of a log; `instruction`, `register`, `memory`, `exception`: what
//! follows them; `machine`: registers and memory out of the lines; `names`: names of registers; `packet`: what comes
//! out, and its fields; `decode`: lines in a stream of bytes; `write`: the way back, to lines.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod decode;
mod exception;
mod fast;
mod head;
mod instruction;
mod machine;
mod memory;
mod names;
mod packet;
mod register;
mod words;
mod write;

pub use decode::{Config, Decoder, LONGEST_LINE};
pub use machine::{
    Contents, Earlier, LINE, LayerBlock, LayerLine, Machine, MemoryLine, Writer, lines_of_block,
};
pub use names::{Bank, Class, Register, register_named};
pub use packet::{
    Bad, Bytes, Exception, ExceptionKind, Instruction, Line, Memory, Mode, ModeKind, Packet, RegisterWrite,
    State,
};
pub use write::{AccessLines, Head, InstructionLine};
