//! The registers that describe an ETMv3 or a PTM.

/// Architecture profile of the processor: it decides what exception numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Application or real-time.
    #[default]
    AOrR,
    /// Microcontroller.
    M,
}

/// How a trace unit was built and programmed, by its registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// ETMCR: what is switched on.
    pub cr: u32,
    /// ETMIDR: the version, and some of what the unit has.
    pub idr: u32,
    /// ETMCCER: more of what the unit has.
    pub ccer: u32,
    /// ETMTRACEIDR: the trace ID.
    pub traceidr: u32,
}

impl Registers {
    /// The names of all of them.
    pub const NAMES: [&str; 4] = ["ETMCR", "ETMIDR", "ETMCCER", "ETMTRACEIDR"];

    /// A register by name, in any case.
    pub fn get(&self, name: &str) -> Option<u32> {
        let at = Self::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        [self.cr, self.idr, self.ccer, self.traceidr].get(at).copied()
    }

    /// Sets a register by name, in any case. False if there is none of that name.
    pub fn set(&mut self, name: &str, value: u32) -> bool {
        let Some(at) = Self::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)) else {
            return false;
        };
        *[&mut self.cr, &mut self.idr, &mut self.ccer, &mut self.traceidr][at] = value;
        true
    }

    /// The minor version: x of ETMv3.x and of PFTv1.x.
    pub const fn minor(&self) -> u8 {
        (self.idr >> 4 & 0xF) as u8
    }

    /// Sets the minor version.
    pub const fn set_minor(&mut self, minor: u8) {
        put(&mut self.idr, 4, 4, minor as u32);
    }

    /// Bytes of a context ID, as ETMCR says: 0, 1, 2 or 4.
    pub const fn context_id_bytes(&self) -> u8 {
        match self.cr >> 14 & 3 {
            3 => 4,
            bytes => bytes as u8,
        }
    }

    /// Sets the bytes of a context ID; false if there can be none of so many.
    pub fn set_context_id_bytes(&mut self, bytes: u32) -> bool {
        let code = match bytes {
            0..=2 => bytes,
            4 => 3,
            _ => return false,
        };
        put(&mut self.cr, 14, 2, code);
        true
    }

    /// A bit of ETMCR.
    pub(crate) const fn cr_bit(&self, bit: u32) -> bool {
        self.cr >> bit & 1 == 1
    }

    /// A bit of ETMCCER.
    pub(crate) const fn ccer_bit(&self, bit: u32) -> bool {
        self.ccer >> bit & 1 == 1
    }
}

/// Puts a value into so many bits of a register.
pub(crate) const fn put(register: &mut u32, low: u32, bits: u32, value: u32) {
    let mask = ((1 << bits) - 1) << low;
    *register = *register & !mask | value << low & mask;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_by_their_names() {
        let mut registers = Registers::default();
        for (number, name) in (1..).zip(Registers::NAMES) {
            assert!(registers.set(&name.to_ascii_lowercase(), number));
            assert_eq!(registers.get(name), Some(number));
        }
        assert!(!registers.set("ETMSCR", 1));
        assert_eq!((registers.cr, registers.traceidr), (1, 4));
    }

    #[test]
    fn context_ids_have_0_1_2_or_4_bytes() {
        let mut registers = Registers::default();
        for bytes in 0..6 {
            let can_be = registers.set_context_id_bytes(bytes);
            assert_eq!(can_be, matches!(bytes, 0 | 1 | 2 | 4));
            assert!(!can_be || u32::from(registers.context_id_bytes()) == bytes);
        }
    }
}
