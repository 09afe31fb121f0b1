//! Registers of a core.

use std::collections::BTreeMap;
use std::mem::take;

use backsight_core::describe::Name;

use super::{Contents, Writer};
use crate::names::{Bank, Class, Register};
use crate::packet::{RegisterWrite, State};

/// Registers of a core that are kept: what a log has more is not known.
const MOST: usize = 1 << 12;

/// Numbers of the registers that are looked up fast: X and V without a bank.
const FAST: usize = 64;

/// A core.
#[derive(Clone, Debug)]
pub(super) struct Core {
    /// The instruction whose lines these are, and its instruction set.
    pub last: Option<(u64, State)>,
    /// It has registers that the other state calls otherwise: r13 to r15, and x13 to x30.
    pub has_narrow: bool,
    pub has_wide: bool,
    /// Stack pointers and link registers were written with a bank, and without.
    pub has_banked: bool,
    pub has_plain: bool,
    /// Where registers are among the contents. What is not known any more has no bytes there.
    places: BTreeMap<Register, usize>,
    fast: [Option<u16>; FAST],
    contents: Vec<Contents>,
}

impl Default for Core {
    fn default() -> Self {
        let (last, places, contents) = Default::default();
        let (has_narrow, has_wide, has_banked, has_plain) = Default::default();
        let fast = [None; FAST];
        Self { last, has_narrow, has_wide, has_banked, has_plain, places, fast, contents }
    }
}

/// What a write of a register means for the one that holds it.
struct Held {
    register: Register,
    /// Where in it the first byte is.
    offset: usize,
    /// So many bytes become zero where not all of them are written.
    zeros: usize,
    /// All bytes from this one on are not known afterwards.
    forget: usize,
}

fn fast_number(register: &Register) -> Option<usize> {
    let number = usize::from(register.number);
    match register.class {
        Class::X if number < 32 && register.bank == Bank::NONE => Some(number),
        Class::V if number < 32 && register.bank == Bank::NONE => Some(32 + number),
        _ => None,
    }
}

impl Core {
    pub fn get(&self, register: &Register) -> Option<&Contents> {
        let place = *self.places.get(register)?;
        self.contents.get(place).filter(|contents| !contents.bytes.is_empty())
    }

    /// Registers of which something is said, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&Register, &Contents)> {
        let with_contents = |(register, place): (_, &usize)| Some((register, self.contents.get(*place)?));
        self.places.iter().filter_map(with_contents).filter(|(_, contents)| !contents.bytes.is_empty())
    }

    /// Is there no room for more?
    pub fn is_full(&self) -> bool {
        self.places.len() >= MOST
    }

    #[inline]
    pub fn get_mut(&mut self, register: Register) -> Option<&mut Contents> {
        let fast = fast_number(&register);
        let place = match fast.and_then(|number| self.fast[number]) {
            Some(place) => usize::from(place),
            None => {
                let place = match self.places.get(&register) {
                    Some(place) => *place,
                    None if self.is_full() => return None,
                    None => {
                        self.contents.push(Contents::default());
                        self.places.insert(register, self.contents.len() - 1);
                        self.contents.len() - 1
                    }
                };
                if let Some(number) = fast {
                    self.fast[number] = u16::try_from(place).ok();
                }
                place
            }
        };
        self.contents.get_mut(place)
    }

    /// Forgets the registers for which something holds.
    pub fn forget(&mut self, is_it: impl Fn(&Register) -> bool) {
        for (_, place) in self.places.iter().filter(|(register, _)| is_it(register)) {
            self.contents[*place].bytes.clear();
        }
    }

    /// Gives the register that holds what is written.
    #[inline]
    pub fn write(&mut self, write: &RegisterWrite, writer: Writer) -> Register {
        let held = self.held(write);
        let Held { register: Register { class, number, bank }, .. } = held;
        if class == Class::X && number >= 13 {
            self.has_wide = true;
            if take(&mut self.has_narrow) {
                self.forget(|one| one.class == Class::R && !is_own(one));
            }
        }
        if matches!(class, Class::Sp) || class == Class::R && number > 12 {
            self.has_plain |= bank == Bank::NONE;
            self.has_banked |= bank != Bank::NONE;
            if self.has_plain && self.has_banked {
                // A register without a bank is that of the current mode, which is not told: it may be any of those with one.
                self.forget(|other| {
                    (other.class, other.number) == (class, number)
                        && (other.bank == Bank::NONE) != (bank == Bank::NONE)
                });
            }
        }
        let Some(contents) = self.get_mut(held.register) else { return held.register };
        let touched = usize::from(write.data.touched);
        let reach = held.zeros.max(match usize::BITS - touched.leading_zeros() {
            0 => 0,
            bits => held.offset + bits as usize,
        });
        if contents.bytes.len() < reach {
            contents.bytes.resize(reach, None);
        }
        contents.bytes.iter_mut().skip(held.forget).for_each(|byte| *byte = None);
        contents.bytes.iter_mut().take(held.zeros).for_each(|byte| *byte = Some(0));
        let bytes = contents.bytes.get_mut(held.offset..).unwrap_or_default().iter_mut();
        for (index, (to, from)) in bytes.zip(write.data.bytes).enumerate() {
            if touched >> index & 1 == 1 {
                *to = (write.data.known >> index & 1 == 1).then_some(from);
            }
        }
        contents.writer = writer;
        held.register
    }

    /// The register that holds what is written.
    #[inline]
    fn held(&mut self, write: &RegisterWrite) -> Held {
        let RegisterWrite { register, offset, width, .. } = *write;
        let Register { class, number, bank } = register;
        let is_wide = self.last.is_none_or(|(_, state)| state == State::A64);
        let (offset, whole) = (usize::from(offset), width > 0);
        let held = |class, number, bank, zeros| Held {
            register: Register { class, number, bank },
            offset,
            zeros,
            forget: usize::MAX,
        };
        match class {
            Class::W => held(Class::X, number, Bank::NONE, if whole { 8 } else { 0 }),
            Class::Wsp => held(Class::Sp, 0, bank, if whole { 8 } else { 0 }),
            Class::R if number < 13 && (number < 8 || bank != Bank::new(b"fiq")) => {
                Held { forget: 4, ..held(Class::X, number, Bank::NONE, 0) }
            }
            Class::R => {
                // The same registers have other names in AArch64.
                self.has_narrow = true;
                if take(&mut self.has_wide) {
                    self.forget(|register| register.class == Class::X && register.number >= 13);
                }
                held(Class::R, number, bank, 0)
            }
            Class::S | Class::D if !is_wide => {
                let (size, count) = if class == Class::S { (4, 4) } else { (8, 2) };
                let part = size * usize::from(number % count);
                Held { offset: offset + part, ..held(Class::V, number / count, Bank::NONE, 0) }
            }
            Class::S | Class::D => {
                let zeros = if whole { 16 } else { 0 };
                Held { forget: 16, ..held(Class::V, number, Bank::NONE, zeros) }
            }
            Class::V if is_wide => Held { forget: 16, ..held(Class::V, number, Bank::NONE, 0) },
            Class::Z => held(Class::V, number, Bank::NONE, 0),
            Class::System(name) => {
                let lower = name.as_str().to_ascii_lowercase();
                // A shorter value than before is all there is of it.
                let forget = if whole { usize::from(width) } else { usize::MAX };
                Held { forget, ..held(Class::System(Name::new(lower.as_bytes())), 0, bank, 0) }
            }
            _ => held(class, number, bank, 0),
        }
    }
}

/// Is it a register of AArch32 that AArch64 has not got?
fn is_own(register: &Register) -> bool {
    register.number == 15
}
