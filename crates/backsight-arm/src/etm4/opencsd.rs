//! What the listing that users of OpenCSD know shows after the name of a packet.

use core::fmt::{self, Write as _};

use backsight_core::describe::write_text;

use super::Packet;

/// What that listing shows after the name: the atoms, or the address and what comes with it, or the other fields in
/// brackets.
pub fn opencsd(packet: &Packet) -> impl fmt::Display {
    OpencsdText(*packet)
}

struct OpencsdText(Packet);

impl fmt::Display for OpencsdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = &self.0;
        if let Packet::Atoms(atoms) = packet {
            return write!(f, "; {atoms}");
        }
        let Some(address) = packet.address() else {
            let mut bracketed = Bracketed { out: f, is_open: false };
            write_text(packet, &mut bracketed)?;
            return bracketed.close();
        };
        write!(f, "; Addr=0x{:016X}; ", address.address)?;
        match packet {
            Packet::AddressContext(_, context) => write_text(context, f),
            Packet::Q(q) => q.count.map_or(Ok(()), |count| write!(f, "Count={count:#x}")),
            _ => Ok(()),
        }
    }
}

/// Puts brackets around what is written, if anything is.
struct Bracketed<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    is_open: bool,
}

impl fmt::Write for Bracketed<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.is_open && !text.is_empty() {
            self.is_open = true;
            self.out.write_str("; [")?;
        }
        self.out.write_str(text)
    }
}

impl Bracketed<'_, '_> {
    fn close(self) -> fmt::Result {
        if self.is_open { self.out.write_char(']') } else { Ok(()) }
    }
}
