//! The F and D extensions: from opcodes to [`crate::float`] and back.

use super::{Hart, destination};
use crate::float::convert::{self, Integer};
use crate::float::{DOUBLE, Format, Rounding, SINGLE, arithmetic, compare, fast};

const BOX: u64 = 0xFFFF_FFFF_0000_0000;

fn format_of(opcode: u32) -> Format {
    if opcode >> 25 & 3 == 0 { SINGLE } else { DOUBLE }
}

impl Hart {
    /// The operand in register `n`. A single that is not boxed in ones counts as the canonical NaN.
    fn operand(&self, format: Format, n: u32) -> u64 {
        let bits = self.f(n as u8);
        if format == DOUBLE {
            bits
        } else if bits & BOX == BOX {
            bits & !BOX
        } else {
            SINGLE.nan()
        }
    }

    fn set_result(&mut self, format: Format, n: u8, bits: u64) {
        self.set_f(n, if format == DOUBLE { bits } else { BOX | bits });
    }
}

/// Is this opcode of OP-FP an instruction of F or D?
pub fn is_valid(opcode: u32) -> bool {
    let rs2 = opcode >> 20 & 0x1F;
    let rm = opcode >> 12 & 7;
    if opcode >> 25 & 3 > 1 {
        return false;
    }
    match opcode >> 27 {
        0x00..=0x03 => true,
        0x0B => rs2 == 0,
        0x04 | 0x14 => rm < 3,
        0x05 => rm < 2,
        0x08 => rs2 == 1 - (opcode >> 25 & 3),
        0x18 | 0x1A => rs2 < 4,
        0x1C => rs2 == 0 && rm < 2,
        0x1E => rs2 == 0 && rm == 0,
        _ => false,
    }
}

/// Executes FMADD, FMSUB, FNMSUB, FNMADD. False: illegal rounding mode.
pub fn fused(hart: &mut Hart, opcode: u32) -> bool {
    let Some(rounding) = hart.rounding(opcode >> 12 & 7) else {
        return false;
    };
    let format = format_of(opcode);
    // FMSUB and FNMADD negate the addend, FNMSUB and FNMADD the product.
    let (negate_product, negate_addend) = match opcode & 0x7F {
        0x43 => (false, false),
        0x47 => (false, true),
        0x4B => (true, false),
        _ => (true, true),
    };
    let flip = |bits: u64, negate: bool| if negate { bits ^ format.sign_bit() } else { bits };
    let a = flip(hart.operand(format, opcode >> 15 & 0x1F), negate_product);
    let b = hart.operand(format, opcode >> 20 & 0x1F);
    let c = flip(hart.operand(format, opcode >> 27), negate_addend);
    let quick = if format == DOUBLE {
        let result = f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c));
        fast::double(result, rounding, hart.fflags)
    } else {
        let result = as_f32(a).mul_add(as_f32(b), as_f32(c));
        fast::single(result, rounding, hart.fflags)
    };
    let result = match quick {
        Some(bits) => bits,
        None => arithmetic::multiply_add(format, a, b, c, rounding, &mut hart.fflags),
    };
    hart.set_result(format, (opcode >> 7 & 0x1F) as u8, result);
    true
}

/// Executes an instruction of OP-FP that [`is_valid`]. False: illegal rounding mode.
pub fn execute(hart: &mut Hart, opcode: u32) -> bool {
    match opcode >> 27 {
        0x00..=0x03 | 0x0B => computes(hart, opcode),
        0x08 | 0x18 | 0x1A => converts(hart, opcode),
        _ => {
            never_rounds(hart, opcode);
            true
        }
    }
}

fn as_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn computes(hart: &mut Hart, opcode: u32) -> bool {
    let Some(rounding) = hart.rounding(opcode >> 12 & 7) else {
        return false;
    };
    let format = format_of(opcode);
    let a = hart.operand(format, opcode >> 15 & 0x1F);
    let b = hart.operand(format, opcode >> 20 & 0x1F);
    let operation = opcode >> 27;
    let result = match quickly(hart.fflags, format, operation, a, b, rounding) {
        Some(bits) => bits,
        None => {
            let flags = &mut hart.fflags;
            match operation {
                0x00 => arithmetic::add(format, a, b, rounding, flags),
                0x01 => arithmetic::subtract(format, a, b, rounding, flags),
                0x02 => arithmetic::multiply(format, a, b, rounding, flags),
                0x03 => arithmetic::divide(format, a, b, rounding, flags),
                _ => arithmetic::square_root(format, a, rounding, flags),
            }
        }
    };
    hart.set_result(format, (opcode >> 7 & 0x1F) as u8, result);
    true
}

