//! The items that are not instructions, as bytes: small enough to share a file, so that both directions stand
//! side by side.

use super::{Checksum, other, unzigzag, zigzag};
use backsight_core::{Access, Address, Context, Input, Mode, Privilege, Security, Trap, TrapKind, leb128};

/// Why bytes cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// There are too few.
    Short,
    /// They make no sense.
    Wrong(&'static str),
}

/// Bytes to be taken apart.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were taken.
    pub fn taken(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, Bad> {
        let byte = *self.bytes.get(self.at).ok_or(Bad::Short)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn number(&mut self) -> Result<u64, Bad> {
        leb128::read(|| self.byte())?.ok_or(Bad::Wrong("a number of more than 64 bits"))
    }

    pub fn number32(&mut self) -> Result<u32, Bad> {
        u32::try_from(self.number()?).map_err(|_| Bad::Wrong("a number of more than 32 bits"))
    }

    pub fn distance(&mut self) -> Result<u64, Bad> {
        self.number().map(unzigzag)
    }

    pub fn word(&mut self) -> Result<u64, Bad> {
        let bytes = self.bytes.get(self.at..).and_then(|bytes| bytes.first_chunk()).ok_or(Bad::Short)?;
        self.at += 8;
        Ok(u64::from_le_bytes(*bytes))
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, value: u64) {
    leb128::write(value, |byte| out.push(byte));
}

pub(super) fn put_distance(out: &mut Vec<u8>, distance: u64) {
    put_number(out, zigzag(distance));
}

/// Bits of the first byte of an access: size - 1, then these.
const STORE: u8 = 8;
const KNOWN: u8 = 16;

/// `before`: the address of the access before.
pub(super) fn put_access(out: &mut Vec<u8>, access: &Access, before: u64) {
    let flags = if access.store { STORE } else { 0 } | if access.known { KNOWN } else { 0 };
    out.push((access.size - 1) | flags);
    put_distance(out, access.address.0.wrapping_sub(before));
    put_number(out, access.value);
}

pub(super) fn take_access(bytes: &mut Cursor<'_>, before: u64) -> Result<Access, Bad> {
    let flags = bytes.byte()?;
    if flags > 7 | STORE | KNOWN {
        return Err(Bad::Wrong("reserved bits of an access are set"));
    }
    Ok(Access {
        address: Address(before.wrapping_add(bytes.distance()?)),
        value: bytes.number()?,
        size: (flags & 7) + 1,
        store: flags & STORE != 0,
        known: flags & KNOWN != 0,
    })
}

/// The byte that begins an input: one of these, or for memory the size.
const RESULT: u8 = 0;
const COUNTER: u8 = 9;
const REGISTER: u8 = 10;
const CLEARED: u8 = 11;

/// `before`: the address of the access before. Results of system calls are small numbers of either sign.
pub(super) fn put_input(out: &mut Vec<u8>, input: &Input, before: u64) {
    out.push(other::INPUT);
    match *input {
        Input::Result(value) => {
            out.push(RESULT);
            put_distance(out, value);
        }
        Input::Counter(value) => {
            out.push(COUNTER);
            put_number(out, value);
        }
        Input::Register { number, value } => {
            out.push(REGISTER);
            put_number(out, number.into());
            put_number(out, value);
        }
        Input::Cleared { address, length } => {
            out.push(CLEARED);
            put_distance(out, address.0.wrapping_sub(before));
            put_number(out, length);
        }
        Input::Memory { address, value, size } => {
            out.push(size);
            put_distance(out, address.0.wrapping_sub(before));
            out.extend(value.to_le_bytes().into_iter().take(size.into()));
        }
    }
}

pub(super) fn take_input(bytes: &mut Cursor<'_>, before: u64) -> Result<Input, Bad> {
    Ok(match bytes.byte()? {
        RESULT => Input::Result(bytes.distance()?),
        COUNTER => Input::Counter(bytes.number()?),
        REGISTER => {
            let number = u16::try_from(bytes.number()?);
            let number = number.map_err(|_| Bad::Wrong("a register that does not exist"))?;
            Input::Register { number, value: bytes.number()? }
        }
        CLEARED => {
            let address = Address(before.wrapping_add(bytes.distance()?));
            Input::Cleared { address, length: bytes.number()? }
        }
        size @ 1..=8 => {
            let address = Address(before.wrapping_add(bytes.distance()?));
            let mut value = [0; 8];
            for byte in value.iter_mut().take(size.into()) {
                *byte = bytes.byte()?;
            }
            Input::Memory { address, value: u64::from_le_bytes(value), size }
        }
        _ => return Err(Bad::Wrong("an unknown kind of input")),
    })
}

const SECURITIES: [Security; 4] = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];
/// Bits of the second byte of a context: security, then these.
const WIDE: u8 = 4;
const VMID: u8 = 8;
const CONTEXT_ID: u8 = 16;
/// The level is a privilege mode of RISC-V.
const RISCV: u8 = 32;
/// Nothing is known of the privilege.
const UNKNOWN: u8 = 64;
const RESERVED: u8 = 128;

pub(super) fn put_context(out: &mut Vec<u8>, context: &Context) {
    let security = context.privilege.security();
    let security = SECURITIES.iter().position(|&known| known == security).unwrap_or(0) as u8;
    out.extend([other::CONTEXT, context.level()]);
    out.push(
        security
            | match context.privilege {
                // Executions know the exception level: Hyp mode is level 2.
                Privilege::Arm { .. } | Privilege::Armv7 { .. } => 0,
                Privilege::Riscv(_) => RISCV,
                Privilege::Unknown => UNKNOWN,
            }
            | if context.wide { WIDE } else { 0 }
            | if context.vmid.is_some() { VMID } else { 0 }
            | if context.context_id.is_some() { CONTEXT_ID } else { 0 },
    );
    for id in [context.vmid.map(u64::from), context.context_id].into_iter().flatten() {
        put_number(out, id);
    }
}

pub(super) fn take_context(bytes: &mut Cursor<'_>) -> Result<Context, Bad> {
    let level = bytes.byte()?;
    let flags = bytes.byte()?;
    if flags & RISCV != 0 && flags & (3 | UNKNOWN) != 0 || flags & RESERVED != 0 {
        return Err(Bad::Wrong("reserved bits of a context are set"));
    }
    Ok(Context {
        privilege: match flags & (RISCV | UNKNOWN) {
            0 => Privilege::Arm { level, security: SECURITIES[usize::from(flags & 3)] },
            RISCV => Privilege::Riscv(Mode(level)),
            _ => Privilege::Unknown,
        },
        wide: flags & WIDE != 0,
        vmid: if flags & VMID != 0 { Some(bytes.number32()?) } else { None },
        context_id: if flags & CONTEXT_ID != 0 { Some(bytes.number()?) } else { None },
    })
}

/// `expected`: where the program would have gone on; `cycle`: that of the last item.
pub(super) fn put_trap(out: &mut Vec<u8>, trap: &Trap, expected: u64, cycle: u64) {
    out.extend([other::TRAP, u8::from(trap.kind == TrapKind::Interrupt)]);
    put_number(out, u64::from(trap.cause));
    put_number(out, trap.value);
    put_distance(out, trap.return_address.0.wrapping_sub(expected));
    put_distance(out, trap.handler.0.wrapping_sub(trap.return_address.0));
    put_distance(out, trap.cycle.wrapping_sub(cycle));
}

pub(super) fn take_trap(bytes: &mut Cursor<'_>, expected: u64, cycle: u64) -> Result<Trap, Bad> {
    let kind = match bytes.byte()? {
        0 => TrapKind::Exception,
        1 => TrapKind::Interrupt,
        _ => return Err(Bad::Wrong("a trap is neither exception nor interrupt")),
    };
    let cause = bytes.number32()?;
    let value = bytes.number()?;
    let return_address = expected.wrapping_add(bytes.distance()?);
    let handler = return_address.wrapping_add(bytes.distance()?);
    let cycle = cycle.wrapping_add(bytes.distance()?);
    Ok(Trap { kind, cause, value, return_address: Address(return_address), handler: Address(handler), cycle })
}

pub(super) fn put_end(out: &mut Vec<u8>, instructions: u64, checksum: Checksum) {
    out.push(other::END);
    put_number(out, instructions);
    out.extend(checksum.0.to_le_bytes());
}
