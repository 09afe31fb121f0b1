//! Names of registers.

use backsight_core::describe::Name;

/// A register, with its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register {
    /// What kind of register it is.
    pub class: Class,
    /// Which one of these.
    pub number: u8,
    /// The mode or exception level whose register it is, where the log says.
    pub bank: Bank,
}

/// A kind of register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the manual's names")]
pub enum Class {
    /// `r0` to `r15` of AArch32.
    R,
    /// `x0` to `x30`.
    X,
    /// `w0` to `w30`: the lower half of X; the upper half becomes zero.
    W,
    /// The stack pointer of AArch64.
    Sp,
    /// Its lower half.
    Wsp,
    S,
    D,
    /// `q0` to `q31`, `v0` to `v31`.
    V,
    Z,
    P,
    Cpsr,
    Fpscr,
    Fpcr,
    Fpsr,
    Vpr,
    /// Any other, by its name.
    System(Name),
}

/// The bank of a register: the word behind its name, in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bank([u8; 8]);

impl Bank {
    /// No bank.
    pub const NONE: Self = Self([0; 8]);

    /// The bank of this name.
    pub fn new(word: &[u8]) -> Self {
        let mut bank = [0; 8];
        bank.iter_mut().zip(word).for_each(|(to, from)| *to = from.to_ascii_lowercase());
        Self(bank)
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        core::str::from_utf8(self.0.get(..length).unwrap_or_default()).unwrap_or_default()
    }
}

/// The register that [`Machine::register`](crate::Machine::register) has under a name that a user gives it: `w3` is part of `x3`, `r3`
/// too. `None` for what is no name of a register of this kind: those of the system are known by any name.
pub fn register_named(name: &str) -> Option<Register> {
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return None;
    }
    let own = Register::named(name.as_bytes(), || true);
    let class = match own.class {
        Class::W => Class::X,
        Class::R if own.number < 13 && own.bank == Bank::NONE => Class::X,
        Class::Wsp => Class::Sp,
        Class::S | Class::D | Class::Z => Class::V,
        Class::System(name) => Class::System(Name::new(name.as_str().to_ascii_lowercase().as_bytes())),
        class => class,
    };
    Some(Register { class, ..own })
}

impl Class {
    /// Bytes that a line gives of it; `None` if that is as many as there are.
    pub(crate) const fn size(self) -> Option<usize> {
        Some(match self {
            Self::R | Self::W | Self::Wsp | Self::S | Self::Cpsr => 4,
            Self::Fpscr | Self::Fpcr | Self::Fpsr | Self::Vpr => 4,
            Self::X | Self::Sp | Self::D => 8,
            Self::V => 16,
            Self::Z | Self::P | Self::System(_) => return None,
        })
    }
}

impl Register {
    /// A register without a bank.
    pub const fn new(class: Class, number: u8) -> Self {
        Self { class, number, bank: Bank::NONE }
    }

    /// A register that the log calls so. `is_wide` says whether a name that may be of either state is of AArch64.
    pub(crate) fn named(word: &[u8], is_wide: impl Fn() -> bool) -> Self {
        let mut lower = [0; 24];
        let Some(own) = lower.get_mut(..word.len()) else { return Self::system(word) };
        own.iter_mut().zip(word).for_each(|(to, from)| *to = from.to_ascii_lowercase());
        let base_end = own.iter().position(|&byte| byte == b'_').unwrap_or(own.len());
        let (base, bank) = own.split_at(base_end);
        let bank = bank.get(1..).unwrap_or_default();
        let letters = base.iter().position(u8::is_ascii_digit).unwrap_or(base.len());
        let (letters, digits) = base.split_at(letters);
        let number = match digits {
            [] => None,
            &[one @ b'0'..=b'9'] => Some(one - b'0'),
            &[ten @ b'1'..=b'9', one @ b'0'..=b'9'] => Some((ten - b'0') * 10 + one - b'0'),
            _ => return Self::system(word),
        };
        let class = match (letters, number) {
            (b"r", Some(0..=15)) => Class::R,
            (b"x" | b"e", Some(0..=30)) => Class::X,
            (b"w", Some(0..=30)) => Class::W,
            (b"s", Some(0..=31)) => Class::S,
            (b"d", Some(0..=31)) => Class::D,
            (b"q" | b"v", Some(0..=31)) => Class::V,
            (b"z", Some(0..=31)) => Class::Z,
            (b"p", Some(0..=31)) => Class::P,
            (b"xsp", None) => Class::Sp,
            (b"wsp", None) => Class::Wsp,
            (b"sp", None) if is_wide() => Class::Sp,
            (b"sp" | b"msp", None) => return Self { class: Class::R, number: 13, bank: Bank::new(bank) },
            (b"lr", None) => return Self { class: Class::R, number: 14, bank: Bank::new(bank) },
            (b"psr" | b"cpsr", None) if bank.is_empty() => Class::Cpsr,
            (b"fpscr", None) if bank.is_empty() => Class::Fpscr,
            (b"fpcr", None) if bank.is_empty() => Class::Fpcr,
            (b"fpsr", None) if bank.is_empty() => Class::Fpsr,
            (b"vpr", None) if bank.is_empty() => Class::Vpr,
            _ => return Self::system(word),
        };
        Self { class, number: number.unwrap_or(0), bank: Bank::new(bank) }
    }

    fn system(word: &[u8]) -> Self {
        Self::new(Class::System(Name::new(word)), 0)
    }

    /// Its name, with its bank.
    pub fn name(&self) -> Name {
        let letters = match self.class {
            Class::System(name) if self.bank == Bank::NONE => return name,
            Class::System(ref name) => name.as_str(),
            Class::R => "r",
            Class::X => "x",
            Class::W => "w",
            Class::Sp => "sp",
            Class::Wsp => "wsp",
            Class::S => "s",
            Class::D => "d",
            Class::V => "v",
            Class::Z => "z",
            Class::P => "p",
            Class::Cpsr => "cpsr",
            Class::Fpscr => "fpscr",
            Class::Fpcr => "fpcr",
            Class::Fpsr => "fpsr",
            Class::Vpr => "vpr",
        };
        let mut text = [0; 24];
        let has_number = matches!(
            self.class,
            Class::R | Class::X | Class::W | Class::S | Class::D | Class::V | Class::Z | Class::P
        );
        let (ten, one) = (b'0' + self.number / 10 % 10, b'0' + self.number % 10);
        let digits: &[u8] = if !has_number {
            &[]
        } else if self.number > 9 {
            &[ten, one]
        } else {
            &[one]
        };
        let bank = self.bank.as_str();
        let mark = if bank.is_empty() { "" } else { "_" };
        let parts = letters.bytes().chain(digits.iter().copied()).chain(mark.bytes()).chain(bank.bytes());
        text.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Name::new(&text)
    }
}