/// The host's result, where it is surely right.
#[inline]
fn quickly(flags: u8, format: Format, operation: u32, a: u64, b: u64, rounding: Rounding) -> Option<u64> {
    if format == DOUBLE {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        let result = match operation {
            0x00 => a + b,
            0x01 => a - b,
            0x02 => a * b,
            0x03 => a / b,
            _ => a.sqrt(),
        };
        fast::double(result, rounding, flags)
    } else {
        let (a, b) = (as_f32(a), as_f32(b));
        let result = match operation {
            0x00 => a + b,
            0x01 => a - b,
            0x02 => a * b,
            0x03 => a / b,
            _ => a.sqrt(),
        };
        fast::single(result, rounding, flags)
    }
}

fn converts(hart: &mut Hart, opcode: u32) -> bool {
    let Some(rounding) = hart.rounding(opcode >> 12 & 7) else {
        return false;
    };
    let format = format_of(opcode);
    let rs1 = opcode >> 15 & 0x1F;
    let rs2 = opcode >> 20 & 0x1F;
    let mut flags = hart.fflags;
    match opcode >> 27 {
        // FCVT.S.D, FCVT.D.S
        0x08 => {
            let from = if format == DOUBLE { SINGLE } else { DOUBLE };
            let result = convert::between(from, format, hart.operand(from, rs1), rounding, &mut flags);
            hart.set_result(format, (opcode >> 7 & 0x1F) as u8, result);
        }
        // FCVT to an integer
        0x18 => {
            let operand = hart.operand(format, rs1);
            let result = convert::to_integer(format, operand, Integer::from_field(rs2), rounding, &mut flags);
            hart.set_x(destination(opcode), result);
        }
        // FCVT from an integer
        _ => {
            let register = hart.x(rs1 as u8);
            let result =
                convert::from_integer(format, register, Integer::from_field(rs2), rounding, &mut flags);
            hart.set_result(format, (opcode >> 7 & 0x1F) as u8, result);
        }
    }
    hart.fflags = flags;
    true
}

fn never_rounds(hart: &mut Hart, opcode: u32) {
    let format = format_of(opcode);
    let rd = (opcode >> 7 & 0x1F) as u8;
    let rs1 = opcode >> 15 & 0x1F;
    let a = hart.operand(format, rs1);
    let b = hart.operand(format, opcode >> 20 & 0x1F);
    let rm = opcode >> 12 & 7;
    let mut flags = hart.fflags;
    match opcode >> 27 {
        // FSGNJ, FSGNJN, FSGNJX
        0x04 => {
            let sign = match rm {
                0 => b,
                1 => !b,
                _ => a ^ b,
            };
            let mask = format.sign_bit();
            hart.set_result(format, rd, a & !mask | sign & mask);
        }
        0x05 => {
            let result = compare::minimum(format, a, b, rm == 1, &mut flags);
            hart.set_result(format, rd, result);
        }
        // FLE, FLT, FEQ
        0x14 => {
            let result = match rm {
                0 => compare::less_or_equal(format, a, b, &mut flags),
                1 => compare::less(format, a, b, &mut flags),
                _ => compare::equal(format, a, b, &mut flags),
            };
            hart.set_x(destination(opcode), u64::from(result));
        }
        // FMV.X, which takes the bits as they are, and FCLASS
        0x1C => {
            let bits = hart.f(rs1 as u8);
            let result = match (rm, format == DOUBLE) {
                (0, true) => bits,
                (0, false) => bits as i32 as u64,
                _ => compare::classify(format, a),
            };
            hart.set_x(destination(opcode), result);
        }
        // FMV to a floating-point register
        _ => {
            let bits = hart.x(rs1 as u8);
            hart.set_result(format, rd, if format == DOUBLE { bits } else { bits & !BOX });
        }
    }
    hart.fflags = flags;
}
