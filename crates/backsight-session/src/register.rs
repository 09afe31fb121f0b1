//! The registers that sessions access: names of the manuals, and offsets from the base address of the component.

use std::fmt;

/// A register of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register {
    /// Its offset in bytes.
    pub offset: u16,
    name: &'static str,
    /// Which of several of that name.
    number: Option<u8>,
    /// Which bits of a register of 64, in the manual's notation.
    bits: &'static str,
}

const fn one(name: &'static str, offset: u16) -> Register {
    Register { offset, name, number: None, bits: "" }
}

const fn several(name: &'static str, first: u16, stride: u16, number: u8) -> Register {
    Register { offset: first + stride * number as u16, name, number: Some(number), bits: "" }
}

impl Register {
    /// Trace units have names of their own for what every component has, and two names for what all of them have.
    pub(crate) fn common(self) -> Self {
        match self {
            etm4::LAR | etm::LAR => management::LAR,
            etm4::CLAIMSET | etm::CLAIMSET => management::CLAIMSET,
            etm4::CLAIMCLR | etm::CLAIMCLR => management::CLAIMCLR,
            etm::OSLAR => etm4::OSLAR,
            etm::PDCR => etm4::PDCR,
            etm::PDSR => etm4::PDSR,
            register => register,
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.number.map_or(Ok(()), |number| write!(f, "{number}"))?;
        f.write_str(self.bits)
    }
}

/// What every component has.
pub mod management {
    use super::{Register, one};

    /// Sets claim tags.
    pub const CLAIMSET: Register = one("CLAIMSET", 0xFA0);
    /// Clears claim tags; reads as those that are set.
    pub const CLAIMCLR: Register = one("CLAIMCLR", 0xFA4);
    /// Locks and unlocks the others.
    pub const LAR: Register = one("LAR", 0xFB0);
    /// The key that unlocks.
    pub const UNLOCK: u32 = 0xC5AC_CE55;
    /// The claim tag of an external debugger.
    pub const CLAIM_EXTERNAL: u32 = 1 << 0;
    /// The claim tag of software on the target itself, such as an operating system.
    pub const CLAIM_SELF_HOSTED: u32 = 1 << 1;
}

/// Trace units: ETMv4 and ETE.
pub mod etm4 {
    use super::{Register, one, several};

    /// Locks and unlocks the others.
    pub const LAR: Register = one("TRCLAR", 0xFB0);
    /// Sets claim tags.
    pub const CLAIMSET: Register = one("TRCCLAIMSET", 0xFA0);
    /// Clears claim tags; reads as those that are set.
    pub const CLAIMCLR: Register = one("TRCCLAIMCLR", 0xFA4);
    /// Bit 0: the unit is on.
    pub const PRGCTLR: Register = one("TRCPRGCTLR", 0x004);
    /// Bit 0: the unit is idle.
    pub const STATR: Register = one("TRCSTATR", 0x00C);
    /// What is traced.
    pub const CONFIGR: Register = one("TRCCONFIGR", 0x010);
    /// Controls that each implementation defines.
    pub const AUXCTLR: Register = one("TRCAUXCTLR", 0x018);
    /// The resources of events 0 to 3, a byte each.
    pub const EVENTCTL0R: Register = one("TRCEVENTCTL0R", 0x020);
    /// Bits 3:0: events that are written into the trace.
    pub const EVENTCTL1R: Register = one("TRCEVENTCTL1R", 0x024);
    /// Stalling of the processor.
    pub const STALLCTLR: Register = one("TRCSTALLCTLR", 0x02C);
    /// The resource that asks for timestamps.
    pub const TSCTLR: Register = one("TRCTSCTLR", 0x030);
    /// Bytes between synchronisations, as a power of two.
    pub const SYNCPR: Register = one("TRCSYNCPR", 0x034);
    /// The cycle count threshold.
    pub const CCCTLR: Register = one("TRCCCCTLR", 0x038);
    /// Where branches are broadcast.
    pub const BBCTLR: Register = one("TRCBBCTLR", 0x03C);
    /// The trace ID.
    pub const TRACEIDR: Register = one("TRCTRACEIDR", 0x040);
    /// Where Q elements are allowed.
    pub const QCTLR: Register = one("TRCQCTLR", 0x044);
    /// When instructions are traced.
    pub const VICTLR: Register = one("TRCVICTLR", 0x080);
    /// Address ranges that are traced or left out.
    pub const VIIECTLR: Register = one("TRCVIIECTLR", 0x084);
    /// Addresses that start and stop tracing.
    pub const VISSCTLR: Register = one("TRCVISSCTLR", 0x088);
    /// Inputs that start and stop tracing.
    pub const VIPCSSCTLR: Register = one("TRCVIPCSSCTLR", 0x08C);
    /// ETMv4: selects four external inputs, a byte each.
    pub const EXTINSELR: Register = one("TRCEXTINSELR", 0x120);
    /// The value that a counter begins with again.
    pub const CNTRLDVR0: Register = several("TRCCNTRLDVR", 0x140, 4, 0);
    /// How a counter counts.
    pub const CNTCTLR0: Register = several("TRCCNTCTLR", 0x150, 4, 0);
    /// The value of a counter.
    pub const CNTVR0: Register = several("TRCCNTVR", 0x160, 4, 0);
    /// The OS lock: 0 unlocks.
    pub const OSLAR: Register = one("TRCOSLAR", 0x300);
    /// Bit 3: keep the unit powered.
    pub const PDCR: Register = one("TRCPDCR", 0x310);
    /// Bit 0: the unit has power.
    pub const PDSR: Register = one("TRCPDSR", 0x314);
    /// Context ID comparator 0, low half.
    pub const CIDCVR0: Register = several("TRCCIDCVR", 0x600, 8, 0);
    /// Bytes that context ID comparators leave out.
    pub const CIDCCTLR0: Register = several("TRCCIDCCTLR", 0x680, 4, 0);

