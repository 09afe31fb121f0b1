//! The order of register accesses: the sink first, then what leads to it, then the trace units; and back.

use crate::register::{Register, funnel, management, replicator, tmc, tpiu};
use crate::route::Route;
use crate::system::{Component, Kind, System};
use crate::{Error, Request, unit};

/// One access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterAccess {
    /// The name of the component.
    pub component: String,
    /// The register.
    pub register: Register,
    /// Its address.
    pub address: u64,
    /// What is done.
    pub action: Action,
    /// Why, in a few words.
    pub why: &'static str,
}

/// What is done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is written.
    Write(u32),
    /// Some of its bits are changed: it is read, and written with the bits of the mask as in the value.
    Change {
        /// The bits that are changed.
        mask: u32,
        /// Their new value.
        value: u32,
    },
    /// It is read until the bits of the mask have a value.
    Wait {
        /// The bits that are looked at.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// It is read, and its value kept with the trace.
    Read,
    /// It is read until all bits are one; what was read before is the trace.
    ReadTrace,
}

/// FFCR: formatting with trigger insertion (TMC), or continuous (TPIU).
const FORMAT: u32 = 0b11;
/// FFCR: a flush by hand, and stopping when a flush is complete.
const FLUSH: u32 = 1 << 6;
const STOP_ON_FLUSH: u32 = 1 << 12;
/// TMC: STS.TMCReady.
const READY: u32 = 1 << 2;
/// TMC: MODE of a sink, and of what passes trace on.
const CIRCULAR_BUFFER: u32 = 0;
const HARDWARE_FIFO: u32 = 2;
/// ETR: bursts of 16 beats, memory that is not scattered, Non-secure accesses.
const AXI: u32 = 0xF << 8 | 0b10;
/// Funnel: an input is kept for four beats.
const HOLD: u32 = 3 << 8;
/// Replicator: leaves everything out.
const NOTHING_PASSES: u32 = 0xFF;
/// TPIU: FFSR.FtStopped.
const STOPPED: u32 = 1 << 1;
/// TMC: CTL.TraceCaptEn.
const CAPTURE: u32 = 1;

/// Steps of one component after the other.
pub struct Steps {
    steps: Vec<RegisterAccess>,
    component: String,
    base: u64,
}

impl Steps {
    fn new() -> Self {
        Self { steps: Vec::new(), component: String::new(), base: 0 }
    }

    /// What follows is of this component; false: it has no registers.
    fn of(&mut self, component: &Component) -> bool {
        self.component.clone_from(&component.name);
        self.base = component.address.unwrap_or(0);
        component.address.is_some()
    }

    fn push(&mut self, register: Register, action: Action, why: &'static str) {
        let address = self.base.wrapping_add(register.offset.into());
        self.steps.push(RegisterAccess { component: self.component.clone(), register, address, action, why });
    }

    pub fn write(&mut self, register: Register, value: u32, why: &'static str) {
        self.push(register, Action::Write(value), why);
    }

    pub fn change(&mut self, register: Register, mask: u32, value: u32, why: &'static str) {
        self.push(register, Action::Change { mask, value }, why);
    }

    pub fn wait(&mut self, register: Register, mask: u32, value: u32, why: &'static str) {
        self.push(register, Action::Wait { mask, value }, why);
    }

    fn unlock_and_claim(&mut self) {
        self.write(management::LAR, management::UNLOCK, "unlock");
        self.claim(management::CLAIMSET, management::CLAIMCLR);
    }

    pub fn claim(&mut self, set: Register, clear: Register) {
        self.wait(clear, management::CLAIM_SELF_HOSTED, 0, "not claimed by software on the target");
        self.write(set, management::CLAIM_EXTERNAL, "claim");
    }

    fn release_and_lock(&mut self) {
        self.write(management::CLAIMCLR, management::CLAIM_EXTERNAL, "release");
        self.write(management::LAR, 0, "lock");
    }
}

/// The accesses that start a trace.
///
/// # Errors
/// If a component cannot do what is asked for.
pub fn start(system: &System, route: &Route, request: &Request) -> Result<Vec<RegisterAccess>, Error> {
    let mut steps = Steps::new();
    let sink = &system.components[route.sink];
    if steps.of(sink) {
        steps.unlock_and_claim();
        start_sink(sink, request, &mut steps)?;
    }
    for &link in route.links.iter().rev() {
        let component = &system.components[link];
        if steps.of(component) {
            steps.unlock_and_claim();
            start_link(component, link, route, &mut steps);
        }
    }
    for &(number, id) in &route.units {
        let component = &system.components[number];
        steps.of(component);
        unit::start(component, request, id, &mut steps)?;
    }
    Ok(steps.steps)
}

