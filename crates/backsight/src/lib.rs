//! Hardware trace in, executed instructions out.
//!
//! A [`Capture`] is trace with what is known about it: [`Capture::open`] takes snapshots, trace packages and perf.data,
//! [`OpenOptions`] also bare files, readers and bytes. Its [`Buffer`]s hold the trace of [`Source`]s. Decode any or all
//! of them with one call and a closure:
//!
//! ```
//! use std::collections::BTreeMap;
//! let capture = backsight::Capture::open("captures/first")?;
//! let image = capture.code()?.image();
//! let mut functions: BTreeMap<String, u64> = BTreeMap::new();
//! capture.execution().run(|item| {
//!     if let backsight::Event::Range(range) = item.value {
//!         let symbol = image.symbolise(backsight::core::AddressSpace::ANY, range.start);
//!         let name = symbol.map_or_else(|| "?".to_owned(), |symbol| symbol.name.to_string());
//!         *functions.entry(name).or_default() += u64::from(range.instructions);
//!     }
//! })?;
//! assert_eq!(functions.values().sum::<u64>(), 1681);
//! # Ok::<(), backsight::Error>(())
//! ```
//!
//! - [`Capture::packets`], [`Capture::execution`] and [`Capture::branches`] say how far to go; the [`Decode`] they give
//!   says which buffers and sources, on how many threads, and in which order.
//! - [`Decode::run`] gives every item to a closure, [`Decode::iter`] is an iterator, [`Decode::fold`] has a state for each source on the thread of that
//!   source, [`Decode::session`] takes bytes that arrive over time. What counts or writes on all cores is a
//!   [`Consumer`](decode::Consumer): [`Decode::consume`], [`Decode::write`].
//! - Damage in the trace is data: it is listed, counted, and in the [`Summary`]. An [`Error`] is about files and options.
//! - [`detect`] says what a bare file holds that nobody describes.
//! - [`doctor`] says why a result is empty, wrong or thin.
//! - [`calls`] finds out who called whom, and what that cost.
//! - [`moments`] are places in the execution, reached without decoding all that lies before.
//! - [`states`] has registers and memory at a moment of a log.
//! - [`diff`] finds where two executions part, and where they come together again.
//! - [`listing`] writes what the program lists; [`protocol`] knows the protocols by name.
//!
//! # What is where
//!
//! The library that people depend on: `open` any capture, `code` (files and `dumps` as cores see them, and what an event
//! log says when), `decode` it (`split` into sources, `session`, `caches`: code that was read, shared by sources,
//! `parallel`, `pieces`: one source on several threads, `merge`, `timeline`: all sources on one time axis, `summary`) to
//! packets or execution, `messages` put together, `retired`: execution as single instructions, `calls`: the stack of calls,
//! kept beside execution, with functions as numbers, `moments`: windows, the index, what is found in it, the way back, `steps`: execution as single instructions in batches, `diff`: two executions side by side, `detect` (what a bare file holds that nobody describes), `doctor` (why
//! a result is empty, wrong or thin), `protocol` (one module each and one list), `listing`, `wrapped` buffers; re-exports
//! the crates below it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod calls;
pub mod decode;
pub mod detect;
pub mod diff;
pub mod doctor;
pub mod listing;
pub mod messages;
pub mod moments;
pub mod protocol;
pub mod recent;
pub mod states;
pub mod steps;

mod capture;
mod code;
mod error;
mod logs;
mod near_names;
mod open;
mod retired;
mod save;
mod settings;
mod source;
mod sources;
mod trace_events;
mod wrapped;

pub use capture::{Buffer, Capture, Contents};
pub use code::{Code, SourceCode};
pub use decode::{Decode, Item, Items, OwnedItem, Session, Summary};
pub use error::{Error, Result};
pub use open::{OpenOptions, framings};
pub use protocol::Packet;
pub use retired::RetiredInstructions;
pub use source::Source;

pub use backsight_arm::{etm4, frame, itm, stm};
pub use backsight_flow::Event;

/// Addresses, contexts, executed instructions, and what describes itself.
pub mod core {
    pub use backsight_core::{
        Access, Accounting, Address, AddressSpace, Budget, Cause, Context, Describe, Execution,
        ExecutionSink, Field, Input, Isa, Located, Mode, Printable, Privilege, Retired, RetiredBlock,
        RetiredBlocks, Security, Text, TraceId, Trap, TrapKind, Value, describe, is_harmful, leb128,
    };
}

/// What is on disk: captures as their files describe them, and files that are whole or absent.
pub mod description {
    pub use backsight_capture::{
        Buffer, Capture, Error, FileRef, Format, Image, MemoryDump, Note, Origin, Output, ReadOptions,
        Register, Settings, Source, events, whole,
    };
}

/// What followers say.
pub mod flow {
    pub use backsight_flow::{
        AccessKind, ByPath, Channel, DwtEvent, DwtMeaning, Event, Gaps, HardwareEvent, InCircuitEvent,
        NoSync, Outcome, PathId, Range, RangeNumbers, SoftwareMessage, SourceTime, Statistics, Symptom,
        SystemEvent, SystemEventKind, TimeRelation, TraceOn, TracedAccess, Transaction,
    };
}

/// Code, names and source lines.
pub mod image {
    pub use backsight_image::{
        AllowedFiles, Budget, Code, Contents, DebugInfo, DebugInfoError, DebugSource, DescribedFunction, Elf,
        ElfKind, Frame, Function, GivenFolder, Image, ImageError, ImageSpec, InlineFrame, Line, Mapping,
        Module, Naming, OverBudget, SourceFolders, SourceLine, SourceRow, Symbol, Window,
    };
    #[cfg(feature = "disassemble")]
    pub use backsight_image::{Disassembler, Disassembly};
}

/// What instructions do to control flow.
pub mod isa {
    pub use backsight_isa::{Class, Flags, Instruction, classify, classify_retired};
}

/// The packets of RISC-V traces.
pub mod riscv {
    pub use backsight_riscv::{cva6, encap, etrace, ingress, ntrace};
}
