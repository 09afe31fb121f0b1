//! Two-byte instructions: the C extension, Zcb, and where the processor has them Zcmp and Zcmt.

use backsight_core::Address;

use super::{Builder, Decoded, JumpKind, Operation, Set, Source};
use crate::table::{bits, sign_extend};
use crate::{Class, Flags};

pub(super) fn decode(set: Set, opcode: u32, address: Address) -> Decoded {
    let new = Builder { set, address, size: 2 };
    if opcode == 0 {
        return new.undefined();
    }
    match (bits(opcode, 1, 0), bits(opcode, 15, 13)) {
        (0, 0b001..=0b011) => new.load(),
        // Zcb: c.lbu, c.lhu, c.lh, then c.sb, c.sh.
        (0, 0b100) if bits(opcode, 12, 11) == 0 => new.load(),
        (0, 0b100) if bits(opcode, 12, 11) == 1 => new.store(),
        (0, 0b101..=0b111) => new.store(),

        (1, 0b001) if !set.wide => new.jump(1, j_immediate(opcode)),
        (1, 0b011) => upper(new, opcode),
        (1, 0b101) => new.jump(0, j_immediate(opcode)),
        (1, 0b110 | 0b111) => new.branch(b_immediate(opcode)),

        (2, 0b001..=0b011) => new.load(),
        (2, 0b100) => register_jump(new, opcode),
        (2, 0b101) if set.zcmp && bits(opcode, 12, 11) == 0b11 => push_pop(new, opcode),
        (2, 0b101) if set.zcmp && bits(opcode, 12, 10) == 0b011 => new.other(),
        (2, 0b101) if set.zcmt && bits(opcode, 12, 10) == 0 => table_jump(new, opcode),
        (2, 0b101..=0b111) => new.store(),
        _ => new.other(),
    }
}

/// c.lui, except that x2 means c.addi16sp, and an immediate of 0 is something else again.
fn upper(new: Builder, opcode: u32) -> Decoded {
    let (rd, immediate) = (bits(opcode, 11, 7), bits(opcode, 12, 12) << 5 | bits(opcode, 6, 2));
    if rd == 2 || immediate == 0 {
        return new.other();
    }
    new.upper(rd, (sign_extend(immediate, 6) << 12) as u32, false)
}

/// c.jr, c.jalr and c.ebreak are c.mv and c.add with x0 as source.
fn register_jump(new: Builder, opcode: u32) -> Decoded {
    let (link, rs1, rs2) = (bits(opcode, 12, 12), bits(opcode, 11, 7), bits(opcode, 6, 2));
    match (link, rs1, rs2) {
        (1, 0, 0) => new.with(Operation::Breakpoint, Class::Other, Flags::NONE),
        (_, 1.., 0) => new.jump_register(link, rs1, 0),
        _ => new.other(),
    }
}

/// cm.push, cm.pop, cm.popretz, cm.popret. Register lists below 4 are reserved.
fn push_pop(new: Builder, opcode: u32) -> Decoded {
    if bits(opcode, 7, 4) < 4 {
        return new.other();
    }
    match bits(opcode, 12, 8) {
        0b11000 => new.store(),
        0b11010 => new.load(),
        0b11100 | 0b11110 => {
            let mut decoded = new.jump_from(JumpKind::Return, Source::Stack);
            decoded.instruction.flags.load = true;
            decoded
        }
        _ => new.other(),
    }
}

/// cm.jt and cm.jalt: entries from 32 on link.
fn table_jump(new: Builder, opcode: u32) -> Decoded {
    let index = bits(opcode, 9, 2) as u8;
    let kind = if index < 32 { JumpKind::Jump } else { JumpKind::Call };
    let mut decoded = new.jump_from(kind, Source::Table { index });
    decoded.instruction.flags.load = true;
    decoded
}

/// imm[11|4|9:8|10|6|7|3:1|5] in 12:2.
fn j_immediate(opcode: u32) -> i64 {
    let value = bits(opcode, 12, 12) << 11
        | bits(opcode, 8, 8) << 10
        | bits(opcode, 10, 9) << 8
        | bits(opcode, 6, 6) << 7
        | bits(opcode, 7, 7) << 6
        | bits(opcode, 2, 2) << 5
        | bits(opcode, 11, 11) << 4
        | bits(opcode, 5, 3) << 1;
    sign_extend(value, 12)
}

/// imm[8|4:3] in 12:10, imm[7:6|2:1|5] in 6:2.
fn b_immediate(opcode: u32) -> i64 {
    let value = bits(opcode, 12, 12) << 8
        | bits(opcode, 6, 5) << 6
        | bits(opcode, 2, 2) << 5
        | bits(opcode, 11, 10) << 3
        | bits(opcode, 4, 3) << 1;
    sign_extend(value, 9)
}
