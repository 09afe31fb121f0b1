//! The state a processor executes in, as far as trace reports it.

use core::fmt;

use crate::describe::{Describe, Field, Text, Value, write_after, write_text};

/// Security state of an Arm processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Security {
    /// Secure.
    #[default]
    Secure,
    /// Non-secure.
    NonSecure,
    /// Root (RME).
    Root,
    /// Realm (RME).
    Realm,
}

impl Security {
    /// The name used in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secure => "Secure",
            Self::NonSecure => "Non-secure",
            Self::Root => "Root",
            Self::Realm => "Realm",
        }
    }
}

/// Privilege mode of a RISC-V hart, by the number that E-Trace sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Mode(pub u8);

impl Mode {
    /// User.
    pub const USER: Self = Self(0);
    /// Supervisor, or hypervisor-extended supervisor.
    pub const SUPERVISOR: Self = Self(1);
    /// Machine.
    pub const MACHINE: Self = Self(3);
    /// Debug.
    pub const DEBUG: Self = Self(4);
    /// User of a virtual machine.
    pub const VIRTUAL_USER: Self = Self(5);
    /// Supervisor of a virtual machine.
    pub const VIRTUAL_SUPERVISOR: Self = Self(6);

    /// The name used in listings; `None` for a reserved number.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::USER => "U",
            Self::SUPERVISOR => "S",
            Self::MACHINE => "M",
            Self::DEBUG => "D",
            Self::VIRTUAL_USER => "VU",
            Self::VIRTUAL_SUPERVISOR => "VS",
            _ => return None,
        })
    }
}

/// How privileged the executed code was, in the terms of its architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Privilege {
    /// The trace has not said.
    #[default]
    Unknown,
    /// Exception level and security state.
    Arm {
        /// Exception level, 0 to 3.
        level: u8,
        /// Security state.
        security: Security,
    },
    /// Security state and Hyp mode, where the trace gives no exception level (ETMv3, PTM).
    Armv7 {
        /// Security state.
        security: Security,
        /// The processor is in Hyp mode.
        hyp: bool,
    },
    /// Privilege mode.
    Riscv(Mode),
}

impl Privilege {
    /// The exception level or the number of the mode; 0 if unknown.
    #[inline]
    pub const fn level(self) -> u8 {
        match self {
            Self::Unknown | Self::Armv7 { hyp: false, .. } => 0,
            Self::Armv7 { hyp: true, .. } => 2,
            Self::Arm { level, .. } => level,
            Self::Riscv(mode) => mode.0,
        }
    }

    /// The security state of an Arm processor; Secure if the trace has not said.
    #[inline]
    pub const fn security(self) -> Security {
        match self {
            Self::Arm { security, .. } | Self::Armv7 { security, .. } => security,
            _ => Security::Secure,
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown privilege"),
            Self::Arm { level, security } => write!(f, "EL{level} {}", security.name()),
            Self::Armv7 { security, hyp } => {
                write!(f, "{}{}", security.name(), if *hyp { " Hyp" } else { "" })
            }
            Self::Riscv(mode) => match mode.name() {
                Some(name) => write!(f, "{name} mode"),
                None => write!(f, "privilege mode {}", mode.0),
            },
        }
    }
}

/// Privilege, register width and the identifiers that software gave to what runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Exception level and security state (Arm) or privilege mode (RISC-V).
    pub privilege: Privilege,
    /// 64-bit registers.
    pub wide: bool,
    /// Virtual machine identifier (Arm VMID, RISC-V hcontext), once one was traced.
    pub vmid: Option<u32>,
    /// Context identifier (Arm CONTEXTIDR, RISC-V scontext), once one was traced.
    pub context_id: Option<u64>,
}

impl Context {
    /// A context of an Arm processor without identifiers.
    pub const fn arm(level: u8, security: Security, wide: bool) -> Self {
        Self { privilege: Privilege::Arm { level, security }, wide, vmid: None, context_id: None }
    }

    /// A context of an Arm processor whose trace gives no exception level, without identifiers.
    pub const fn armv7(security: Security, hyp: bool) -> Self {
        Self { privilege: Privilege::Armv7 { security, hyp }, wide: false, vmid: None, context_id: None }
    }

