//! A model of the registers of a system, which refuses what hardware would ignore or mishandle.
//!
//! | rule | of |
//! |---|---|
//! | nothing is written before LAR had the key | every component |
//! | nothing but locks and power is written before it is claimed, and nobody else may have claimed it | every component |
//! | TRCPDCR.PU or ETMPDCR bit 3 is set, then the OS lock opened, before anything else is written | trace units that have them |
//! | only TRCPRGCTLR is written while the unit is on, or off and not yet seen to be idle (TRCSTATR) | ETMv4, ETE |
//! | only the programming bit is changed while the unit is on, or off and not yet seen to be idle (ETMSR), and alone | ETMv3, PTM |
//! | nothing but ETMCR is written while its power-down bit is set | ETMv3, PTM |
//! | only registers that the ID registers say exist are written | trace units |
//! | only CTL and FFCR are written while trace is captured, or not yet seen to be at rest (STS) | TMC |
//! | memory is read only after a flush and before CTL is cleared | TMC |
//! | a unit is switched on only when everything between it and a sink is on | trace units |
//! | what trace flows through is switched off only when no unit is on | all others |
//! | a TMC that passes trace on is flushed before it is switched off | TMC |

mod unit_rules;

use std::collections::HashMap;
use std::fmt;

use crate::register::{Register, etm4, funnel, management, replicator, tmc, tpiu};
use crate::sequence::{Action, RegisterAccess};
use crate::system::{Connection, Kind, System};
use crate::unit::{self, UnitConfig};

/// An access that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which step, from 0.
    pub step: usize,
    /// The component and the register.
    pub place: String,
    /// Why.
    pub why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, {}: {}", self.step + 1, self.place, self.why)
    }
}

impl std::error::Error for Refused {}

const NO_SUCH_REGISTER: &str = "the ID registers say that there is no such register";

#[derive(Clone, Debug, Default)]
struct State {
    unlocked: bool,
    /// The operating system's lock of a trace unit is open.
    os_unlocked: bool,
    powered: bool,
    claimed: u32,
    on: bool,
    /// It was seen to be idle since it was switched off.
    seen_idle: bool,
    flushed: bool,
    values: HashMap<u16, u32>,
}

/// The registers of a system.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    system: &'a System,
    states: Vec<State>,
}

impl<'a> Target<'a> {
    /// As after power-on: locked, off.
    pub fn new(system: &'a System) -> Self {
        Self { system, states: system.components.iter().map(State::new).collect() }
    }

    /// Takes the steps of a sequence.
    ///
    /// # Errors
    /// At the first that a rule refuses.
    pub fn run(&mut self, steps: &[RegisterAccess]) -> Result<(), Refused> {
        for (number, step) in steps.iter().enumerate() {
            self.step(step).map_err(|why| Refused {
                step: number,
                place: format!("{} {}", step.component, step.register),
                why,
            })?;
        }
        Ok(())
    }

    /// The configuration that a decoder needs for the trace of a unit, read from its registers.
    pub fn config(&self, unit: usize) -> UnitConfig {
        unit::config(&self.system.components[unit], |register| self.value(unit, register))
    }

    /// The value of a register as it was written.
    pub fn value(&self, component: usize, register: Register) -> u32 {
        self.states[component].values.get(&register.offset).copied().unwrap_or(0)
    }

    /// Is the component on?
    pub fn is_on(&self, component: usize) -> bool {
        self.states[component].on
    }

