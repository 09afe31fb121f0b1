//! A capture as a recording that debuggers walk through, forwards and backwards.
//!
//! Trace says which instructions ran; a debugger wants to stand at one of them, to see how execution came there, and to step and run
//! from there in both directions. [`replay`] is the engine for that, and knows no debugger: positions, threads, steps, searches, stacks of
//! calls, code, and what is known of registers and memory. [`gdb`] serves it by the remote protocol of gdb, [`dap`] by the Debug Adapter
//! Protocol of editors.
//!
//! # What is where
//!
//! `replay`: `chunk` (decoded instructions around a position), `calls` (their stacks of calls), `track` (one source), `search` (runs to a
//! breakpoint, on all cores), `state` (registers and memory), `recorded` (those of a recording of the same run), `traced` (memory out of data
//! trace), `watch` (stops where memory is touched), and the walk itself. `motion`: steps by instructions and lines. `code_text`: code in words. `gdb`: `packet` (framing), `arch` (target
//! descriptions), `server` (what packets ask), `files` (code that gdb may read), `script` (what gdb is told first). `console`: what a user
//! may ask in words.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod code_text;
mod console;
pub mod dap;
pub mod gdb;
pub mod motion;
pub mod replay;
