//! ETMv4 and ETE.

use backsight_arm::etm4::Config;

use super::need;
use crate::Error;
use crate::register::{Register, etm4, management};
use crate::request::{Request, Timestamps};
use crate::sequence::Steps;
use crate::system::{Component, Kind};

/// TRCSTATR.IDLE, TRCPRGCTLR.EN, TRCPDCR.PU, TRCPDSR.POWER.
const IDLE: u32 = 1;
const ENABLE: u32 = 1;
const POWER: u32 = 1 << 3;
const POWERED: u32 = 1;

/// TRCVICTLR: tracing is started, and resource 1, which is always true, says when.
const ALWAYS: u32 = 1 << 9 | 1;
/// Resource 1 is always true.
const TRUE: u32 = 1;
/// TRCRSCTLRn.GROUP: external inputs, and counters.
const EXTERNAL_INPUTS: u32 = 0 << 16;
const COUNTERS: u32 = 2 << 16;
/// TRCCNTCTLR0.RLDSELF: begins again at zero.
const RELOAD: u32 = 1 << 16;
/// TRCACATRn.CONTEXTTYPE: compares the context ID too.
const WITH_CONTEXT_ID: u32 = 1 << 2;
/// The first resource selector that can be programmed.
const FIRST_SELECTOR: u8 = 2;
/// The usual period of synchronisation, 2^12 bytes.
const SYNC_PERIOD: u8 = 12;

/// What a unit has, by its ID registers.
struct Capabilities<'a> {
    unit: &'a Component,
}

impl Capabilities<'_> {
    fn field(&self, idr: u8, shift: u32, bits: u32) -> u32 {
        self.unit.idr(idr) >> shift & ((1 << bits) - 1)
    }

    /// Refuses what the unit does not have; `field` is what its ID registers say about it.
    fn need(&self, has: bool, wanted: &str, field: &str) -> Result<(), Error> {
        need(self.unit, has, wanted, field)
    }

    fn branch_broadcast(&self) -> bool {
        self.field(0, 5, 1) == 1
    }

    fn cycle_counts(&self) -> bool {
        self.field(0, 7, 1) == 1
    }

    /// Pairs of address comparators.
    fn address_pairs(&self) -> usize {
        self.field(4, 0, 4) as usize
    }

    fn events(&self) -> usize {
        self.field(0, 10, 2) as usize + 1
    }

    /// Resource selectors, the two that are fixed included.
    fn selectors(&self) -> u32 {
        2 * (self.field(4, 16, 4) + 1)
    }
}

/// The decoder's view of a unit with these registers.
pub fn config(unit: &Component, settings: impl Fn(Register) -> u32) -> Config {
    let mut config = if unit.kind == Kind::Ete { Config::ete_default() } else { Config::etm4_default() };
    let registers = &mut config.registers;
    registers.configr = settings(etm4::CONFIGR);
    registers.traceidr = settings(etm4::TRACEIDR);
    registers.ccctlr = settings(etm4::CCCTLR);
    let ids = [
        (0, &mut registers.idr0),
        (1, &mut registers.idr1),
        (2, &mut registers.idr2),
        (3, &mut registers.idr3),
        (4, &mut registers.idr4),
        (5, &mut registers.idr5),
        (8, &mut registers.idr8),
        (9, &mut registers.idr9),
        (10, &mut registers.idr10),
        (11, &mut registers.idr11),
        (12, &mut registers.idr12),
        (13, &mut registers.idr13),
    ];
    for (number, register) in ids {
        *register = unit.idr(number);
    }
    registers.devarch = unit.id("TRCDEVARCH");
    config
}

/// The accesses that switch a unit on.
///
/// # Errors
/// If the unit cannot do what is asked for.
pub fn start(unit: &Component, request: &Request, id: u8, steps: &mut Steps) -> Result<(), Error> {
    let settings = settings(unit, request, id)?;
    steps.write(etm4::LAR, management::UNLOCK, "unlock");
    steps.write(etm4::PDCR, POWER, "power");
    steps.wait(etm4::PDSR, POWERED, POWERED, "has power");
    steps.write(etm4::OSLAR, 0, "open the OS lock");
    steps.claim(etm4::CLAIMSET, etm4::CLAIMCLR);
    steps.write(etm4::PRGCTLR, 0, "off");
    steps.wait(etm4::STATR, IDLE, IDLE, "idle");
    for (register, value) in settings {
        steps.write(register, value, "");
    }
    steps.write(etm4::PRGCTLR, ENABLE, "on");
    steps.wait(etm4::STATR, IDLE, 0, "no longer idle");
    Ok(())
}

