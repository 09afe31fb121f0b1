//! Data addresses: what loads and stores refer to, compressed; and the values that loads bring.
//!
//! Most addresses follow from registers whose contents a debugger can work out itself ([`registers`]): only the others
//! are sent, as they are, as Nexus packs them, or through a cache of recent addresses ([`adac`]). Load values are left
//! out where the debugger has seen the same bytes before ([`values`]); with them a program can be [replayed](replay) as a
//! whole, and then nothing else needs to be sent. In a container both go together ([`accesses`]).

pub mod accesses;
pub mod adac;
pub mod addresses;
pub mod entropy;
pub mod registers;
pub mod replay;
pub mod unified;
pub mod values;
