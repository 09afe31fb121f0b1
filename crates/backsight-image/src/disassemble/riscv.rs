//! RISC-V text: RV32GC and RV64GC, with the short names that everybody knows.

use backsight_core::Address;

mod rows;

use rows::{COMPRESSED, COMPRESSED_32, COMPRESSED_64, FULL, FULL_64};

/// One instruction: mask, value, name, operands. The letters of the operands are those of [`operand`]; other
/// characters stand for themselves. In names `?` is the format of a floating-point number and `%` the width of an
/// atomic access.
type Row = (u32, u32, &'static str, &'static str);

pub(super) fn disassemble(wide: bool, bytes: &[u8], address: Address) -> Option<String> {
    let (opcode, rows, only): (u32, &[Row], &[Row]) = match *bytes {
        [a, b] => (
            u32::from(u16::from_le_bytes([a, b])),
            COMPRESSED,
            if wide { COMPRESSED_64 } else { COMPRESSED_32 },
        ),
        [a, b, c, d] => (u32::from_le_bytes([a, b, c, d]), FULL, if wide { FULL_64 } else { &[] }),
        _ => return None,
    };
    let matches = |row: &&Row| opcode & row.0 == row.1;
    let &(_, _, name, operands) = only.iter().find(matches).or_else(|| rows.iter().find(matches))?;
    let mut text = String::new();
    for letter in name.chars() {
        match letter {
            '?' => text.push(['s', 'd', 'h', 'q'][bits(opcode, 26, 25) as usize]),
            '%' => text.push_str(&atomic(opcode)),
            _ => text.push(letter),
        }
    }
    if !operands.is_empty() {
        text.push(' ');
    }
    for letter in operands.chars() {
        match operand(letter, opcode, address, wide) {
            Some(operand) => text.push_str(&operand),
            None => text.push(letter),
        }
        if letter == ',' {
            text.push(' ');
        }
    }
    Some(text)
}

/// Width, then acquire and release.
fn atomic(opcode: u32) -> String {
    let width = if bits(opcode, 12, 12) == 1 { "d" } else { "w" };
    width.to_owned() + ["", ".rl", ".aq", ".aqrl"][bits(opcode, 26, 25) as usize]
}

fn bits(opcode: u32, high: u32, low: u32) -> u32 {
    opcode << (31 - high) >> (31 - high + low)
}

/// A two's complement number in the low `width` bits.
fn signed(value: u32, width: u32) -> i64 {
    i64::from((value << (32 - width)) as i32 >> (32 - width))
}

/// Takes bits of the opcode, `(high, low, place)`, to their places in a number.
fn gather(opcode: u32, parts: &[(u32, u32, u32)]) -> u32 {
    parts.iter().map(|&(high, low, place)| bits(opcode, high, low) << place).fold(0, |all, part| all | part)
}

const REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

fn integer(number: u32) -> String {
    REGISTERS[number as usize & 31].to_owned()
}

fn floating(number: u32) -> String {
    match number & 31 {
        0..=7 => format!("ft{number}"),
        8 | 9 => format!("fs{}", number - 8),
        10..=17 => format!("fa{}", number - 10),
        18..=27 => format!("fs{}", number - 16),
        _ => format!("ft{}", (number & 31) - 20),
    }
}

