//! The remote protocol of gdb: a walk through a capture as a target that gdb steps, backwards too.
//!
//! A [`Server`] takes bytes and writes answers. [`serve`] runs one over a connection; what arrives while a search is under way ends
//! it, if it is an interrupt or the end of the connection. [`listen`] waits for one connection from this machine.
//! [`commands`] are what gdb is told first: settings, and an unwinder that asks the server for the calls under way.

mod arch;
mod connection;
mod files;
mod packet;
mod script;
mod server;

pub(crate) use arch::{Arch, Holds};
pub use connection::{listen, serve};
pub use script::{arguments, commands, quoted};
pub use server::Server;
