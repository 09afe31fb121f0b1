//! What the listing that users of OpenCSD know shows after the name of a packet.

use core::fmt;

use backsight_core::describe::write_text;

use super::{Branch, Packet, WaypointUpdate};

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
            Packet::Branch(Branch { address, is_complete: true, .. })
            | Packet::WaypointUpdate(WaypointUpdate { address, is_complete: true, .. }) => {
                write!(f, "; Addr=0x{address:08X}; ")
            }
            Packet::Branch(_) | Packet::WaypointUpdate(_) => Ok(()),
            packet => write_text(packet, f),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use backsight_core::{Address, Isa};

    use super::*;

    #[test]
    fn a_waypoint_update_is_written_as_a_branch() {
        let update = WaypointUpdate {
            address: Address(0xE000_81FC),
            is_complete: true,
            isa: Isa::A32,
            bytes: 5,
            alt_isa: None,
        };
        assert_eq!(opencsd(&Packet::WaypointUpdate(update)).to_string(), "; Addr=0xE00081FC; ");
        // That listing marks digits that are not known, where we have none.
        let begun = WaypointUpdate { is_complete: false, ..update };
        assert_eq!(opencsd(&Packet::WaypointUpdate(begun)).to_string(), "");
    }
}