fn operand(letter: char, opcode: u32, address: Address, wide: bool) -> Option<String> {
    let gathered = |parts: &[(u32, u32, u32)], width| signed(gather(opcode, parts), width);
    let target = |distance: i64| {
        let target = address.offset(distance).0;
        format!("{:#x}", if wide { target } else { target & 0xFFFF_FFFF })
    };
    Some(match letter {
        'd' => integer(bits(opcode, 11, 7)),
        's' => integer(bits(opcode, 19, 15)),
        't' => integer(bits(opcode, 24, 20)),
        'D' => floating(bits(opcode, 11, 7)),
        'S' => floating(bits(opcode, 19, 15)),
        'T' => floating(bits(opcode, 24, 20)),
        'R' => floating(bits(opcode, 31, 27)),
        'i' => gathered(&[(31, 20, 0)], 12).to_string(),
        'q' => gathered(&[(31, 25, 5), (11, 7, 0)], 12).to_string(),
        'b' => target(gathered(&[(31, 31, 12), (7, 7, 11), (30, 25, 5), (11, 8, 1)], 13)),
        'j' => target(gathered(&[(31, 31, 20), (19, 12, 12), (20, 20, 11), (30, 21, 1)], 21)),
        'u' => format!("{:#x}", bits(opcode, 31, 12)),
        'h' => bits(opcode, 25, 20).to_string(),
        'w' => bits(opcode, 24, 20).to_string(),
        'c' => csr(bits(opcode, 31, 20)),
        'z' => bits(opcode, 19, 15).to_string(),
        // Two-byte instructions.
        '1' => integer(bits(opcode, 11, 7)),
        '2' => integer(bits(opcode, 6, 2)),
        '3' => integer(bits(opcode, 4, 2) + 8),
        '4' => integer(bits(opcode, 9, 7) + 8),
        '5' => floating(bits(opcode, 4, 2) + 8),
        '6' => floating(bits(opcode, 6, 2)),
        '7' => floating(bits(opcode, 11, 7)),
        'k' => gathered(&[(12, 12, 5), (6, 2, 0)], 6).to_string(),
        'K' => format!("{:#x}", gathered(&[(12, 12, 5), (6, 2, 0)], 6) & 0xF_FFFF),
        'H' => gather(opcode, &[(12, 12, 5), (6, 2, 0)]).to_string(),
        'A' => gather(opcode, &[(10, 7, 6), (12, 11, 4), (5, 5, 3), (6, 6, 2)]).to_string(),
        'B' => gathered(&[(12, 12, 9), (4, 3, 7), (5, 5, 6), (2, 2, 5), (6, 6, 4)], 10).to_string(),
        'W' => gather(opcode, &[(5, 5, 6), (12, 10, 3), (6, 6, 2)]).to_string(),
        'X' => gather(opcode, &[(6, 5, 6), (12, 10, 3)]).to_string(),
        'm' => gather(opcode, &[(3, 2, 6), (12, 12, 5), (6, 4, 2)]).to_string(),
        'n' => gather(opcode, &[(4, 2, 6), (12, 12, 5), (6, 5, 3)]).to_string(),
        'M' => gather(opcode, &[(8, 7, 6), (12, 9, 2)]).to_string(),
        'N' => gather(opcode, &[(9, 7, 6), (12, 10, 3)]).to_string(),
        'J' => target(gathered(
            &[(12, 12, 11), (8, 8, 10), (10, 9, 8), (6, 6, 7), (7, 7, 6), (2, 2, 5), (11, 11, 4), (5, 3, 1)],
            12,
        )),
        'P' => target(gathered(&[(12, 12, 8), (6, 5, 6), (2, 2, 5), (11, 10, 3), (4, 3, 1)], 9)),
        _ => return None,
    })
}

/// The registers that programs name; others are numbers.
fn csr(number: u32) -> String {
    let name = match number {
        0x001 => "fflags",
        0x002 => "frm",
        0x003 => "fcsr",
        0x100 => "sstatus",
        0x104 => "sie",
        0x105 => "stvec",
        0x140 => "sscratch",
        0x141 => "sepc",
        0x142 => "scause",
        0x143 => "stval",
        0x144 => "sip",
        0x180 => "satp",
        0x300 => "mstatus",
        0x301 => "misa",
        0x304 => "mie",
        0x305 => "mtvec",
        0x340 => "mscratch",
        0x341 => "mepc",
        0x342 => "mcause",
        0x343 => "mtval",
        0x344 => "mip",
        0xC00 => "cycle",
        0xC01 => "time",
        0xC02 => "instret",
        0xF14 => "mhartid",
        _ => return format!("{number:#x}"),
    };
    name.to_owned()
}
