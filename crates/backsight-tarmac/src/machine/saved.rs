//! Registers of all cores as bytes.

use backsight_core::describe::Name;
use backsight_core::leb128;

use super::layer::{byte, number};
use super::registers::Core;
use super::{Contents, Machine, Writer};
use crate::names::{Bank, Class, Register};
use crate::packet::State;

const STATES: [State; 3] = [State::A32, State::T32, State::A64];

/// All classes but that of registers with names of their own.
const CLASSES: [Class; 14] = [
    Class::R,
    Class::X,
    Class::W,
    Class::Sp,
    Class::Wsp,
    Class::S,
    Class::D,
    Class::V,
    Class::Z,
    Class::P,
    Class::Cpsr,
    Class::Fpscr,
    Class::Fpcr,
    Class::Fpsr,
];
const VPR: u8 = 14;
const SYSTEM: u8 = 15;

/// Bytes of the longest register, and most of them.
const LONGEST: u64 = 1 << 9;

impl Machine {
    /// Writes down the registers of all cores.
    pub fn save_registers(&self, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, number: u64| leb128::write(number, |byte| out.push(byte));
        put(out, self.cores.len() as u64);
        for (core, known) in &self.cores {
            put(out, u64::from(*core));
            let flags = [known.has_narrow, known.has_wide, known.has_banked, known.has_plain];
            out.push(flags.iter().zip(0..).fold(0, |sum, (flag, bit)| sum | u8::from(*flag) << bit));
            let state = known.last.and_then(|(_, state)| STATES.iter().position(|one| *one == state));
            out.push(state.map_or(0, |state| state as u8 + 1));
            known.last.iter().for_each(|(address, _)| put(out, *address));
            put(out, known.all().count() as u64);
            for (register, contents) in known.all() {
                put_register(register, out);
                let Contents { bytes, writer } = contents;
                put(out, bytes.len() as u64);
                for part in bytes.chunks(8) {
                    let is_known = part.iter().zip(0..).map(|(byte, bit)| u8::from(byte.is_some()) << bit);
                    out.push(is_known.sum());
                    out.extend(part.iter().flatten());
                }
                put(out, writer.offset);
                put(out, writer.instruction.map_or(0, |address| address.wrapping_add(1)));
            }
        }
    }

    /// The registers of all cores as they were written down, in place of those that are known. `None` where the bytes are not what was
    /// written.
    #[must_use]
    pub fn with_registers(mut self, mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        self.cores.clear();
        for _ in 0..number(rest)? {
            let core = u16::try_from(number(rest)?).ok()?;
            let known = self.core(core)?;
            take_core(known, rest)?;
        }
        rest.is_empty().then_some(self)
    }
}

fn put_register(register: &Register, out: &mut Vec<u8>) {
    let class = match register.class {
        Class::System(_) => SYSTEM,
        class => CLASSES.iter().position(|one| *one == class).map_or(VPR, |place| place as u8),
    };
    let texts =
        [register.bank.as_str(), if let Class::System(name) = &register.class { name.as_str() } else { "" }];
    out.extend([class, register.number]);
    for text in texts {
        out.push(text.len() as u8);
        out.extend(text.bytes());
    }
}

fn take_register(rest: &mut &[u8]) -> Option<Register> {
    let (class, number) = (byte(rest)?, byte(rest)?);
    let mut text = || {
        let length = byte(rest)?;
        let (text, after) = rest.split_at_checked(length.into())?;
        *rest = after;
        Some(text)
    };
    let bank = Bank::new(text()?);
    let name = Name::new(text()?);
    let class = match class {
        SYSTEM => Class::System(name),
        VPR => Class::Vpr,
        class => *CLASSES.get(usize::from(class))?,
    };
    Some(Register { class, number, bank })
}

fn take_core(core: &mut Core, rest: &mut &[u8]) -> Option<()> {
    let flags = byte(rest)?;
    let flag = |bit: u8| flags >> bit & 1 == 1;
    (core.has_narrow, core.has_wide, core.has_banked, core.has_plain) = (flag(0), flag(1), flag(2), flag(3));
    core.last = match byte(rest)? {
        0 => None,
        state => Some((number(rest)?, *STATES.get(usize::from(state) - 1)?)),
    };
    for _ in 0..number(rest)? {
        let register = take_register(rest)?;
        let length = number(rest).filter(|length| *length <= LONGEST)? as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let is_known = byte(rest)?;
            for bit in 0..(length - bytes.len()).min(8) {
                bytes.push(if is_known >> bit & 1 == 1 { Some(byte(rest)?) } else { None });
            }
        }
        let offset = number(rest)?;
        let instruction = number(rest)?;
        let instruction = (instruction > 0).then(|| instruction.wrapping_sub(1));
        *core.get_mut(register)? = Contents { bytes, writer: Writer { offset, instruction } };
    }
    Some(())
}
