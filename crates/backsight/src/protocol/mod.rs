//! Protocols: a module each, and one row in one list.
//!
//! [`decoded`] lists them, [`named`] finds one. What captures call them, and how their bytes may be framed, is in their
//! [`Names`].

mod etm;
mod etm3;
mod etm4;
mod etm4_data;
mod etrace;
mod execution;
mod followers;
mod harts;
mod itm;
mod names;
mod ntrace;
mod packets;
mod ptm;
mod registry;
mod riscv;
mod stm;
mod stream;
pub(crate) mod tarmac;

pub use names::{IdRegister, Names};
pub use registry::{Following, Packet, decoded, named, of_format, packet_framings};
pub use stream::{Kinds, Landmark};

pub(crate) use registry::{Branches, Configuration, Described, Execution, Packets, check};
pub use stream::SavedState;
pub(crate) use stream::{Act, AnySink, AnyStream, Notes, PacketStream, Resumable, Stream, StreamSink};

use registry::{BadSetting, Never, Protocol};
