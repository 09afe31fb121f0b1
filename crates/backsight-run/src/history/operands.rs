//! Which registers an RV64 instruction reads and writes.

use backsight_sim::decode::{Kind, Op};

/// A set of registers: x0 to x31, f0 to f31, fcsr.
pub(super) type Set = u128;

/// The floating-point flags and rounding mode.
pub(super) const FCSR: Set = 1 << 64;
/// All of them.
pub(super) const ALL: Set = (1 << 65) - 1;

pub(super) fn x(number: u8) -> Set {
    // The number for "nowhere" is beyond all.
    if number < 32 { 1 << number } else { 0 }
}

fn f(number: u8) -> Set {
    1 << (32 + (number & 31))
}

/// What an instruction reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Operands {
    pub reads: Set,
    pub writes: Set,
}

impl Operands {
    pub fn of(op: &Op) -> Self {
        use Kind::*;
        let (rd, rs1, rs2) = (x(op.rd), x(op.rs1), x(op.rs2));
        let (reads, writes) = match op.kind {
            Lui | Auipc | Jal => (0, rd),
            Jalr => (rs1, rd),
            Beq | Bne | Blt | Bge | Bltu | Bgeu => (rs1 | rs2, 0),
            Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu => (rs1, rd),
            Sb | Sh | Sw | Sd => (rs1 | rs2, 0),
            Flw | Fld => (rs1, f(op.rd)),
            Fsw | Fsd => (rs1 | f(op.rs2), 0),
            Addi | Slti | Sltiu | Xori | Ori | Andi | Slli | Srli | Srai | Addiw | Slliw | Srliw | Sraiw => {
                (rs1, rd)
            }
            FloatFused => {
                let third = f((op.opcode >> 27) as u8);
                (f(op.rs1) | f(op.rs2) | third | FCSR, f(op.rd) | FCSR)
            }
            Float => return Self::of_float(op),
            Atomic => (rs1 | if op.opcode >> 27 == 0x02 { 0 } else { rs2 }, rd),
            Fence | FenceI | Ebreak => (0, 0),
            // The result of the call.
            Ecall => (0, x(10)),
            Csr => return Self::of_csr(op),
            // It may be anything.
            Illegal => (0, ALL),
            _ => (rs1 | rs2, rd),
        };
        Self { reads, writes }
    }

    /// The rest of OP-FP.
    fn of_float(op: &Op) -> Self {
        // Some of them write an integer register: as they are decoded, x0 is 0 for those.
        let to_integer = x(op.rd) & !1;
        let (f1, f2, fd) = (f(op.rs1), f(op.rs2), f(op.rd));
        let (reads, writes) = match op.opcode >> 27 {
            // Square root, FCVT between formats.
            0x08 | 0x0B => (f1 | FCSR, fd | FCSR),
            // FSGNJ and kin touch no flags.
            0x04 => (f1 | f2, fd),
            0x14 => (f1 | f2 | FCSR, to_integer | FCSR),
            0x18 => (f1 | FCSR, to_integer | FCSR),
            0x1A => (x(op.rs1) | FCSR, fd | FCSR),
            // FMV.X, FCLASS, FMV to a floating-point register.
            0x1C => (f1, to_integer),
            0x1E => (x(op.rs1), fd),
            _ => (f1 | f2 | FCSR, fd | FCSR),
        };
        Self { reads, writes }
    }

    fn of_csr(op: &Op) -> Self {
        let immediate = op.opcode >> 14 & 1 != 0;
        let operand = if immediate { 0 } else { x(op.rs1) };
        match op.opcode >> 20 {
            0x001..=0x003 => Self { reads: operand | FCSR, writes: x(op.rd) | FCSR },
            0xC00..=0xC02 => Self { reads: operand, writes: x(op.rd) },
            _ => Self { reads: 0, writes: ALL },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_sim::decode::decode;

    fn operands(opcode: u32) -> Operands {
        Operands::of(&decode(opcode as u16, (opcode >> 16) as u16))
    }

    #[test]
    fn registers_are_those_of_the_manual() {
        // add a0, a1, a2
        assert_eq!(operands(0x00C5_8533), Operands { reads: x(11) | x(12), writes: x(10) });
        // sd ra, 8(sp)
        assert_eq!(operands(0x0011_3423), Operands { reads: x(1) | x(2), writes: 0 });
        // c.mv a0, a1: add a0, x0, a1
        assert_eq!(operands(0x852E), Operands { reads: x(0) | x(11), writes: x(10) });
        // fadd.d fa0, fa1, fa2
        let add = operands(0x02C5_F553);
        assert_eq!(add, Operands { reads: f(11) | f(12) | FCSR, writes: f(10) | FCSR });
        // fcvt.w.d a0, fa1
        assert_eq!(operands(0xC205_9553), Operands { reads: f(11) | FCSR, writes: x(10) | FCSR });
        // fmadd.d fa0, fa1, fa2, fa3
        assert_eq!(operands(0x6AC5_F543).reads, f(11) | f(12) | f(13) | FCSR);
        // feq.d x0, fa1, fa2 writes no register
        assert_eq!(operands(0xA2C5_A053).writes, FCSR);
        // jal x0, 0
        assert_eq!(operands(0x0000_006F), Operands::default());
        // vsetvli is not known here
        assert_eq!(operands(0x0C05_7557).writes, ALL);
    }
}
