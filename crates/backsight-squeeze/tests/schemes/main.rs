//! Compressed execution: every scheme, its files, and data beside it.

mod container;
mod data;
mod programs;
mod round_trip;
mod support;
mod unified;
mod worked_examples;
