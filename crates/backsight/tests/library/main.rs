//! The library as its users see it. One program: each one more would compile every protocol again.

mod call_pieces;
mod decode;
mod execution_pieces;
mod harts;
mod json;
mod moments;
mod over_time;
mod packet_pieces;
mod page;
mod perf;
mod pieces;
mod processes;
mod searches;
mod shared_code;
mod sifive;
mod sources;
mod stacks;
mod states;
mod tarmac;
mod time_axis;
