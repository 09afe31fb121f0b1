//! Zicsr, as far as user mode sees it: the floating-point state and the counters.

use super::{Hart, destination};
use crate::environment::Environment;
use crate::fault::Cause;

const FFLAGS: u32 = 0x001;
const FRM: u32 = 0x002;
const FCSR: u32 = 0x003;
const CYCLE: u32 = 0xC00;
const TIME: u32 = 0xC01;
const INSTRET: u32 = 0xC02;

/// Does a CSR instruction name the `time` register?
pub fn is_time(opcode: u32) -> bool {
    opcode >> 20 == TIME
}

/// Executes CSRRW, CSRRS, CSRRC and their immediate forms. False: illegal. One cycle passes per instruction.
pub fn execute<E: Environment>(hart: &mut Hart, environment: &mut E, opcode: u32) -> Result<bool, Cause> {
    let time = if is_time(opcode) { environment.time(hart)? } else { 0 };
    Ok(access(hart, opcode, time))
}

fn access(hart: &mut Hart, opcode: u32, time: u64) -> bool {
    let number = opcode >> 20;
    let field = (opcode >> 15 & 0x1F) as u8;
    let funct3 = opcode >> 12 & 7;
    let operand = if funct3 & 4 != 0 { u64::from(field) } else { hart.x(field) };
    let Some(old) = read(hart, number, time) else {
        return false;
    };
    let new = match funct3 & 3 {
        1 => Some(operand),
        // Setting or clearing with x0 (or 0) does not write.
        2 => (field != 0).then_some(old | operand),
        _ => (field != 0).then_some(old & !operand),
    };
    if let Some(new) = new
        && !write(hart, number, new)
    {
        return false;
    }
    hart.set_x(destination(opcode), old);
    true
}

fn read(hart: &Hart, number: u32, time: u64) -> Option<u64> {
    Some(match number {
        FFLAGS => u64::from(hart.fflags),
        FRM => u64::from(hart.frm),
        FCSR => u64::from(hart.frm) << 5 | u64::from(hart.fflags),
        CYCLE | INSTRET => hart.retired,
        TIME => time,
        _ => return None,
    })
}

fn write(hart: &mut Hart, number: u32, value: u64) -> bool {
    match number {
        FFLAGS => hart.fflags = (value & 0x1F) as u8,
        FRM => hart.frm = (value & 7) as u8,
        FCSR => {
            hart.fflags = (value & 0x1F) as u8;
            hart.frm = (value >> 5 & 7) as u8;
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_cannot_be_written() {
        let mut hart = Hart::default();
        assert!(access(&mut hart, 0xC020_2573, 0), "csrrs a0, instret, x0");
        assert!(!access(&mut hart, 0xC020_1573, 0), "csrrw a0, instret, x0");
    }

    #[test]
    fn machine_registers_are_illegal() {
        assert!(!access(&mut Hart::default(), 0x3000_2573, 0), "csrr a0, mstatus");
    }
}
