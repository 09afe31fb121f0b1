//! The C extension: each 16-bit instruction stands for a 32-bit one.

/// Opcodes of the 32-bit instructions that compressed ones stand for.
const LOAD: u32 = 0x03;
const LOAD_FP: u32 = 0x07;
const OP_IMM: u32 = 0x13;
const OP_IMM_32: u32 = 0x1B;
const STORE: u32 = 0x23;
const STORE_FP: u32 = 0x27;
const OP: u32 = 0x33;
const LUI: u32 = 0x37;
const OP_32: u32 = 0x3B;
const BRANCH: u32 = 0x63;
const JALR: u32 = 0x67;
const JAL: u32 = 0x6F;
const EBREAK: u32 = 0x0010_0073;

const SP: u32 = 2;

fn r_type(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

fn s_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, imm: u32) -> u32 {
    (imm >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 0x1F) << 7 | opcode
}

fn b_type(funct3: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    (imm >> 12 & 1) << 31
        | (imm >> 5 & 0x3F) << 25
        | rs1 << 15
        | funct3 << 12
        | (imm >> 1 & 0xF) << 8
        | (imm >> 11 & 1) << 7
        | BRANCH
}

fn j_type(rd: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    (imm >> 20 & 1) << 31
        | (imm >> 1 & 0x3FF) << 21
        | (imm >> 11 & 1) << 20
        | (imm >> 12 & 0xFF) << 12
        | rd << 7
        | JAL
}

/// The bits of a 16-bit instruction.
#[derive(Clone, Copy)]
struct Halfword(u32);

impl Halfword {
    /// Bits `high` to `low`, moved to bit `to`.
    fn bits(self, high: u32, low: u32, to: u32) -> u32 {
        (self.0 >> low & ((1 << (high - low + 1)) - 1)) << to
    }

    fn rd(self) -> u32 {
        self.bits(11, 7, 0)
    }

    fn rs2(self) -> u32 {
        self.bits(6, 2, 0)
    }

    /// The register in bits 4 to 2: one of x8 to x15.
    fn low_register(self) -> u32 {
        8 + self.bits(4, 2, 0)
    }

    /// The register in bits 9 to 7: one of x8 to x15.
    fn high_register(self) -> u32 {
        8 + self.bits(9, 7, 0)
    }

    /// The 6-bit signed immediate.
    fn imm6(self) -> i32 {
        sign(self.bits(12, 12, 5) | self.bits(6, 2, 0), 6)
    }

    fn shift(self) -> u32 {
        self.bits(12, 12, 5) | self.bits(6, 2, 0)
    }

    /// Offset of C.LW, C.SW.
    fn word_offset(self) -> u32 {
        self.bits(12, 10, 3) | self.bits(6, 6, 2) | self.bits(5, 5, 6)
    }

    /// Offset of C.LD, C.SD and their floating-point kin.
    fn double_offset(self) -> u32 {
        self.bits(12, 10, 3) | self.bits(6, 5, 6)
    }
}

