//! Trace units: what they send, and what decoders and followers make of it.

mod blocks;
mod etm;
mod etm4;
mod etm4_elements;
mod etm4_losses;
mod etrace;
mod etrace_corpus;
mod first_capture;
mod recorded;
mod second_opinion;
#[path = "../support/mod.rs"]
mod support;
