//! The A extension.
//!
//! Threads take turns between instructions, so every read-modify-write is atomic. A thread loses its reservation when
//! another continues, and when a signal handler starts.

use super::Hart;
use crate::environment::Environment;
use crate::fault::Cause;
use backsight_core::{Access, Address};

/// What an atomic instruction read and wrote.
pub type Accesses = [Option<Access>; 2];

/// Executes LR, SC or an AMO.
pub fn execute<E: Environment>(
    hart: &mut Hart,
    environment: &mut E,
    opcode: u32,
    rd: u8,
) -> Result<Accesses, (Cause, u64)> {
    let wide = opcode >> 12 & 7 == 3;
    let size = if wide { 8 } else { 4 };
    let address = hart.x((opcode >> 15 & 0x1F) as u8);
    let operand = hart.x((opcode >> 20 & 0x1F) as u8);
    if !address.is_multiple_of(u64::from(size)) {
        return Err((Cause::StoreAddressMisaligned, address));
    }
    let funct5 = opcode >> 27;
    let result = match funct5 {
        0x02 => load_reserved(hart, environment, address, size, rd),
        0x03 => store_conditional(hart, environment, address, size, operand, rd),
        _ => modify(hart, environment, funct5, address, size, operand, rd),
    };
    result.map_err(|cause| (cause, address))
}

fn access(address: u64, size: u8, value: u64, store: bool) -> Option<Access> {
    let value = if size == 4 { value & 0xFFFF_FFFF } else { value };
    Some(Access { address: Address(address), value, size, store, known: true })
}

fn load<E: Environment>(environment: &mut E, address: u64, size: u8) -> Result<u64, Cause> {
    if size == 8 {
        environment.load::<8>(address)
    } else {
        environment.load::<4>(address).map(|word| word as i32 as u64)
    }
}

fn store<E: Environment>(environment: &mut E, address: u64, size: u8, value: u64) -> Result<(), Cause> {
    if size == 8 { environment.store::<8>(address, value) } else { environment.store::<4>(address, value) }
}

fn load_reserved<E: Environment>(
    hart: &mut Hart,
    environment: &mut E,
    address: u64,
    size: u8,
    rd: u8,
) -> Result<Accesses, Cause> {
    let value = load(environment, address, size)?;
    hart.reservation = Some((address, size));
    hart.set_x(rd, value);
    Ok([access(address, size, value, false), None])
}

fn store_conditional<E: Environment>(
    hart: &mut Hart,
    environment: &mut E,
    address: u64,
    size: u8,
    operand: u64,
    rd: u8,
) -> Result<Accesses, Cause> {
    // Whether it succeeds or not, the reservation is gone; but not if it faults: it may be executed again.
    let reserved = hart.reservation == Some((address, size));
    if reserved {
        store(environment, address, size, operand)?;
    }
    hart.reservation = None;
    if !reserved {
        hart.set_x(rd, 1);
        return Ok([None, None]);
    }
    hart.set_x(rd, 0);
    Ok([access(address, size, operand, true), None])
}

fn modify<E: Environment>(
    hart: &mut Hart,
    environment: &mut E,
    funct5: u32,
    address: u64,
    size: u8,
    operand: u64,
    rd: u8,
) -> Result<Accesses, Cause> {
    environment.check_store(address, u64::from(size))?;
    let old = load(environment, address, size)?;
    // Word operands compare as words: sign-extended on both sides, or zero-extended on both.
    let (a, b) = if size == 8 { (old, operand) } else { (old, operand as i32 as u64) };
    let (ua, ub) = if size == 8 { (a, b) } else { (a & 0xFFFF_FFFF, b & 0xFFFF_FFFF) };
    let new = match funct5 {
        0x00 => a.wrapping_add(b),
        0x01 => b,
        0x04 => a ^ b,
        0x08 => a | b,
        0x0C => a & b,
        0x10 => (a as i64).min(b as i64) as u64,
        0x14 => (a as i64).max(b as i64) as u64,
        0x18 => ua.min(ub),
        _ => ua.max(ub),
    };
    store(environment, address, size, new)?;
    hart.set_x(rd, old);
    Ok([access(address, size, old, false), access(address, size, new, true)])
}