/// The accesses that switch a unit off, when all of its trace is out.
pub fn stop(steps: &mut Steps) {
    steps.write(etm4::PRGCTLR, 0, "off");
    steps.wait(etm4::STATR, IDLE, IDLE, "idle: all of its trace is out");
    steps.write(etm4::CLAIMCLR, management::CLAIM_EXTERNAL, "release");
    steps.write(etm4::PDCR, 0, "may lose power");
    steps.write(etm4::LAR, 0, "lock");
}

/// What is written to the registers of a unit, in order, while it is off.
fn settings(unit: &Component, request: &Request, id: u8) -> Result<Vec<(Register, u32)>, Error> {
    check_version(unit)?;
    let has = Capabilities { unit };
    if request.data.is_some() {
        let what = "data trace: only ETMv3 has it in the stream of its instructions, and only that is programmed here";
        return Err(Error::of(&unit.name, what));
    }
    let mut settings = vec![
        (etm4::CONFIGR, configr(&has, request)?),
        (etm4::AUXCTLR, 0),
        (etm4::TRACEIDR, id.into()),
        (etm4::VICTLR, ALWAYS),
    ];
    if has.field(3, 26, 1) == 1 {
        settings.push((etm4::STALLCTLR, 0));
    }
    if has.field(4, 12, 4) > 0 {
        settings.push((etm4::VIPCSSCTLR, 0));
    }
    sync_period(&has, request, &mut settings)?;
    if let Some(threshold) = request.cycle_counts {
        settings.push((etm4::CCCTLR, cycle_threshold(&has, threshold)?));
    }
    if has.branch_broadcast() && has.address_pairs() > 0 {
        // Zero: everywhere, where TRCCONFIGR.BB has it on.
        settings.push((etm4::BBCTLR, 0));
    }
    if has.field(0, 14, 1) == 1 && has.field(0, 15, 2) != 0 {
        settings.push((etm4::QCTLR, 0));
    }
    ranges(&has, request, &mut settings)?;
    resources(&has, request, &mut settings)?;
    Ok(settings)
}

/// The version must be one of the kind that the system names: the registers of others are different ones.
fn check_version(unit: &Component) -> Result<(), Error> {
    let config = config(unit, |_| 0);
    let version = config.version().0;
    let fits = if unit.kind == Kind::Ete {
        (0x50..0x60).contains(&version)
    } else {
        (0x40..0x50).contains(&version)
    };
    if fits {
        return Ok(());
    }
    let what = format!(
        "it is of kind {}, but TRCIDR1 and TRCDEVARCH say version {}.{}",
        unit.kind.name(),
        version >> 4,
        version & 0xF
    );
    Err(Error::of(&unit.name, what))
}

fn configr(has: &Capabilities<'_>, request: &Request) -> Result<u32, Error> {
    let decoded = config(has.unit, |_| 0);
    let features = [
        (request.branch_broadcast, 3, has.branch_broadcast(), "branch broadcast", "TRCIDR0.TRCBB"),
        (request.cycle_counts.is_some(), 4, has.cycle_counts(), "cycle counts", "TRCIDR0.TRCCCI"),
        (request.context_id, 6, decoded.context_id_bytes() > 0, "context IDs", "TRCIDR2.CIDSIZE"),
        (request.vmid, 7, decoded.vmid_bytes() > 0, "VMIDs", "TRCIDR2.VMIDSIZE"),
        (request.timestamps.is_some(), 11, decoded.timestamp_bits() > 0, "timestamps", "TRCIDR0.TSSIZE"),
        (request.return_stack, 12, has.field(0, 9, 1) == 1, "return stack", "TRCIDR0.RETSTACK"),
    ];
    // Bit 0 is always one.
    let mut configr = 1;
    for (wanted, bit, able, words, field) in features {
        if wanted {
            has.need(able, words, field)?;
            configr |= 1 << bit;
        }
    }
    Ok(configr)
}

fn cycle_threshold(has: &Capabilities<'_>, threshold: u32) -> Result<u32, Error> {
    let least = has.field(3, 0, 12);
    if (least.max(1)..=0xFFF).contains(&threshold) {
        return Ok(threshold);
    }
    let what =
        format!("cycle count threshold {threshold}: {} (TRCIDR3.CCITMIN) to 4095 is possible", least.max(1));
    Err(Error::of(&has.unit.name, what))
}

fn sync_period(
    has: &Capabilities<'_>,
    request: &Request,
    settings: &mut Vec<(Register, u32)>,
) -> Result<(), Error> {
    if has.field(3, 25, 1) == 1 {
        return has.need(
            request.sync_period.is_none(),
            "synchronisation period",
            "TRCIDR3.SYNCPR: it is fixed",
        );
    }
    let period = request.sync_period.unwrap_or(SYNC_PERIOD);
    if !(8..=20).contains(&period) {
        return Err(Error::new(format!("synchronisation period 2^{period}: 8 to 20 is possible")));
    }
    settings.push((etm4::SYNCPR, period.into()));
    Ok(())
}

