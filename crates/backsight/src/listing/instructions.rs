//! The single instructions of a range.

use backsight_core::{Address, AddressSpace, Isa};
use backsight_flow::Range;
use backsight_image::Code;
use backsight_isa::{rv, t32};

/// One instruction of a range.
pub struct RangeInstruction {
    /// Where it is.
    pub address: Address,
    /// Its bytes; none where the image no longer has them.
    pub bytes: [u8; 4],
    /// How many of them.
    pub size: u8,
}

/// Calls `each` for the instructions of a range, in order. Where sizes vary they are read from the code.
pub fn steps(range: &Range, space: AddressSpace, code: &impl Code, mut each: impl FnMut(RangeInstruction)) {
    let mut address = range.start;
    // Code from `address` on: it is looked up once for as much as lies together.
    let mut together: &[u8] = &[];
    for _ in 0..range.instructions {
        if address.0 >= range.end.0 {
            break;
        }
        if together.len() < 4 {
            together = code.bytes_at(space, address).unwrap_or_default();
        }
        let bytes = match together.first_chunk() {
            Some(bytes) => *bytes,
            None => code.opcode_at(space, address).0,
        };
        let size = size_of_instruction(range.isa, bytes).min((range.end.0 - address.0).min(4) as u8);
        each(RangeInstruction { address, bytes, size });
        address = address.plus(u64::from(size));
        together = together.get(usize::from(size)..).unwrap_or_default();
    }
}

/// Size in bytes, from the first bytes.
fn size_of_instruction(isa: Isa, bytes: [u8; 4]) -> u8 {
    let first = u16::from_le_bytes([bytes[0], bytes[1]]);
    match isa {
        Isa::A64 | Isa::A32 => 4,
        Isa::T32 | Isa::ThumbEe => t32::size(first),
        Isa::Jazelle => 1,
        Isa::Rv32 | Isa::Rv64 => rv::size(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_isa::{Class, Flags};

    #[test]
    fn every_instruction_of_a_long_range_is_given() {
        for instructions in [1, 63, 64, 65, 128, 1000] {
            let range = Range {
                start: Address(0x1000),
                end: Address(0x1000 + 4 * u64::from(instructions)),
                instructions,
                isa: Isa::A64,
                class: Class::Other,
                flags: Flags::NONE,
                last_size: 4,
                executed: true,
            };
            let mut addresses = Vec::new();
            steps(&range, AddressSpace::ANY, &backsight_image::Image::new(), |step| {
                addresses.push(step.address.0)
            });
            let expected: Vec<u64> = (range.start.0..range.end.0).step_by(4).collect();
            assert_eq!(addresses, expected);
        }
    }
}