    fn step(&mut self, step: &RegisterAccess) -> Result<(), &'static str> {
        let number = self
            .system
            .components
            .iter()
            .position(|component| component.address.is_some_and(|base| step.address & !0xFFF == base))
            .ok_or("there is no component at this address")?;
        if step.address & 0xFFF != u64::from(step.register.offset) {
            return Err("the address is not that of the register");
        }
        let register = step.register.common();
        match step.action {
            Action::Write(value) => self.write(number, register, value),
            Action::Change { mask, value } if value & !mask == 0 => {
                let kept = self.read(number, register) & !mask;
                self.write(number, register, kept | value)
            }
            Action::Change { .. } => Err("bits that are not to be changed have a value"),
            Action::Wait { mask, value } if self.read(number, register) & mask == value => {
                let is_source = self.system.components[number].kind.is_source();
                let status = if is_source { self.status(number) } else { tmc::STS };
                self.states[number].seen_idle |= register == status && !self.states[number].on;
                Ok(())
            }
            Action::Wait { .. } => Err("this would be waited for without end"),
            Action::Read => Ok(()),
            Action::ReadTrace if self.states[number].on && self.states[number].flushed => Ok(()),
            Action::ReadTrace => Err("its memory can be read only after a flush, before it is off"),
        }
    }

    fn read(&self, number: usize, register: Register) -> u32 {
        let state = &self.states[number];
        match (self.system.components[number].kind, register) {
            (_, management::CLAIMCLR) => state.claimed,
            (kind, register) if kind.is_source() => self.read_unit(number, register),
            (Kind::Tpiu, tpiu::FFSR) => u32::from(state.flushed) << 1,
            // A flush is complete at once.
            (Kind::Tpiu | Kind::Etf | Kind::Etb | Kind::Etr, tmc::FFCR) => {
                self.value(number, register) & !(1 << 6)
            }
            (Kind::Etf | Kind::Etb | Kind::Etr, tmc::STS) => u32::from(!state.on || state.flushed) << 2,
            _ => self.value(number, register),
        }
    }

    fn write(&mut self, number: usize, register: Register, value: u32) -> Result<(), &'static str> {
        let kind = self.system.components[number].kind;
        let state = &mut self.states[number];
        if register == management::LAR {
            state.unlocked = value == management::UNLOCK;
            return Ok(());
        }
        if !state.unlocked {
            return Err("it is locked");
        }
        if kind.is_source() && matches!(register, etm4::PDCR | etm4::OSLAR) && !self.exists(number, register)
        {
            return Err(NO_SUCH_REGISTER);
        }
        let state = &mut self.states[number];
        if kind.is_source() && register == etm4::PDCR {
            state.powered = value & 1 << 3 != 0;
            return Ok(());
        }
        if kind.is_source() && !state.powered {
            return Err("the unit has no power, or may lose it");
        }
        if kind.is_source() && register == etm4::OSLAR {
            state.os_unlocked = value & 1 == 0;
            return Ok(());
        }
        if kind.is_source() && !state.os_unlocked {
            return Err("the OS lock is closed");
        }
        match register {
            management::CLAIMSET => {
                state.claimed |= value;
                return Ok(());
            }
            management::CLAIMCLR => {
                state.claimed &= !value;
                return Ok(());
            }
            _ => {}
        }
        if state.claimed != management::CLAIM_EXTERNAL {
            return Err("it is not claimed, or by somebody else too");
        }
        match kind {
            Kind::Etm4 | Kind::Ete | Kind::Etm3 | Kind::Ptm => self.write_unit(number, register, value)?,
            Kind::Etf | Kind::Etb | Kind::Etr => self.write_tmc(number, register, value)?,
            Kind::Tpiu => self.write_tpiu(number, register, value)?,
            Kind::Funnel => self.switch(number, value & 0xFF != 0)?,
            Kind::Replicator => {
                let other = replicator::idfilter(u8::from(register == replicator::idfilter(0)));
                let other_passes =
                    self.states[number].values.get(&other.offset).is_some_and(|&all| all != 0xFF);
                self.switch(number, value != 0xFF || other_passes)?;
            }
        }
        self.states[number].values.insert(register.offset, value);
        Ok(())
    }

    fn write_tmc(&mut self, number: usize, register: Register, value: u32) -> Result<(), &'static str> {
        match register {
            tmc::CTL => {
                let (on, state) = (value & 1 == 1, &self.states[number]);
                if state.on && !on && !state.flushed {
                    return Err("it was not flushed: trace would be lost");
                }
                self.switch(number, on)?;
                self.states[number].flushed = false;
                self.states[number].seen_idle = false;
            }
            tmc::FFCR => self.states[number].flushed = value & 1 << 6 != 0,
            _ if self.states[number].on => return Err("trace is being captured"),
            _ if !self.states[number].seen_idle => return Err("nobody has looked whether trace still moves"),
            _ => {}
        }
        Ok(())
    }

    fn write_tpiu(&mut self, number: usize, register: Register, value: u32) -> Result<(), &'static str> {
        if register == tpiu::FFCR {
            let flushed = value & 1 << 6 != 0;
            let stops = value & 1 << 12 != 0;
            if !stops || flushed {
                self.switch(number, !stops)?;
            }
            self.states[number].flushed = flushed;
        } else if self.states[number].on {
            return Err("the port is on");
        }
        Ok(())
    }

    /// Switches something that trace flows through.
    fn switch(&mut self, number: usize, on: bool) -> Result<(), &'static str> {
        let units = self.system.components.iter().zip(&self.states);
        let mut on_units = units.filter(|(component, state)| component.kind.is_source() && state.on);
        if self.states[number].on && !on && on_units.next().is_some() {
            return Err("a trace unit is on: its trace would be lost");
        }
        self.states[number].on = on;
        Ok(())
    }

    /// Is there a way from here to a sink, with everything on it switched on?
    fn trace_can_leave(&self, from: usize) -> bool {
        let (mut seen, mut ends) = (vec![false; self.states.len()], vec![from]);
        while let Some(at) = ends.pop() {
            let component = &self.system.components[at];
            let passes_on = component.kind == Kind::Etf && self.value(at, tmc::MODE) == 2;
            if component.kind.is_sink() && !passes_on {
                return true;
            }
            for connection in &component.outputs {
                let open = self.is_open(at, connection);
                if open && !std::mem::replace(&mut seen[connection.to], true) {
                    ends.push(connection.to);
                }
            }
        }
        false
    }

    /// Does trace pass a connection, and is what it leads to on? What has no registers is always on.
    fn is_open(&self, from: usize, connection: &Connection) -> bool {
        let has_registers = |number: usize| self.system.components[number].address.is_some();
        let to = connection.to;
        let filtered = self.system.components[from].kind == Kind::Replicator
            && has_registers(from)
            && self.value(from, replicator::idfilter(connection.output)) == 0xFF;
        let on = match self.system.components[to].kind {
            Kind::Funnel => self.value(to, funnel::FUNCTL) >> connection.input & 1 == 1,
            _ => self.states[to].on,
        };
        !filtered && (on || !has_registers(to))
    }
}
