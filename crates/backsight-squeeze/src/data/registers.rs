//! Which registers a debugger knows, and what is in them (RV64).
//!
//! At first none is known. A constant makes its register known; an instruction whose sources are all known makes its
//! destination known; a load makes its destination unknown; a data address that was sent makes its base register known.

use backsight_sim::decode::{Kind, NOWHERE, Op};

/// What is known of the integer registers.
#[derive(Clone, Debug)]
pub struct Registers {
    values: [Option<u64>; 32],
}

impl Default for Registers {
    fn default() -> Self {
        let mut values = [None; 32];
        values[0] = Some(0);
        Self { values }
    }
}

fn word(value: u64) -> u64 {
    value as i32 as u64
}

impl Registers {
    /// What is in a register, if it is known.
    #[inline]
    pub fn get(&self, register: u8) -> Option<u64> {
        self.values[usize::from(register & 31)]
    }

    /// A register was written; what with may not be known.
    #[inline]
    pub fn set(&mut self, register: u8, value: Option<u64>) {
        if register != 0 && register < NOWHERE {
            self.values[usize::from(register)] = value;
        }
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Does the instruction refer to memory? Then its address is that of the base register and the offset.
    pub fn reference(op: &Op) -> Option<(u8, u64)> {
        use Kind::*;
        match op.kind {
            Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu | Sb | Sh | Sw | Sd | Flw | Fld | Fsw | Fsd => {
                Some((op.rs1, i64::from(op.imm) as u64))
            }
            Atomic => Some((op.rs1, 0)),
            _ => None,
        }
    }

    /// The instruction at `address` was executed: works out what it wrote. What loads bring is not known.
    pub fn execute(&mut self, op: &Op, address: u64) {
        use Kind::*;
        let end = address.wrapping_add(u64::from(op.size));
        match op.kind {
            Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu | Atomic | Csr => self.set(op.rd, None),
            Sb | Sh | Sw | Sd | Flw | Fld | Fsw | Fsd | FloatFused | Fence | FenceI | Ebreak | Illegal => {}
            Beq | Bne | Blt | Bge | Bltu | Bgeu => {}
            // Of OP-FP, those that write an integer register: comparisons, conversions and moves to it.
            Float if matches!(op.opcode >> 27, 0x14 | 0x18 | 0x1C) => self.set(op.rd, None),
            Float => {}
            // The system call's result.
            Ecall => self.set(10, None),
            Jal | Jalr => self.set(op.rd, Some(end)),
            Lui => self.set(op.rd, Some(i64::from(op.imm) as u64)),
            Auipc => self.set(op.rd, Some(address.wrapping_add(i64::from(op.imm) as u64))),
            Addi | Slti | Sltiu | Xori | Ori | Andi | Slli | Srli | Srai | Addiw | Slliw | Srliw | Sraiw => {
                let value = self.get(op.rs1).map(|a| immediate(op, a));
                self.set(op.rd, value);
            }
            _ => {
                let value = self.get(op.rs1).zip(self.get(op.rs2)).map(|(a, b)| register(op.kind, a, b));
                self.set(op.rd, value);
            }
        }
    }
}

fn immediate(op: &Op, a: u64) -> u64 {
    let imm = i64::from(op.imm) as u64;
    match op.kind {
        Kind::Addi => a.wrapping_add(imm),
        Kind::Slti => u64::from((a as i64) < i64::from(op.imm)),
        Kind::Sltiu => u64::from(a < imm),
        Kind::Xori => a ^ imm,
        Kind::Ori => a | imm,
        Kind::Andi => a & imm,
        Kind::Slli => a << (op.imm & 63),
        Kind::Srli => a >> (op.imm & 63),
        Kind::Srai => (a as i64 >> (op.imm & 63)) as u64,
        Kind::Addiw => word(a.wrapping_add(imm)),
        Kind::Slliw => word(a << (op.imm & 31)),
        Kind::Srliw => word(u64::from(a as u32 >> (op.imm & 31))),
        _ => (a as i32 >> (op.imm & 31)) as u64,
    }
}

fn register(kind: Kind, a: u64, b: u64) -> u64 {
    use Kind::*;
    match kind {
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Sll => a << (b & 63),
        Slt => u64::from((a as i64) < b as i64),
        Sltu => u64::from(a < b),
        Xor => a ^ b,
        Srl => a >> (b & 63),
        Sra => (a as i64 >> (b & 63)) as u64,
        Or => a | b,
        And => a & b,
        Addw => word(a.wrapping_add(b)),
        Subw => word(a.wrapping_sub(b)),
        Sllw => word(a << (b & 31)),
        Srlw => word(u64::from(a as u32 >> (b & 31))),
        Sraw => (a as i32 >> (b & 31)) as u64,
        Mul => a.wrapping_mul(b),
        Mulh => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        Mulhsu => (i128::from(a as i64).wrapping_mul(i128::from(b)) >> 64) as u64,
        Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Mulw => word(a.wrapping_mul(b)),
        _ => divide(kind, a, b),
    }
}

/// Division by zero gives all ones and the dividend; the one overflow wraps.
fn divide(kind: Kind, a: u64, b: u64) -> u64 {
    match kind {
        Kind::Div if b == 0 => u64::MAX,
        Kind::Div => (a as i64).wrapping_div(b as i64) as u64,
        Kind::Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Kind::Rem if b == 0 => a,
        Kind::Rem => (a as i64).wrapping_rem(b as i64) as u64,
        Kind::Remu => a.checked_rem(b).unwrap_or(a),
        Kind::Divw if b as i32 == 0 => u64::MAX,
        Kind::Divw => (a as i32).wrapping_div(b as i32) as u64,
        Kind::Divuw => (a as u32).checked_div(b as u32).map_or(u64::MAX, |value| word(u64::from(value))),
        Kind::Remw if b as i32 == 0 => word(a),
        Kind::Remw => (a as i32).wrapping_rem(b as i32) as u64,
        _ => word(u64::from((a as u32).checked_rem(b as u32).unwrap_or(a as u32))),
    }
}
