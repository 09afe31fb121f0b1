//! The simulator: programs that it runs, what it reports of them, and what it refuses.

mod bad_input;
mod blocks;
mod events;
mod libc;
mod programs;
mod qemu;
mod support;
