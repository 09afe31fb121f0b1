//! What the listing that users of OpenCSD know shows after the name of a packet.

use core::fmt;

use backsight_core::describe::write_text;

use super::Packet;

/// What that listing shows after the name: the atoms, the address, or the other fields.
pub fn opencsd(packet: &Packet) -> impl fmt::Display {
    OpencsdText(*packet)
}

struct OpencsdText(Packet);

impl fmt::Display for OpencsdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Packet::Atoms(atoms) => {
                write!(f, "; {atoms}")?;
                atoms.cycles.map_or(Ok(()), |cycles| write!(f, "; Cycles={cycles}"))
            }
            Packet::ISync(sync) => write!(f, "({}); Addr=0x{:08x}; ", sync.reason.words(), sync.address),
            Packet::Branch(branch) if branch.is_complete => write!(f, "; Addr=0x{:08X}; ", branch.address),
            Packet::Branch(_) => Ok(()),
            packet => write_text(packet, f),
        }
    }
}