    /// The low and high half of address comparator `number`.
    pub const fn acvr(number: u8) -> [Register; 2] {
        let low = several("TRCACVR", 0x400, 8, number);
        [Register { bits: "[31:0]", ..low }, Register { bits: "[63:32]", offset: low.offset + 4, ..low }]
    }

    /// What address comparator `number` compares.
    pub const fn acatr(number: u8) -> Register {
        several("TRCACATR", 0x480, 8, number)
    }

    /// ETE: selects external input `number` by the number of its PMU event.
    pub const fn extinselr(number: u8) -> Register {
        several("TRCEXTINSELR", 0x120, 4, number)
    }

    /// Resource selector `number`, 2 and up.
    pub const fn rsctlr(number: u8) -> Register {
        several("TRCRSCTLR", 0x200, 4, number)
    }

    /// All ID registers.
    pub const ID_REGISTERS: [&str; 13] = [
        "TRCIDR0",
        "TRCIDR1",
        "TRCIDR2",
        "TRCIDR3",
        "TRCIDR4",
        "TRCIDR5",
        "TRCIDR8",
        "TRCIDR9",
        "TRCIDR10",
        "TRCIDR11",
        "TRCIDR12",
        "TRCIDR13",
        "TRCDEVARCH",
    ];
}

/// Trace units: ETMv3 and PTM, whose registers have the same names.
pub mod etm {
    use super::{Register, one, several};

    /// Locks and unlocks the others.
    pub const LAR: Register = one("ETMLAR", 0xFB0);
    /// Sets claim tags.
    pub const CLAIMSET: Register = one("ETMCLAIMSET", 0xFA0);
    /// Clears claim tags; reads as those that are set.
    pub const CLAIMCLR: Register = one("ETMCLAIMCLR", 0xFA4);
    /// What is traced; bit 10: the unit is being programmed, bit 0: it has no power.
    pub const CR: Register = one("ETMCR", 0x000);
    /// The event that is a trigger.
    pub const TRIGGER: Register = one("ETMTRIGGER", 0x008);
    /// Bit 1: the unit is being programmed, and all of its trace is out.
    pub const SR: Register = one("ETMSR", 0x010);
    /// Addresses that start and stop tracing.
    pub const TSSCR: Register = one("ETMTSSCR", 0x018);
    /// ETMv3: single addresses that are traced.
    pub const TECR2: Register = one("ETMTECR2", 0x01C);
    /// The event while which instructions are traced.
    pub const TEEVR: Register = one("ETMTEEVR", 0x020);
    /// Address ranges that are traced or, with bit 24, left out.
    pub const TECR1: Register = one("ETMTECR1", 0x024);
    /// ETMv3: the event while which data is traced.
    pub const VDEVR: Register = one("ETMVDEVR", 0x030);
    /// ETMv3: single addresses whose data is traced or left out.
    pub const VDCR1: Register = one("ETMVDCR1", 0x034);
    /// ETMv3: memory map decoders whose data is traced or left out.
    pub const VDCR2: Register = one("ETMVDCR2", 0x038);
    /// ETMv3: address ranges whose data is traced or left out; bit 16: all others are traced.
    pub const VDCR3: Register = one("ETMVDCR3", 0x03C);
    /// The value that counter 1 begins with again.
    pub const CNTRLDVR1: Register = one("ETMCNTRLDVR1", 0x140);
    /// The event while which counter 1 counts.
    pub const CNTENR1: Register = one("ETMCNTENR1", 0x150);
    /// The event at which counter 1 begins again.
    pub const CNTRLDEVR1: Register = one("ETMCNTRLDEVR1", 0x160);
    /// The value of counter 1.
    pub const CNTVR1: Register = one("ETMCNTVR1", 0x170);
    /// Context ID comparator 1.
    pub const CIDCVR1: Register = one("ETMCIDCVR1", 0x1B0);
    /// Bits that context ID comparators leave out.
    pub const CIDCMR: Register = one("ETMCIDCMR", 0x1BC);
    /// Bytes between synchronisations.
    pub const SYNCFR: Register = one("ETMSYNCFR", 0x1E0);
    /// The event that asks for timestamps.
    pub const TSEVR: Register = one("ETMTSEVR", 0x1F8);
    /// The trace ID.
    pub const TRACEIDR: Register = one("ETMTRACEIDR", 0x200);
    /// The OS lock: 0 unlocks.
    pub const OSLAR: Register = one("ETMOSLAR", 0x300);
    /// Bit 3: keep the unit powered.
    pub const PDCR: Register = one("ETMPDCR", 0x310);
    /// Bit 0: the unit has power.
    pub const PDSR: Register = one("ETMPDSR", 0x314);

