//! Listings: what is shown of packets and of execution, in each format.

pub mod etm4;
pub mod etrace_words;
pub mod event;
pub mod instructions;
pub mod packet;
mod riscv;
