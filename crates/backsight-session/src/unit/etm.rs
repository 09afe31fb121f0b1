//! ETMv3 and PTM. What they have stands in ETMIDR, ETMCCR and ETMCCER; for branch broadcast, cycle counts, context IDs
//! and data there is no such field: their bits of ETMCR stay zero where they are missing, so that they are read back.

use backsight_arm::{etm3, ptm};

use super::need;
use crate::Error;
use crate::register::{Register, etm, etm4, management};
use crate::request::{Data, Request, Timestamps};
use crate::sequence::Steps;
use crate::system::{Component, Kind};

/// ETMCR: power-down, programming and, of ETMv3, the output that switches the trace port on.
pub const POWER_DOWN: u32 = 1;
pub const PROGRAMMING: u32 = 1 << 10;
const PORT: u32 = 1 << 11;
/// ETMCR: all that says what is traced. The others (size and mode of a port, the processor) stay as they are.
const TRACED: u32 = 0x701C_DB8E;
/// ETMSR: the programming bit has taken effect.
pub const PROGRAMMED: u32 = 1 << 1;
/// ETMPDCR and ETMPDSR.
const POWER: u32 = 1 << 3;
const POWERED: u32 = 1;
/// Events: a resource, or one that is negated.
const ALWAYS: u32 = 0x6F;
const NEVER: u32 = NOT | ALWAYS;
const NOT: u32 = 1 << 14;
const COUNTER_1_AT_ZERO: u32 = 0x40;
/// ETMCNTENR1: this bit is one in all versions that have it.
const COUNT_BY_EVENT: u32 = 1 << 17;
/// ETMTECR1: everything but the ranges; none is named.
const EXCLUDE: u32 = 1 << 24;
/// ETMVDCR3: everything but what is named.
const EXCLUDE_ONLY: u32 = 1 << 16;
/// ETMACTRn: instructions that are executed, and only where context ID comparator 1 matches.
const EXECUTED: u32 = 1;
const WITH_CONTEXT_ID: u32 = 1 << 8;
/// The usual period of synchronisation, 2^10 bytes.
const SYNC_PERIOD: u8 = 10;

/// What a unit has, by its ID registers.
#[derive(Clone, Copy)]
pub struct Etm<'a> {
    unit: &'a Component,
}

impl<'a> Etm<'a> {
    /// The unit of a component.
    pub const fn new(unit: &'a Component) -> Self {
        Self { unit }
    }

    fn ccr(self, shift: u32, bits: u32) -> u32 {
        self.unit.id("ETMCCR") >> shift & ((1 << bits) - 1)
    }

    fn ccer(self, bit: u32) -> bool {
        self.unit.id("ETMCCER") >> bit & 1 == 1
    }

    fn is_ptm(self) -> bool {
        self.unit.kind == Kind::Ptm
    }

    fn minor(self) -> u32 {
        self.unit.id("ETMIDR") >> 4 & 0xF
    }

    /// Is there an OS lock, and the status of its power? From ETMv3.3 on.
    pub fn os_lock(self) -> bool {
        self.is_ptm() || self.minor() >= 3
    }

    /// Can it be asked to keep its power?
    pub fn power_control(self) -> bool {
        self.is_latest()
    }

    /// ETMv3.5 and PFTv1.1.
    fn is_latest(self) -> bool {
        self.minor() >= if self.is_ptm() { 1 } else { 5 }
    }

    fn timestamps(self) -> bool {
        self.ccer(22) && (self.is_ptm() || self.is_latest())
    }

    fn virtualization(self) -> bool {
        self.ccer(26) && self.is_latest()
    }

    /// Counter 1 counts every cycle and begins again by itself; it has no other register than that for its value.
    fn reduced_counter(self) -> bool {
        !self.is_ptm() && self.is_latest() && self.ccer(27)
    }

    fn need(self, has: bool, wanted: &str, field: &str) -> Result<(), Error> {
        need(self.unit, has, wanted, field)
    }

    /// Do the ID registers say that there is a register?
    pub fn has(self, register: Register) -> bool {
        let comparators = 2 * self.ccr(0, 4) as u8;
        let counters = self.ccr(13, 3) > 0;
        match register {
            etm4::PDCR => self.power_control(),
            etm4::OSLAR => self.os_lock(),
            etm::TSSCR => self.ccr(26, 1) == 1,
            etm::TECR2 | etm::VDEVR | etm::VDCR1 | etm::VDCR2 | etm::VDCR3 => !self.is_ptm(),
            etm::CNTRLDVR1 => counters,
            etm::CNTENR1 | etm::CNTRLDEVR1 | etm::CNTVR1 => counters && !self.reduced_counter(),
            etm::CIDCVR1 | etm::CIDCMR => self.ccr(24, 2) > 0,
            etm::TSEVR => self.timestamps(),
            _ if (0x040..0x0C0).contains(&register.offset) => {
                (1..=comparators).any(|n| etm::acvr(n) == register || etm::actr(n) == register)
            }
            _ => true,
        }
    }
}

