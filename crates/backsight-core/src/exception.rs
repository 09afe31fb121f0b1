//! Why control went to a handler, by the architecture's own names.

use core::fmt;

/// The cause of an exception or interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The exception TYPE of ETMv4 and ETE packets, A and R profile.
    Arm(u16),
    /// The exception number of ETMv3 and PTM packets, A and R profile.
    Armv7(u16),
    /// The exception number of an M-profile processor.
    ArmM(u16),
    /// An exception of a RISC-V hart: `mcause` without its interrupt bit.
    Riscv(u32),
    /// An interrupt of a RISC-V hart: `mcause` without its interrupt bit.
    RiscvInterrupt(u32),
    /// The protocol does not say which.
    NotTraced {
        /// It was an interrupt.
        interrupt: bool,
    },
}

impl Cause {
    /// The architecture's number for it; 0 where the protocol does not say.
    #[inline]
    pub const fn number(self) -> u32 {
        match self {
            Self::Arm(number) | Self::Armv7(number) | Self::ArmM(number) => number as u32,
            Self::Riscv(number) | Self::RiscvInterrupt(number) => number,
            Self::NotTraced { .. } => 0,
        }
    }

    /// Did it come from outside the instruction stream?
    pub const fn is_interrupt(self) -> bool {
        match self {
            Self::Arm(number) | Self::Armv7(number) => matches!(number, 0x0E | 0x0F),
            Self::ArmM(number) => number >= 15,
            Self::Riscv(_) => false,
            Self::RiscvInterrupt(_) => true,
            Self::NotTraced { interrupt } => interrupt,
        }
    }

    /// The name used in listings; `None` for a number without one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Arm(number) => arm(number),
            Self::Armv7(number) => armv7(number),
            Self::ArmM(number) => arm_m(number),
            Self::Riscv(number) => riscv_exception(number),
            Self::RiscvInterrupt(number) => riscv_interrupt(number),
            Self::NotTraced { .. } => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_interrupt() { "interrupt" } else { "exception" })?;
        if let Self::NotTraced { .. } = self {
            return Ok(());
        }
        write!(f, " {:#x}", self.number())?;
        self.name().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

const fn arm(number: u16) -> Option<&'static str> {
    Some(match number {
        0x00 => "PE Reset",
        0x01 => "Debug Halt",
        0x02 => "Call: SVC, HVC or SMC",
        0x03 => "Trap",
        0x04 => "System Error",
        0x06 => "Inst Debug",
        0x07 => "Data Debug",
        0x0A => "Alignment",
        0x0B => "Inst Fault",
        0x0C => "Data Fault",
        0x0E => "IRQ",
        0x0F => "FIQ",
        _ => return None,
    })
}

const fn armv7(number: u16) -> Option<&'static str> {
    Some(match number {
        1 => "Debug halt",
        2 => "SMC",
        3 => "Hyp",
        4 => "Asynchronous data abort",
        5 => "Jazelle or ThumbEE check",
        8 => "Reset",
        9 => "Undefined instruction",
        10 => "SVC",
        11 => "Prefetch abort",
        12 => "Synchronous data abort",
        13 => "Generic",
        14 => "IRQ",
        15 => "FIQ",
        _ => return None,
    })
}

const fn arm_m(number: u16) -> Option<&'static str> {
    Some(match number {
        1 => "Reset",
        2 => "NMI",
        3 => "HardFault",
        4 => "MemManage",
        5 => "BusFault",
        6 => "UsageFault",
        7 => "SecureFault",
        11 => "SVCall",
        12 => "DebugMonitor",
        14 => "PendSV",
        15 => "SysTick",
        16.. => "external interrupt",
        _ => return None,
    })
}

const fn riscv_exception(number: u32) -> Option<&'static str> {
    Some(match number {
        0 => "instruction address misaligned",
        1 => "instruction access fault",
        2 => "illegal instruction",
        3 => "breakpoint",
        4 => "load address misaligned",
        5 => "load access fault",
        6 => "store address misaligned",
        7 => "store access fault",
        8 => "environment call from U mode",
        9 => "environment call from S mode",
        10 => "environment call from VS mode",
        11 => "environment call from M mode",
        12 => "instruction page fault",
        13 => "load page fault",
        15 => "store page fault",
        18 => "software check",
        19 => "hardware error",
        20 => "instruction guest-page fault",
        21 => "load guest-page fault",
        22 => "virtual instruction",
        23 => "store guest-page fault",
        _ => return None,
    })
}

const fn riscv_interrupt(number: u32) -> Option<&'static str> {
    Some(match number {
        1 => "supervisor software interrupt",
        2 => "virtual supervisor software interrupt",
        3 => "machine software interrupt",
        5 => "supervisor timer interrupt",
        6 => "virtual supervisor timer interrupt",
        7 => "machine timer interrupt",
        9 => "supervisor external interrupt",
        10 => "virtual supervisor external interrupt",
        11 => "machine external interrupt",
        12 => "supervisor guest external interrupt",
        13 => "counter overflow interrupt",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn causes_have_the_names_of_their_architecture() {
        assert_eq!(Cause::Arm(2).to_string(), "exception 0x2 (Call: SVC, HVC or SMC)");
        assert_eq!(Cause::Arm(0x0E).to_string(), "interrupt 0xe (IRQ)");
        assert_eq!(Cause::Armv7(10).to_string(), "exception 0xa (SVC)");
        assert_eq!(Cause::Armv7(14).to_string(), "interrupt 0xe (IRQ)");
        assert_eq!(Cause::ArmM(11).to_string(), "exception 0xb (SVCall)");
        assert_eq!(Cause::Riscv(8).to_string(), "exception 0x8 (environment call from U mode)");
        assert_eq!(Cause::RiscvInterrupt(7).to_string(), "interrupt 0x7 (machine timer interrupt)");
        assert_eq!(Cause::Riscv(99).to_string(), "exception 0x63");
        assert_eq!(Cause::NotTraced { interrupt: true }.to_string(), "interrupt");
    }
}