fn start_sink(sink: &Component, request: &Request, steps: &mut Steps) -> Result<(), Error> {
    if sink.kind == Kind::Tpiu {
        steps.write(tpiu::FFCR, STOP_ON_FLUSH | FORMAT, "stop when flushed");
        steps.write(tpiu::FFCR, FLUSH | STOP_ON_FLUSH | FORMAT, "flush");
        steps.wait(tpiu::FFSR, STOPPED, STOPPED, "the formatter has stopped");
        steps.write(tpiu::CSPSR, 1 << (sink.width - 1), "width of the port");
        steps.write(tpiu::FFCR, FORMAT, "continuous frames");
        return Ok(());
    }
    stop_capture(steps);
    steps.write(tmc::MODE, CIRCULAR_BUFFER, "circular buffer");
    if sink.kind == Kind::Etr {
        let (address, bytes) = request.memory.or(sink.memory).ok_or_else(|| {
            Error::of(&sink.name, "nothing says to which memory it writes: address and size are needed")
        })?;
        check_memory(sink, address, bytes)?;
        steps.write(tmc::RSZ, (bytes / 4) as u32, "size in words");
        steps.write(tmc::AXICTL, AXI, "contiguous memory");
        let halves = [address as u32, (address >> 32) as u32];
        for (low, high, why) in [
            (tmc::DBALO, tmc::DBAHI, "memory"),
            (tmc::RRP, tmc::RRPHI, "read from its beginning"),
            (tmc::RWP, tmc::RWPHI, "write from its beginning"),
        ] {
            steps.write(low, halves[0], why);
            steps.write(high, halves[1], why);
        }
        steps.write(tmc::STS, 0, "not full");
    } else {
        steps.write(tmc::RRP, 0, "read from the beginning");
        steps.write(tmc::RWP, 0, "write from the beginning");
    }
    steps.write(tmc::TRG, 0, "no trigger");
    steps.write(tmc::FFCR, FORMAT, "frames");
    steps.write(tmc::CTL, CAPTURE, "capture");
    Ok(())
}

fn check_memory(sink: &Component, address: u64, bytes: u64) -> Result<(), Error> {
    let what = match () {
        () if bytes == 0 || !bytes.is_multiple_of(0x1000) || !address.is_multiple_of(0x1000) => {
            "begin and size of its memory are multiples of 4 KB"
        }
        () if bytes / 4 > 0x7FFF_FFFF => "its memory has at most 8 GB less a page",
        () if address.checked_add(bytes).is_none() => "its memory ends after the last address",
        () => return Ok(()),
    };
    Err(Error::of(&sink.name, format!("{what}; not {bytes:#x} bytes at {address:#x}")))
}

fn stop_capture(steps: &mut Steps) {
    steps.write(tmc::CTL, 0, "off");
    steps.wait(tmc::STS, READY, READY, "nothing moves any more");
}

fn start_link(component: &Component, number: usize, route: &Route, steps: &mut Steps) {
    match component.kind {
        Kind::Funnel => {
            let inputs = route.connections.iter().filter(|(_, connection)| connection.to == number);
            let inputs = inputs.fold(0, |inputs, (_, connection)| inputs | 1 << connection.input);
            steps.write(funnel::FUNCTL, HOLD | inputs, "inputs on");
        }
        Kind::Replicator => {
            for output in 0..2 {
                let passes = route
                    .connections
                    .iter()
                    .any(|(from, connection)| *from == number && connection.output == output);
                let filter = if passes { 0 } else { NOTHING_PASSES };
                let why = if passes { "lets everything through" } else { "lets nothing through" };
                steps.write(replicator::idfilter(output), filter, why);
            }
        }
        _ => {
            stop_capture(steps);
            steps.write(tmc::MODE, HARDWARE_FIFO, "passes trace on");
            steps.write(tmc::FFCR, FORMAT, "frames");
            steps.write(tmc::BUFWM, 0, "room to the last word");
            steps.write(tmc::CTL, CAPTURE, "on");
        }
    }
}

/// The accesses that stop a trace: nothing on the way to the sink is lost.
pub fn stop(system: &System, route: &Route) -> Vec<RegisterAccess> {
    let mut steps = Steps::new();
    for &(number, _) in &route.units {
        let component = &system.components[number];
        steps.of(component);
        unit::stop(component, &mut steps);
    }
    for &link in &route.links {
        let component = &system.components[link];
        if !steps.of(component) {
            continue;
        }
        match component.kind {
            Kind::Funnel => steps.write(funnel::FUNCTL, HOLD, "inputs off"),
            Kind::Replicator => {
                for output in 0..2 {
                    steps.write(replicator::idfilter(output), NOTHING_PASSES, "lets nothing through");
                }
            }
            _ => {
                flush(tmc::FFCR, &mut steps);
                steps.wait(tmc::STS, READY, READY, "everything is passed on");
                steps.write(tmc::CTL, 0, "off");
            }
        }
        steps.release_and_lock();
    }
    let sink = &system.components[route.sink];
    if steps.of(sink) {
        stop_sink(sink, &mut steps);
        steps.release_and_lock();
    }
    steps.steps
}

fn flush(control: Register, steps: &mut Steps) {
    steps.write(control, STOP_ON_FLUSH | FORMAT, "stop when flushed");
    steps.write(control, FLUSH | STOP_ON_FLUSH | FORMAT, "flush");
    steps.wait(control, FLUSH, 0, "flushed");
}

fn stop_sink(sink: &Component, steps: &mut Steps) {
    if sink.kind == Kind::Tpiu {
        flush(tpiu::FFCR, steps);
        steps.wait(tpiu::FFSR, STOPPED, STOPPED, "the formatter has stopped");
        return;
    }
    flush(tmc::FFCR, steps);
    steps.wait(tmc::STS, READY, READY, "everything is written");
    steps.push(tmc::STS, Action::Read, "bit 0: the buffer was filled and begun again");
    steps.push(tmc::RWP, Action::Read, "where the trace ends");
    if sink.kind == Kind::Etr {
        steps.push(tmc::RWPHI, Action::Read, "where the trace ends, upper half");
    } else {
        // The memory of a TMC can be read while it is stopped and not yet off.
        steps.push(tmc::RRD, Action::ReadTrace, "the trace, word by word");
    }
    steps.write(tmc::CTL, 0, "off");
}
