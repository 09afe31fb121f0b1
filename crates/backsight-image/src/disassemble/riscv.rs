//! RISC-V text, by disc-v.

use backsight_core::Address;
use disc_v::{Isa, decode_bytes};

/// The text of an instruction; `None` where the architecture has none.
pub(super) fn text(wide: bool, bytes: &[u8], address: Address) -> Option<String> {
    let isa = if wide { Isa::Rv64 } else { Isa::Rv32 };
    let instruction = decode_bytes(isa, address.0, bytes)?;
    (!instruction.is_illegal()).then(|| instruction.to_string().replace(',', ", "))
}
