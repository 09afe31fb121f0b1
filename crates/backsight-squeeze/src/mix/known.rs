//! Branches whose outcome follows from what is in registers (RV64).
//!
//! Whoever has the code can work out some of what the program has in its registers: constants, and what is computed from
//! them. A branch that compares two known values needs no prediction; one that finds a known value equal to an unknown one
//! makes that known, too. Loads and results of system calls are not known, and after a discontinuity nothing is. Something
//! else may have changed registers all the same: so it is coded whether the outcome is the one that was worked out.

use super::coder::Coder;
use super::outcome::Estimate;
use crate::Damage;
use crate::block::Path;
use crate::code::Code;
use crate::data::addresses::op_of;
use crate::data::registers::Registers;
use backsight_core::Isa;
use backsight_sim::decode::{Kind, Op, decode};

/// Decoded instructions that are kept: they follow from the code, which both sides have.
const DECODED: usize = 1 << 13;
/// How slow the estimate adapts.
const LIMIT: u8 = 250;

/// Bits of state: registers, which of them are known, how often that was right.
pub const STATE_BITS: u64 = 31 * 64 + 31 + 22;

/// What is known of registers, and how well that serves.
#[derive(Clone, Debug)]
pub struct Known {
    registers: Registers,
    decoded: Box<[(u64, Op)]>,
    right: Estimate,
}

impl Known {
    /// Nothing is known.
    pub fn new() -> Self {
        let decoded = vec![(u64::MAX, decode(0, 0)); DECODED].into();
        Self { registers: Registers::default(), decoded, right: Estimate::EVEN }
    }

    /// There was a discontinuity.
    pub fn forget(&mut self) {
        self.registers.forget();
    }

    #[inline]
    fn op(&mut self, address: u64, code: &mut Code) -> Option<Op> {
        let op = code.at(address).filter(|op| op.isa == Isa::Rv64)?;
        let decoded = &mut self.decoded[(address >> 1 ^ address >> 14) as usize % DECODED];
        if decoded.0 != address || decoded.1.opcode != op.opcode {
            *decoded = (address, op_of(&op.retired(address, address, true)));
        }
        Some(decoded.1)
    }

    /// Instructions were executed.
    #[inline]
    pub fn execute(&mut self, path: Path, code: &mut Code) {
        let mut address = path.start;
        for _ in 0..path.count {
            let Some(op) = self.op(address, code) else { return self.forget() };
            self.registers.execute(&op, address);
            address = address.wrapping_add(u64::from(op.size));
        }
    }

    /// Codes the outcome of the branch at an address, if it can be worked out.
    #[inline]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        address: u64,
        taken: bool,
        code: &mut Code,
    ) -> Result<Option<bool>, Damage> {
        let Some(op) = self.op(address, code) else { return Ok(None) };
        let operands = self.registers.get(op.rs1).zip(self.registers.get(op.rs2));
        let Some(expected) = operands.and_then(|(a, b)| outcome(op.kind, a, b)) else { return Ok(None) };
        let right = coder.code(taken == expected, self.right.p())?;
        self.right.update(right, LIMIT);
        if !right {
            // Somebody else has changed the registers.
            self.forget();
        }
        Ok(Some(expected == right))
    }

    /// What the outcome says about registers.
    #[inline]
    pub fn learn(&mut self, address: u64, taken: bool, code: &mut Code) {
        let Some(op) = self.op(address, code) else { return };
        if op.kind == Kind::Beq && taken || op.kind == Kind::Bne && !taken {
            match (self.registers.get(op.rs1), self.registers.get(op.rs2)) {
                (Some(value), None) => self.registers.set(op.rs2, Some(value)),
                (None, Some(value)) => self.registers.set(op.rs1, Some(value)),
                _ => {}
            }
        }
    }
}

fn outcome(kind: Kind, a: u64, b: u64) -> Option<bool> {
    Some(match kind {
        Kind::Beq => a == b,
        Kind::Bne => a != b,
        Kind::Blt => (a as i64) < b as i64,
        Kind::Bge => a as i64 >= b as i64,
        Kind::Bltu => a < b,
        Kind::Bgeu => a >= b,
        _ => return None,
    })
}
