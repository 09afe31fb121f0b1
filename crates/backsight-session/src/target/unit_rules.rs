//! The rules of trace units.

use super::{NO_SUCH_REGISTER, State, Target};
use crate::register::{self, Register, etm4};
use crate::system::{Component, Kind};
use crate::unit::etm::{Etm, POWER_DOWN, PROGRAMMED, PROGRAMMING};

impl State {
    /// As after power-on. Old units have power of their own accord, and no lock for operating systems.
    pub(super) fn new(component: &Component) -> Self {
        let mut state = Self::default();
        if component.kind.is_etm() {
            state.powered = !Etm::new(component).power_control();
            state.os_unlocked = !Etm::new(component).os_lock();
            state.values.insert(register::etm::CR.offset, PROGRAMMING | POWER_DOWN);
        }
        state
    }
}

impl Target<'_> {
    /// The register by which a unit says that it is idle.
    pub(super) fn status(&self, number: usize) -> Register {
        if self.system.components[number].kind.is_etm() { register::etm::SR } else { etm4::STATR }
    }

    pub(super) fn read_unit(&self, number: usize, register: Register) -> u32 {
        let state = &self.states[number];
        match register {
            etm4::PDSR => u32::from(state.powered),
            register::etm::SR if self.value(number, register::etm::CR) & PROGRAMMING != 0 => PROGRAMMED,
            register::etm::SR => 0,
            etm4::STATR => u32::from(!state.on),
            _ => self.value(number, register),
        }
    }

    pub(super) fn write_unit(
        &mut self,
        number: usize,
        register: Register,
        value: u32,
    ) -> Result<(), &'static str> {
        match self.system.components[number].kind.is_etm() {
            true => self.write_etm(number, register, value),
            false => self.write_etm4(number, register, value),
        }
    }

    fn write_etm4(&mut self, number: usize, register: Register, value: u32) -> Result<(), &'static str> {
        if register == etm4::PRGCTLR {
            let on = value & 1 == 1;
            return self.switch_unit(number, on);
        }
        self.check_setting(number, register)
    }

    /// ETMCR is changed bit by bit: the unit has power first, then is off and seen to be idle, then is programmed.
    fn write_etm(&mut self, number: usize, register: Register, value: u32) -> Result<(), &'static str> {
        let control = self.value(number, register::etm::CR);
        if register != register::etm::CR {
            if control & POWER_DOWN != 0 {
                return Err("the unit is powered down");
            }
            return self.check_setting(number, register);
        }
        let changed = control ^ value;
        if changed & PROGRAMMING != 0 {
            if changed != PROGRAMMING {
                return Err("nothing else is changed together with the programming bit");
            }
            return self.switch_unit(number, value & (PROGRAMMING | POWER_DOWN) == 0);
        }
        match changed {
            0 => Ok(()),
            POWER_DOWN if !self.states[number].on => Ok(()),
            _ => self.check_idle(number),
        }
    }

    fn switch_unit(&mut self, number: usize, on: bool) -> Result<(), &'static str> {
        if on && !self.trace_can_leave(number) {
            return Err("something between it and a sink is off: its trace would be lost");
        }
        self.states[number].on = on;
        self.states[number].seen_idle = false;
        Ok(())
    }

    fn check_idle(&self, number: usize) -> Result<(), &'static str> {
        match &self.states[number] {
            State { on: true, .. } => Err("the unit is on"),
            State { seen_idle: false, .. } => Err("nobody has looked whether the unit is idle"),
            _ => Ok(()),
        }
    }

    fn check_setting(&self, number: usize, register: Register) -> Result<(), &'static str> {
        self.check_idle(number)?;
        match self.exists(number, register) {
            true => Ok(()),
            false => Err(NO_SUCH_REGISTER),
        }
    }

    /// Do the ID registers say that a unit has a register?
    pub(super) fn exists(&self, number: usize, register: Register) -> bool {
        let unit = &self.system.components[number];
        if unit.kind.is_etm() {
            return Etm::new(unit).has(register);
        }
        let field = |idr: u8, shift: u32, bits: u32| unit.idr(idr) >> shift & ((1 << bits) - 1);
        let comparators = 2 * field(4, 0, 4) as u8;
        let selectors = 2 * (field(4, 16, 4) as u8 + 1);
        match register {
            etm4::STALLCTLR => field(3, 26, 1) == 1,
            etm4::SYNCPR => field(3, 25, 1) == 0,
            etm4::VIPCSSCTLR => field(4, 12, 4) > 0,
            etm4::CCCTLR => field(0, 7, 1) == 1,
            etm4::BBCTLR => field(0, 5, 1) == 1 && comparators > 0,
            etm4::VIIECTLR | etm4::VISSCTLR => comparators > 0,
            etm4::QCTLR => field(0, 14, 1) == 1,
            etm4::EXTINSELR => unit.kind == Kind::Etm4 && field(5, 9, 3) > 0,
            etm4::CNTRLDVR0 | etm4::CNTCTLR0 | etm4::CNTVR0 => field(5, 28, 3) > 0,
            etm4::CIDCVR0 | etm4::CIDCCTLR0 => field(4, 24, 4) > 0,
            _ if (0x400..0x500).contains(&register.offset) => {
                (0..comparators).any(|n| etm4::acvr(n).contains(&register) || etm4::acatr(n) == register)
            }
            _ if (0x120..0x130).contains(&register.offset) => {
                unit.kind == Kind::Ete && (0..field(5, 9, 3) as u8).any(|n| etm4::extinselr(n) == register)
            }
            _ if (0x200..0x280).contains(&register.offset) => {
                (2..selectors).any(|n| etm4::rsctlr(n) == register)
            }
            _ => true,
        }
    }
}