    /// Address comparator `number`, 1 and up.
    pub const fn acvr(number: u8) -> Register {
        several("ETMACVR", 0x03C, 4, number)
    }

    /// What address comparator `number` compares, 1 and up.
    pub const fn actr(number: u8) -> Register {
        several("ETMACTR", 0x07C, 4, number)
    }

    /// All ID registers that sessions look at.
    pub const ID_REGISTERS: [&str; 3] = ["ETMIDR", "ETMCCR", "ETMCCER"];
}

/// Trace Memory Controllers: ETB, ETF and ETR.
pub mod tmc {
    use super::{Register, one};

    /// Size in words of 32 bits.
    pub const RSZ: Register = one("RSZ", 0x004);
    /// Bit 0: full, bit 2: ready, as nothing moves any more.
    pub const STS: Register = one("STS", 0x00C);
    /// The next word of the trace, all ones at its end.
    pub const RRD: Register = one("RRD", 0x010);
    /// Where it is read.
    pub const RRP: Register = one("RRP", 0x014);
    /// Where it is written.
    pub const RWP: Register = one("RWP", 0x018);
    /// Words to write after a trigger.
    pub const TRG: Register = one("TRG", 0x01C);
    /// Bit 0: trace is captured.
    pub const CTL: Register = one("CTL", 0x020);
    /// 0 circular buffer, 2 hardware FIFO.
    pub const MODE: Register = one("MODE", 0x028);
    /// Words that stay free before the buffer counts as full.
    pub const BUFWM: Register = one("BUFWM", 0x034);
    /// Upper half of RRP.
    pub const RRPHI: Register = one("RRPHI", 0x038);
    /// Upper half of RWP.
    pub const RWPHI: Register = one("RWPHI", 0x03C);
    /// How memory is accessed.
    pub const AXICTL: Register = one("AXICTL", 0x110);
    /// The memory that is written.
    pub const DBALO: Register = one("DBALO", 0x118);
    /// Upper half of DBALO.
    pub const DBAHI: Register = one("DBAHI", 0x11C);
    /// Formatting and flushing.
    pub const FFCR: Register = one("FFCR", 0x304);
}

/// Trace Port Interface Unit.
pub mod tpiu {
    use super::{Register, one};

    /// Width of the port, one bit for each.
    pub const CSPSR: Register = one("CSPSR", 0x004);
    /// Bit 1: the formatter has stopped.
    pub const FFSR: Register = one("FFSR", 0x300);
    /// Formatting and flushing.
    pub const FFCR: Register = one("FFCR", 0x304);
}

/// Trace funnel.
pub mod funnel {
    use super::{Register, one};

    /// Bits 7:0: inputs that are on; bits 11:8: how long one is kept.
    pub const FUNCTL: Register = one("FUNCTL", 0x000);
}

/// Programmable replicator.
pub mod replicator {
    use super::{Register, several};

    /// The trace IDs that an output leaves out, a bit for each sixteen.
    pub const fn idfilter(number: u8) -> Register {
        several("IDFILTER", 0x000, 4, number)
    }
}
