//! The Debug Adapter Protocol: a walk through a capture for editors, which step it, backwards too.
//!
//! [`serve`] speaks it over a connection: it waits for `launch`, has the walk made by a [`Launcher`], and serves it until the editor goes
//! away. What arrives while a search is under way ends it, if it is `pause`, `cancel` of that request, or the end of the connection.
//! A [`Server`] takes the messages of one walk.

mod breakpoints;
mod connection;
mod disassembly;
mod frames;
mod message;
mod motion;
mod server;
mod sources;
mod wire;

pub use connection::{Launcher, Walk, serve};
pub use server::{Server, Settings};
