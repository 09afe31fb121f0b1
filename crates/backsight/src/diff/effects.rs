//! What instructions did: loads, stores and registers.

use std::collections::BTreeMap;

use backsight_flow::{AccessKind, TracedAccess};

use super::stream::Stream;
use super::{Settings, What};
use crate::steps::{Bytes, Note, Register};

/// Bytes of accesses of an instruction that are compared.
const MOST_BYTES: usize = 1 << 12;

/// A byte that was accessed, where that is known.
type Byte = Option<u8>;

/// What the last instruction did on both sides.
#[derive(Default)]
pub(super) struct Effects {
    notes: [Vec<Note>; 2],
    /// By direction (a store) and address.
    bytes: [BTreeMap<(bool, u64), Byte>; 2],
    registers: [BTreeMap<Register, Bytes>; 2],
}

impl Effects {
    pub fn clear(&mut self) {
        self.notes.iter_mut().for_each(Vec::clear);
    }

    pub fn take(&mut self, side: usize, note: &Note) {
        self.notes[side].push(*note);
    }

    /// Puts what was noted in order.
    fn sort(&mut self, side: usize) {
        self.bytes[side].clear();
        self.registers[side].clear();
        for index in 0..self.notes[side].len() {
            match self.notes[side][index] {
                Note::Access(access) => self.access(side, &access),
                Note::Register(register, bytes) => _ = self.registers[side].insert(register, bytes),
                _ => {}
            }
        }
    }

    /// Accesses are compared byte by byte: logs and traces cut them in different ways.
    fn access(&mut self, side: usize, access: &TracedAccess) {
        let store = match access.kind() {
            AccessKind::Load => false,
            AccessKind::Store => true,
            _ => return,
        };
        let Some(address) = access.address().filter(|_| !access.has_failed()) else { return };
        let bytes = &mut self.bytes[side];
        for index in 0..u64::from(access.size().min(8)) {
            if bytes.len() < MOST_BYTES {
                let byte = access.value().map(|value| (value >> (8 * index)) as u8);
                // Of two loads of a byte, or two stores, the last one counts.
                bytes.insert((store, address.0.wrapping_add(index)), byte);
            }
        }
    }

    /// What differs of that, where both sides have it; of accesses, the first byte in each direction.
    pub fn differences(
        &mut self,
        settings: &Settings,
        sides: &mut [Stream<'_>; 2],
        compared: &mut [u64; 3],
    ) -> Vec<What> {
        let mut found = Vec::new();
        self.sort(0);
        if self.notes[0] == self.notes[1] {
            // Most often. Nothing differs.
            for store in [false, true].into_iter().filter(|_| settings.accesses) {
                let count = self.bytes[0].keys().filter(|key| key.0 == store).count();
                compared[usize::from(store)] += count as u64;
            }
            compared[2] += if settings.registers { self.registers[0].len() as u64 } else { 0 };
            return found;
        }
        self.sort(1);
        if settings.accesses {
            for store in [false, true] {
                let both_have = sides.iter().all(|side| side.has_accesses[usize::from(store)]);
                if both_have {
                    found.extend(self.first_byte(store, sides.iter().any(|side| side.has_lost_accesses)));
                    let count = self.bytes[0].keys().filter(|key| key.0 == store).count();
                    compared[usize::from(store)] += count as u64;
                }
            }
        }
        if settings.registers && sides.iter().all(|side| side.has_registers) {
            self.registers(sides, compared, &mut found);
        }
        found
    }

    fn first_byte(&self, store: bool, may_miss: bool) -> Option<What> {
        let first = |side: usize| {
            let (own, other) = (&self.bytes[side], &self.bytes[1 - side]);
            let mut all = own.range((store, 0)..=(store, u64::MAX));
            all.find_map(|(key, byte)| {
                let differs = match (byte, other.get(key)) {
                    (Some(byte), Some(Some(another))) => byte != another,
                    (_, Some(_)) => false,
                    (_, None) => !may_miss,
                };
                differs.then_some((key.1, *byte))
            })
        };
        let bytes = [first(0), first(1)];
        (bytes != [None; 2]).then_some(What::Access { store, bytes })
    }

    /// A register that one side does not log is compared with what was in it.
    fn registers(&self, sides: &[Stream<'_>; 2], compared: &mut [u64; 3], found: &mut Vec<What>) {
        let [one, other] = &self.registers;
        let only_other = other.keys().filter(|register| !one.contains_key(register));
        for register in one.keys().chain(only_other) {
            let values = [0, 1].map(|side: usize| {
                self.registers[side].get(register).or_else(|| sides[side].registers.get(register))
            });
            let [Some(one), Some(other)] = values else { continue };
            compared[2] += 1;
            let known = one.known & other.known;
            if (0..16).any(|index| known >> index & 1 == 1 && one.bytes[index] != other.bytes[index]) {
                found.push(What::Register { register: *register, values: [*one, *other] });
            }
        }
    }
}
