//! What a signal handler finds on its stack: `struct rt_sigframe` of 64-bit RISC-V.
//!
//! ```text
//!  sp +    0  siginfo                128 bytes
//!  sp +  128  ucontext: flags, link
//!  sp +  144            stack        start, flags, size
//!  sp +  168            signal mask  8 of 128 bytes
//!  sp +  304            pc, x1 to x31
//!  sp +  560            f0 to f31 (room for quad precision), fcsr
//!  sp + 1088
//! ```

use super::{AlternateStack, Info, Set};
use crate::fault::Cause;
use crate::hart::Hart;
use crate::memory::Memory;

/// `li a7, 139; ecall`: what a handler returns to. Linux has it in its vDSO.
pub const TRAMPOLINE: [u8; 8] = [0x93, 0x08, 0xB0, 0x08, 0x73, 0x00, 0x00, 0x00];

const SIZE: usize = 1088;
const CONTEXT: u64 = 128;
const STACK: usize = 144;
const MASK: usize = 168;
const REGISTERS: usize = 304;
const FLOATS: usize = 560;
/// After room for 32 registers of 64 bits; what is beyond is for quad precision.
const FCSR: usize = FLOATS + 256;

const RA: u8 = 1;
const SP: u8 = 2;
const A0: u8 = 10;

/// What a handler's return brings back.
pub struct Restored {
    pub mask: Set,
    pub stack: AlternateStack,
}

fn put(frame: &mut [u8; SIZE], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

fn take<const N: usize>(frame: &[u8; SIZE], at: usize) -> [u8; N] {
    std::array::from_fn(|n| frame[at + n])
}

/// Writes the frame below `top`, and makes the registers those of the handler.
pub fn enter(
    memory: &mut Memory,
    hart: &mut Hart,
    top: u64,
    info: &Info,
    handler: u64,
    trampoline: u64,
    before: &Restored,
) -> Result<(), Cause> {
    let mut frame = [0; SIZE];
    put(&mut frame, 0, &info.bytes);
    put(&mut frame, STACK, &before.stack.start.to_le_bytes());
    put(&mut frame, STACK + 8, &before.stack.flags.to_le_bytes());
    put(&mut frame, STACK + 16, &before.stack.size.to_le_bytes());
    put(&mut frame, MASK, &before.mask.to_le_bytes());
    put(&mut frame, REGISTERS, &hart.pc.to_le_bytes());
    for (number, value) in hart.integers().iter().enumerate().skip(1) {
        put(&mut frame, REGISTERS + 8 * number, &value.to_le_bytes());
    }
    for (number, value) in hart.floats().iter().enumerate() {
        put(&mut frame, FLOATS + 8 * number, &value.to_le_bytes());
    }
    let fcsr = u32::from(hart.frm) << 5 | u32::from(hart.fflags);
    put(&mut frame, FCSR, &fcsr.to_le_bytes());

    let sp = top.wrapping_sub(SIZE as u64) & !15;
    memory.write(sp, &frame)?;
    hart.set_x(RA, trampoline);
    hart.set_x(SP, sp);
    hart.set_x(A0, u64::from(info.signal));
    hart.set_x(A0 + 1, sp);
    hart.set_x(A0 + 2, sp.wrapping_add(CONTEXT));
    hart.pc = handler;
    hart.reservation = None;
    Ok(())
}

/// Takes the registers back from the frame at `sp`.
pub fn leave(memory: &mut Memory, hart: &mut Hart) -> Result<Restored, Cause> {
    let mut frame = [0; SIZE];
    memory.read(hart.x(SP), &mut frame)?;
    hart.pc = u64::from_le_bytes(take(&frame, REGISTERS)) & !1;
    for number in 1..32 {
        hart.set_x(number, u64::from_le_bytes(take(&frame, REGISTERS + 8 * usize::from(number))));
    }
    for number in 0..32 {
        hart.set_f(number, u64::from_le_bytes(take(&frame, FLOATS + 8 * usize::from(number))));
    }
    let fcsr = u32::from_le_bytes(take(&frame, FCSR));
    hart.fflags = (fcsr & 0x1F) as u8;
    hart.frm = (fcsr >> 5 & 7) as u8;
    hart.reservation = None;
    Ok(Restored {
        mask: u64::from_le_bytes(take(&frame, MASK)),
        stack: AlternateStack {
            start: u64::from_le_bytes(take(&frame, STACK)),
            flags: u32::from_le_bytes(take(&frame, STACK + 8)),
            size: u64::from_le_bytes(take(&frame, STACK + 16)),
        },
    })
}