fn sign(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

/// The 32-bit instruction that a 16-bit one stands for; `None` for those that are reserved or illegal.
pub fn expand(half: u16) -> Option<u32> {
    let h = Halfword(u32::from(half));
    match half & 3 {
        0 => quadrant_0(h),
        1 => quadrant_1(h),
        2 => quadrant_2(h),
        _ => None,
    }
}

fn quadrant_0(h: Halfword) -> Option<u32> {
    let (rd, rs1) = (h.low_register(), h.high_register());
    Some(match h.bits(15, 13, 0) {
        // C.ADDI4SPN
        0 => {
            let imm = h.bits(10, 7, 6) | h.bits(12, 11, 4) | h.bits(5, 5, 3) | h.bits(6, 6, 2);
            if imm == 0 {
                return None;
            }
            i_type(OP_IMM, 0, rd, SP, imm as i32)
        }
        1 => i_type(LOAD_FP, 3, rd, rs1, h.double_offset() as i32),
        2 => i_type(LOAD, 2, rd, rs1, h.word_offset() as i32),
        3 => i_type(LOAD, 3, rd, rs1, h.double_offset() as i32),
        5 => s_type(STORE_FP, 3, rs1, rd, h.double_offset()),
        6 => s_type(STORE, 2, rs1, rd, h.word_offset()),
        7 => s_type(STORE, 3, rs1, rd, h.double_offset()),
        _ => return None,
    })
}

fn quadrant_1(h: Halfword) -> Option<u32> {
    let rd = h.rd();
    Some(match h.bits(15, 13, 0) {
        // C.ADDI, C.NOP
        0 => i_type(OP_IMM, 0, rd, rd, h.imm6()),
        // C.ADDIW
        1 if rd != 0 => i_type(OP_IMM_32, 0, rd, rd, h.imm6()),
        // C.LI
        2 => i_type(OP_IMM, 0, rd, 0, h.imm6()),
        // C.ADDI16SP
        3 if rd == SP => {
            let imm =
                h.bits(12, 12, 9) | h.bits(6, 6, 4) | h.bits(5, 5, 6) | h.bits(4, 3, 7) | h.bits(2, 2, 5);
            if imm == 0 {
                return None;
            }
            i_type(OP_IMM, 0, SP, SP, sign(imm, 10))
        }
        // C.LUI
        3 if h.shift() != 0 => (h.imm6() as u32) << 12 | rd << 7 | LUI,
        4 => return arithmetic(h),
        // C.J
        5 => j_type(0, jump_offset(h)),
        // C.BEQZ, C.BNEZ
        funct3 @ (6 | 7) => {
            let imm =
                h.bits(12, 12, 8) | h.bits(11, 10, 3) | h.bits(6, 5, 6) | h.bits(4, 3, 1) | h.bits(2, 2, 5);
            b_type(funct3 - 6, h.high_register(), sign(imm, 9))
        }
        _ => return None,
    })
}

fn jump_offset(h: Halfword) -> i32 {
    let imm = h.bits(12, 12, 11)
        | h.bits(11, 11, 4)
        | h.bits(10, 9, 8)
        | h.bits(8, 8, 10)
        | h.bits(7, 7, 6)
        | h.bits(6, 6, 7)
        | h.bits(5, 3, 1)
        | h.bits(2, 2, 5);
    sign(imm, 12)
}

fn arithmetic(h: Halfword) -> Option<u32> {
    let (rd, rs2) = (h.high_register(), h.low_register());
    Some(match (h.bits(11, 10, 0), h.bits(12, 12, 0), h.bits(6, 5, 0)) {
        // C.SRLI, C.SRAI, C.ANDI
        (0, ..) => i_type(OP_IMM, 5, rd, rd, h.shift() as i32),
        (1, ..) => i_type(OP_IMM, 5, rd, rd, h.shift() as i32 | 0x400),
        (2, ..) => i_type(OP_IMM, 7, rd, rd, h.imm6()),
        // C.SUB, C.XOR, C.OR, C.AND
        (_, 0, 0) => r_type(OP, 0, 0x20, rd, rd, rs2),
        (_, 0, 1) => r_type(OP, 4, 0, rd, rd, rs2),
        (_, 0, 2) => r_type(OP, 6, 0, rd, rd, rs2),
        (_, 0, _) => r_type(OP, 7, 0, rd, rd, rs2),
        // C.SUBW, C.ADDW
        (_, _, 0) => r_type(OP_32, 0, 0x20, rd, rd, rs2),
        (_, _, 1) => r_type(OP_32, 0, 0, rd, rd, rs2),
        _ => return None,
    })
}

fn quadrant_2(h: Halfword) -> Option<u32> {
    let (rd, rs2) = (h.rd(), h.rs2());
    let load_double = h.bits(12, 12, 5) | h.bits(6, 5, 3) | h.bits(4, 2, 6);
    let load_word = h.bits(12, 12, 5) | h.bits(6, 4, 2) | h.bits(3, 2, 6);
    let store_double = h.bits(12, 10, 3) | h.bits(9, 7, 6);
    let store_word = h.bits(12, 9, 2) | h.bits(8, 7, 6);
    Some(match h.bits(15, 13, 0) {
        // C.SLLI
        0 => i_type(OP_IMM, 1, rd, rd, h.shift() as i32),
        // C.FLDSP, C.LWSP, C.LDSP
        1 => i_type(LOAD_FP, 3, rd, SP, load_double as i32),
        2 if rd != 0 => i_type(LOAD, 2, rd, SP, load_word as i32),
        3 if rd != 0 => i_type(LOAD, 3, rd, SP, load_double as i32),
        4 => match (h.bits(12, 12, 0), rd, rs2) {
            (0, 0, 0) => return None,
            // C.JR, C.MV
            (0, _, 0) => i_type(JALR, 0, 0, rd, 0),
            (0, ..) => r_type(OP, 0, 0, rd, 0, rs2),
            // C.EBREAK, C.JALR, C.ADD
            (_, 0, 0) => EBREAK,
            (_, _, 0) => i_type(JALR, 0, 1, rd, 0),
            _ => r_type(OP, 0, 0, rd, rd, rs2),
        },
        // C.FSDSP, C.SWSP, C.SDSP
        5 => s_type(STORE_FP, 3, SP, rs2, store_double),
        6 => s_type(STORE, 2, SP, rs2, store_word),
        7 => s_type(STORE, 3, SP, rs2, store_double),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zero_halfword_is_illegal() {
        assert_eq!(expand(0), None);
    }

    /// Pairs as GNU as assembles them.
    #[test]
    fn each_compressed_form_stands_for_what_the_assembler_says() {
        for (compressed, full) in [
            (0x1141, 0xFF01_0113), // addi sp, sp, -16
            (0x0808, 0x0101_0513), // addi a0, sp, 16
            (0xE406, 0x0011_3423), // sd ra, 8(sp)
            (0x60A2, 0x0081_3083), // ld ra, 8(sp)
            (0x8082, 0x0000_8067), // ret
            (0x6585, 0x0000_15B7), // lui a1, 0x1
            (0x7139, 0xFC01_0113), // addi sp, sp, -64
            (0x952E, 0x00B5_0533), // add a0, a0, a1
            (0x8D0D, 0x40B5_0533), // sub a0, a0, a1
            (0x9D0D, 0x40B5_053B), // subw a0, a0, a1
            (0x9002, 0x0010_0073), // ebreak
            (0x4188, 0x0005_A503), // lw a0, 0(a1)
            (0xBFFD, 0xFFFF_F06F), // j .-2
            (0x9782, 0x0007_80E7), // jalr a5
        ] {
            assert_eq!(expand(compressed), Some(full), "{compressed:#06x}");
        }
    }
}