    /// A context of a RISC-V hart without identifiers.
    pub const fn riscv(mode: u8, wide: bool) -> Self {
        Self { privilege: Privilege::Riscv(Mode(mode)), wide, vmid: None, context_id: None }
    }

    /// The exception level or the number of the privilege mode; 0 if unknown.
    #[inline]
    pub const fn level(&self) -> u8 {
        self.privilege.level()
    }

    /// The address space that instructions of this context are fetched from, as far as the processor's own state
    /// decides it.
    pub const fn space(&self) -> AddressSpace {
        let (security, level) = match self.privilege {
            Privilege::Arm { level, security } => (security, level),
            Privilege::Armv7 { security: Security::NonSecure, hyp: false } => return AddressSpace::ANY_N,
            Privilege::Armv7 { security: Security::NonSecure, hyp: true } => return AddressSpace::EL2N,
            Privilege::Armv7 { .. } => return AddressSpace::ANY_S,
            Privilege::Unknown | Privilege::Riscv(_) => return AddressSpace::ANY,
        };
        match (security, level) {
            (Security::Root, _) => AddressSpace::ROOT,
            (Security::Realm, 0 | 1) => AddressSpace::EL1R,
            (Security::Realm, _) => AddressSpace::EL2R,
            (_, 3) => AddressSpace::EL3,
            (Security::Secure, 2) => AddressSpace::EL2S,
            (Security::NonSecure, 2) => AddressSpace::EL2N,
            (Security::Secure, _) => AddressSpace::EL1S,
            (Security::NonSecure, _) => AddressSpace::EL1N,
        }
    }
}

/// Each field has a name that says that it is a member of the context.
impl Describe for Context {
    fn name(&self) -> &'static str {
        "context"
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        let mut ids = ("VMID", "CID");
        match self.privilege {
            Privilege::Unknown => {}
            Privilege::Arm { level, security } => {
                each(Field::new("context.level", Value::Decimal(level.into())).text(Text::Within("EL", "")));
                each(Field::new("context.security", Value::Word(security.name())).text(Text::Plain));
            }
            Privilege::Armv7 { security, hyp } => {
                each(Field::new("context.security", Value::Word(security.name())).text(Text::Plain));
                each(Field::new("context.hyp", Value::Flag(hyp)).text(Text::Words("Hyp")));
            }
            Privilege::Riscv(mode) => {
                let number = Field::new("context.mode", Value::Decimal(mode.0.into()));
                let name = Field::new("context.mode_name", mode.name().map_or(Value::Absent, Value::Word));
                let unnamed = Text::Within("privilege mode ", "");
                each(number.text(if mode.name().is_some() { Text::Hidden } else { unnamed }));
                each(name.text(Text::Within("", " mode")));
                ids = ("hcontext", "context");
            }
        }
        each(Field::new("context.bits", Value::Decimal(if self.wide { 64 } else { 32 })).text(Text::Hidden));
        let id = |name, label, id: Option<u64>| match id {
            Some(id) => Field::new(name, Value::Hexadecimal(id)).text(Text::Labelled(label)),
            None => Field::new(name, Value::Absent).text(Text::Hidden),
        };
        each(id("context.vmid", ids.0, self.vmid.map(u64::from)));
        each(id("context.context_id", ids.1, self.context_id));
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.privilege {
            Privilege::Unknown => write_after("unknown privilege", self, f),
            _ => write_text(self, f),
        }
    }
}

/// The key that code is looked up by, beside its address. It names a set of spaces: code is visible from all the
/// spaces of its set, and execution fetches from one.
///
/// ```text
///  31                               8 7                 0
/// ┌──────────────────────────────────┬───────────────────┐   process 0: every process
/// │ process                          │ view, one bit each│   view: what is visible from which exception level and
/// └──────────────────────────────────┴───────────────────┘   security state of an Arm processor
/// ```
///
/// What keeps code by process numbers the processes as it likes: the numbers mean nothing to a follower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct AddressSpace(u32);

