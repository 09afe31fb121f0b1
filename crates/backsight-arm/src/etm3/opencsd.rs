//! What the listing that users of OpenCSD know shows after the name of a packet.

use core::fmt;

use backsight_core::describe::write_text;

use super::{ISync, Packet};

/// What that listing shows after the name: the atoms and cycles, the address, or the other fields.
pub fn opencsd(packet: &Packet) -> impl fmt::Display {
    OpencsdText(*packet)
}

struct OpencsdText(Packet);

impl fmt::Display for OpencsdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Packet::PHeader(header) => write!(f, "; {header}"),
            Packet::ISync(ISync { reason, address: Some(address), .. }) => {
                write!(f, "({}); Addr=0x{address:08x}; ", reason.words())
            }
            Packet::Branch(branch) if branch.is_complete => write!(f, "; Addr=0x{:08X}; ", branch.address),
            Packet::Branch(_) => Ok(()),
            packet => write_text(packet, f),
        }
    }
}