fn registers(unit: &Component, settings: impl Fn(Register) -> u32) -> ptm::Registers {
    ptm::Registers {
        cr: settings(etm::CR),
        idr: unit.id("ETMIDR"),
        ccer: unit.id("ETMCCER"),
        traceidr: settings(etm::TRACEIDR),
    }
}

/// The decoder's view of an ETMv3.
pub fn etm3_config(unit: &Component, settings: impl Fn(Register) -> u32) -> etm3::Config {
    let mut config = etm3::Config { registers: registers(unit, settings), ..etm3::Config::default() };
    // Every name is one of a processor.
    let _ = config.set("core", &unit.core);
    config
}

/// The decoder's view of a PTM.
pub fn ptm_config(unit: &Component, settings: impl Fn(Register) -> u32) -> ptm::Config {
    ptm::Config { registers: registers(unit, settings) }
}

/// The accesses that switch a unit on.
///
/// # Errors
/// If the unit cannot do what is asked for.
pub fn start(unit: &Component, request: &Request, id: u8, steps: &mut Steps) -> Result<(), Error> {
    let has = Etm::new(unit);
    check_version(has)?;
    let control = control(has, request)?;
    let settings = settings(has, request, id)?;
    steps.write(etm::LAR, management::UNLOCK, "unlock");
    if has.power_control() {
        steps.write(etm::PDCR, POWER, "power");
    }
    if has.os_lock() {
        steps.wait(etm::PDSR, POWERED, POWERED, "has power");
        steps.write(etm::OSLAR, 0, "open the OS lock");
    }
    steps.claim(etm::CLAIMSET, etm::CLAIMCLR);
    steps.change(etm::CR, POWER_DOWN, 0, "not powered down");
    steps.change(etm::CR, PROGRAMMING, PROGRAMMING, "off");
    steps.wait(etm::SR, PROGRAMMED, PROGRAMMED, "idle");
    steps.change(etm::CR, TRACED, control, "");
    if control != 0 {
        steps.wait(etm::CR, control, control, "the unit has all of that");
    }
    for (register, value) in settings {
        steps.write(register, value, "");
    }
    steps.change(etm::CR, PROGRAMMING, 0, "on");
    steps.wait(etm::SR, PROGRAMMED, 0, "no longer idle");
    Ok(())
}

/// The accesses that switch a unit off, when all of its trace is out.
pub fn stop(unit: &Component, steps: &mut Steps) {
    steps.change(etm::CR, PROGRAMMING, PROGRAMMING, "off");
    steps.wait(etm::SR, PROGRAMMED, PROGRAMMED, "idle: all of its trace is out");
    steps.change(etm::CR, POWER_DOWN, POWER_DOWN, "powered down");
    steps.write(etm::CLAIMCLR, management::CLAIM_EXTERNAL, "release");
    if Etm::new(unit).power_control() {
        steps.write(etm::PDCR, 0, "may lose power");
    }
    steps.write(etm::LAR, 0, "lock");
}

/// The version must be one of the kind that the system names. Before ETMv3.2 there was no trace ID.
fn check_version(has: Etm<'_>) -> Result<(), Error> {
    let (major, minor) = (has.unit.id("ETMIDR") >> 8 & 0xF, has.minor());
    let (expected, minors) = if has.is_ptm() { (3, 0..=1) } else { (2, 2..=5) };
    if major == expected && minors.contains(&minor) {
        return Ok(());
    }
    let known = if has.is_ptm() { "0x300 to 0x31F" } else { "0x220 to 0x25F" };
    let what = format!(
        "it is of kind {}, whose ETMIDR has {known} in its bits 11:0; its ETMIDR is {:#x}",
        has.unit.kind.name(),
        has.unit.id("ETMIDR")
    );
    Err(Error::of(&has.unit.name, what))
}