impl AddressSpace {
    /// Secure EL0 and EL1.
    pub const EL1S: Self = Self(0x01);
    /// Non-secure EL0 and EL1.
    pub const EL1N: Self = Self(0x02);
    /// Non-secure EL2.
    pub const EL2N: Self = Self(0x04);
    /// EL3.
    pub const EL3: Self = Self(0x08);
    /// Secure EL2.
    pub const EL2S: Self = Self(0x10);
    /// Realm EL0 and EL1.
    pub const EL1R: Self = Self(0x20);
    /// Realm EL2.
    pub const EL2R: Self = Self(0x40);
    /// Root.
    pub const ROOT: Self = Self(0x80);
    /// Every secure space.
    pub const ANY_S: Self = Self(0x19);
    /// Every non-secure space.
    pub const ANY_N: Self = Self(0x06);
    /// Every realm space.
    pub const ANY_R: Self = Self(0x60);
    /// Everywhere.
    pub const ANY: Self = Self(0xFF);

    /// The set of the views whose bits are set in `view`, in every process.
    #[inline]
    pub const fn from_view(view: u8) -> Self {
        Self(view as u32)
    }

    /// The same views in one process only; 0: in every process. Numbers have 24 bits.
    #[inline]
    pub const fn in_process(self, process: u32) -> Self {
        Self(self.0 & 0xFF | process << 8)
    }

    /// One bit for each view of the set.
    #[inline]
    pub const fn view(self) -> u8 {
        self.0 as u8
    }

    /// The number of the process; 0 if it is every process.
    #[inline]
    pub const fn process(self) -> u32 {
        self.0 >> 8
    }

    /// Do the two sets share a space?
    #[inline]
    pub const fn meets(self, other: Self) -> bool {
        let same = self.process() == other.process() || self.process() == 0 || other.process() == 0;
        self.view() & other.view() != 0 && same
    }

    /// The name of the views in listings and snapshot files, where the set has one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match Self::from_view(self.view()) {
            Self::EL1S => "EL1S",
            Self::EL1N => "EL1N",
            Self::EL2N => "EL2N",
            Self::EL3 => "EL3",
            Self::EL2S => "EL2S",
            Self::EL1R => "EL1R",
            Self::EL2R => "EL2R",
            Self::ROOT => "Root",
            Self::ANY_S => "Any S",
            Self::ANY_N => "Any NS",
            Self::ANY_R => "Any R",
            Self::ANY => "Any",
            _ => return None,
        })
    }
}

impl fmt::Debug for AddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "AddressSpace({name}")?,
            None => write!(f, "AddressSpace({:#04x}", self.view())?,
        }
        if self.process() != 0 {
            write!(f, " in process {}", self.process())?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_context_of_arm_has_exactly_one_space() {
        for security in [Security::Secure, Security::NonSecure, Security::Root, Security::Realm] {
            for level in 0..4 {
                let space = Context::arm(level, security, true).space();
                assert_eq!(space.view().count_ones(), 1, "{security:?} EL{level}");
            }
        }
        assert_eq!(Context::riscv(3, true).space(), AddressSpace::ANY);
        assert_eq!(Context::armv7(Security::Secure, false).space(), AddressSpace::ANY_S);
        assert_eq!(Context::armv7(Security::NonSecure, false).space(), AddressSpace::ANY_N);
        assert_eq!(Context::armv7(Security::NonSecure, true).space(), AddressSpace::EL2N);
    }

    #[test]
    fn contexts_are_worded_in_the_terms_of_their_architecture() {
        let mut context = Context::arm(1, Security::NonSecure, true);
        context.context_id = Some(0x2A);
        assert_eq!(context.to_string(), "EL1 Non-secure CID=0x2a");
        let mut context = Context::riscv(1, true);
        context.context_id = Some(u64::MAX);
        assert_eq!(context.to_string(), "S mode context=0xffffffffffffffff");
        assert_eq!(Context::riscv(7, true).to_string(), "privilege mode 7");
        assert_eq!(Context::armv7(Security::Secure, false).to_string(), "Secure");
        assert_eq!(Context::armv7(Security::NonSecure, true).to_string(), "Non-secure Hyp");
    }

    #[test]
    fn spaces_of_different_processes_share_nothing() {
        let (one, two) = (AddressSpace::EL1N.in_process(1), AddressSpace::EL1N.in_process(2));
        assert!(!one.meets(two) && one.meets(one) && one.meets(AddressSpace::ANY));
        assert!(!one.meets(AddressSpace::EL1S) && one.process() == 1 && one.view() == 2);
    }
}