/// Address comparators in pairs, each with the context where only one is wanted.
fn ranges(
    has: &Capabilities<'_>,
    request: &Request,
    settings: &mut Vec<(Register, u32)>,
) -> Result<(), Error> {
    // The comparators include both ends.
    let mut ranges: Vec<(u64, u64)> =
        request.ranges.iter().map(|range| (range.start, range.end - 1)).collect();
    let mut kind = 0;
    if let Some(context) = request.only_context {
        has.need(has.field(4, 24, 4) > 0, "only one context", "TRCIDR4.NUMCIDC")?;
        kind = WITH_CONTEXT_ID;
        settings.push((etm4::CIDCVR0, context));
        settings.push((etm4::CIDCCTLR0, 0));
        if ranges.is_empty() {
            ranges.push((0, if has.field(2, 0, 5) == 8 { u64::MAX } else { u32::MAX.into() }));
        }
    }
    let pairs = has.address_pairs();
    if ranges.len() > pairs {
        let what =
            format!("{} address ranges: it has comparators for {pairs} (TRCIDR4.NUMACPAIRS)", ranges.len());
        return Err(Error::of(&has.unit.name, what));
    }
    let mut included = 0;
    for (number, (first, last)) in (0u8..).zip(ranges) {
        if has.field(2, 0, 5) != 8 && last > u32::MAX.into() {
            let what = format!("address {last:#x}: its addresses have 32 bits (TRCIDR2.IASIZE)");
            return Err(Error::of(&has.unit.name, what));
        }
        for (comparator, address) in [(2 * number, first), (2 * number + 1, last)] {
            let [low, high] = etm4::acvr(comparator);
            settings.push((low, address as u32));
            settings.push((high, (address >> 32) as u32));
            settings.push((etm4::acatr(comparator), kind));
        }
        included |= 1 << number;
    }
    if pairs > 0 {
        settings.push((etm4::VIIECTLR, included));
        settings.push((etm4::VISSCTLR, 0));
    }
    Ok(())
}

/// Events of external inputs, and a counter that asks for timestamps: each takes a resource selector.
fn resources(
    has: &Capabilities<'_>,
    request: &Request,
    settings: &mut Vec<(Register, u32)>,
) -> Result<(), Error> {
    if request.events.len() > has.events() {
        let what = format!("{} events: it has {} (TRCIDR0.NUMEVENT)", request.events.len(), has.events());
        return Err(Error::of(&has.unit.name, what));
    }
    let mut selector = FIRST_SELECTOR;
    let (mut control, mut enabled) = (0, 0);
    for number in 0..request.events.len() {
        control |= u32::from(selector) << (8 * number);
        enabled |= 1 << number;
        settings.push((etm4::rsctlr(selector), EXTERNAL_INPUTS | 1 << number));
        selector += 1;
    }
    external_inputs(has, &request.events, settings)?;
    settings.push((etm4::EVENTCTL0R, control));
    settings.push((etm4::EVENTCTL1R, enabled));
    let mut timestamp_resource = 0;
    if let Some(Timestamps::EveryCycles(period)) = request.timestamps {
        has.need(has.field(5, 28, 3) > 0, "timestamps by a counter", "TRCIDR5.NUMCNTR")?;
        has.need(period > 0, "timestamps every 0 cycles", "the counter")?;
        settings.push((etm4::CNTRLDVR0, period.into()));
        settings.push((etm4::CNTCTLR0, RELOAD | TRUE));
        settings.push((etm4::CNTVR0, period.into()));
        settings.push((etm4::rsctlr(selector), COUNTERS | 1));
        timestamp_resource = selector.into();
        selector += 1;
    }
    settings.push((etm4::TSCTLR, timestamp_resource));
    has.need(u32::from(selector) <= has.selectors(), "so many events and counters", "TRCIDR4.NUMRSPAIR")
}

/// ETMv4 selects one of its inputs by number, in one register for all; ETE a PMU event, in a register each.
fn external_inputs(
    has: &Capabilities<'_>,
    events: &[u16],
    settings: &mut Vec<(Register, u32)>,
) -> Result<(), Error> {
    let selectors = has.field(5, 9, 3) as usize;
    has.need(events.len() <= selectors, "an external input for each event", "TRCIDR5.NUMEXTINSEL")?;
    if has.unit.kind == Kind::Ete {
        let numbered = (0..).zip(events);
        settings.extend(numbered.map(|(number, &event)| (etm4::extinselr(number), event.into())));
        return Ok(());
    }
    let mut inputs = 0;
    for (number, &input) in events.iter().enumerate() {
        has.need(u32::from(input) < has.field(5, 0, 9).min(256), "that external input", "TRCIDR5.NUMEXTIN")?;
        inputs |= u32::from(input) << (8 * number);
    }
    if !events.is_empty() {
        settings.push((etm4::EXTINSELR, inputs));
    }
    Ok(())
}