/// What of ETMCR says what is traced.
fn control(has: Etm<'_>, request: &Request) -> Result<u32, Error> {
    let unit = has.unit;
    let microcontroller = !has.is_ptm() && etm3_config(unit, |_| 0).is_m_profile();
    if let Some(threshold) = request.cycle_counts.filter(|&threshold| threshold != 1) {
        let what = format!("cycle count threshold {threshold}: it has none; with 1, all cycles are counted");
        return Err(Error::of(&unit.name, what));
    }
    let data = match request.data {
        None => 0,
        Some(Data::Values) => 0b01 << 2,
        Some(Data::Addresses) => 0b10 << 2,
        Some(Data::Both) => 0b11 << 2,
    };
    let kind = if has.is_ptm() { "its kind, PTM" } else { "its kind, ETMv3" };
    let return_stack = if has.is_ptm() { "ETMCCER bit 23" } else { kind };
    let features = [
        (request.data.is_some(), data, !has.is_ptm(), "data trace", kind),
        (request.branch_broadcast, 1 << 8, true, "branch broadcast", ""),
        (request.cycle_counts.is_some(), 1 << 12, true, "cycle counts", ""),
        (request.context_id, 3 << 14, !microcontroller, "context IDs", "the profile of its core"),
        (request.timestamps.is_some(), 1 << 28, has.timestamps(), "timestamps", "ETMCCER bit 22"),
        (request.return_stack, 1 << 29, has.is_ptm() && has.ccer(23), "return stack", return_stack),
        (request.vmid, 1 << 30, has.virtualization(), "VMIDs", "ETMCCER bit 26"),
        (!request.events.is_empty(), 0, false, "events in the trace", kind),
    ];
    let mut control = if has.is_ptm() { 0 } else { PORT };
    for (wanted, bits, able, words, field) in features {
        if wanted {
            has.need(able, words, field)?;
            control |= bits;
        }
    }
    Ok(control)
}

/// What is written to the other registers of a unit, in order, while it is off.
fn settings(has: Etm<'_>, request: &Request, id: u8) -> Result<Vec<(Register, u32)>, Error> {
    let mut settings = vec![
        (etm::TRIGGER, NEVER),
        (etm::TSSCR, 0),
        (etm::TECR2, 0),
        (etm::TEEVR, ALWAYS),
        (etm::SYNCFR, sync_period(request)?),
        (etm::TRACEIDR, id.into()),
    ];
    settings.retain(|(register, _)| has.has(*register));
    if request.data.is_some() {
        settings.extend([(etm::VDEVR, ALWAYS), (etm::VDCR1, 0), (etm::VDCR2, 0), (etm::VDCR3, EXCLUDE_ONLY)]);
    }
    ranges(has, request, &mut settings)?;
    timestamps(has, request, &mut settings)?;
    Ok(settings)
}

fn sync_period(request: &Request) -> Result<u32, Error> {
    let period = request.sync_period.unwrap_or(SYNC_PERIOD);
    if !(8..=11).contains(&period) {
        return Err(Error::new(format!("synchronisation period 2^{period}: 8 to 11 is possible")));
    }
    Ok(1 << period)
}

/// Address comparators in pairs, each with the context where only one is wanted. The second address is not included.
fn ranges(has: Etm<'_>, request: &Request, settings: &mut Vec<(Register, u32)>) -> Result<(), Error> {
    let mut ranges = request.ranges.clone();
    let mut kind = EXECUTED;
    if let Some(context) = request.only_context {
        has.need(has.ccr(24, 2) > 0, "only one context", "ETMCCR bits 25:24")?;
        kind |= WITH_CONTEXT_ID;
        settings.extend([(etm::CIDCVR1, context), (etm::CIDCMR, 0)]);
        if ranges.is_empty() {
            ranges.push(0..u32::MAX.into());
        }
    }
    let pairs = has.ccr(0, 4) as usize;
    if ranges.len() > pairs {
        let what =
            format!("{} address ranges: it has comparators for {pairs} (ETMCCR bits 3:0)", ranges.len());
        return Err(Error::of(&has.unit.name, what));
    }
    let mut included = 0;
    for (number, range) in (0u8..).zip(&ranges) {
        let end = u32::try_from(range.end).map_err(|_| {
            let what = format!("range to {:#x}: its addresses have 32 bits", range.end);
            Error::of(&has.unit.name, what)
        })?;
        for (comparator, address) in [(2 * number + 1, range.start as u32), (2 * number + 2, end)] {
            settings.push((etm::acvr(comparator), address));
            settings.push((etm::actr(comparator), kind));
        }
        included |= 1 << number;
    }
    settings.push((etm::TECR1, if included == 0 { EXCLUDE } else { included }));
    Ok(())
}

/// A counter that asks for timestamps.
fn timestamps(has: Etm<'_>, request: &Request, settings: &mut Vec<(Register, u32)>) -> Result<(), Error> {
    let mut event = NEVER;
    if let Some(Timestamps::EveryCycles(period)) = request.timestamps {
        has.need(has.ccr(13, 3) > 0, "timestamps by a counter", "ETMCCR bits 15:13")?;
        has.need(period > 0, "timestamps every 0 cycles", "the counter")?;
        let counter = [
            (etm::CNTRLDVR1, period.into()),
            (etm::CNTENR1, COUNT_BY_EVENT | ALWAYS),
            (etm::CNTRLDEVR1, COUNTER_1_AT_ZERO),
            (etm::CNTVR1, period.into()),
        ];
        settings.extend(counter.into_iter().filter(|(register, _)| has.has(*register)));
        event = COUNTER_1_AT_ZERO;
    }
    if has.timestamps() {
        settings.push((etm::TSEVR, event));
    }
    Ok(())
}
