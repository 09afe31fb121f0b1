//! Where indirect branches go: a return stack, and tables of targets by path, the longest path first (ITTAGE).
//!
//! The tables give candidates; a bit for each says whether it is right. A target that no table knows is coded as the
//! difference from the last one that was.

use super::Mix;
use super::coder::Coder;
use super::history::{History, hash};
use super::outcome::Estimate;
use crate::Damage;
use crate::predictors::ReturnStack;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    target: u64,
    tag: u8,
    /// How often it was right, 3 at most.
    sure: u8,
    valid: bool,
}

/// Most tables.
const TABLES: usize = 4;

/// The model of targets.
#[derive(Clone, Debug)]
pub struct Targets {
    build: Mix,
    returns: ReturnStack,
    tables: Vec<Vec<Entry>>,
    /// Whether a candidate is right: by table and confidence; then for returns.
    flags: Vec<Estimate>,
    last: u64,
}

impl Targets {
    pub fn new(build: Mix) -> Self {
        let count = build.target_paths.iter().filter(|&&length| length != Mix::UNUSED).count();
        Self {
            build,
            returns: ReturnStack::new(usize::from(build.returns)),
            tables: vec![vec![Entry::default(); 1 << build.target_bits]; count],
            flags: vec![Estimate::EVEN; TABLES * 4 + 2],
            last: 0,
        }
    }

    /// A call was made.
    pub fn call(&mut self, end: u64) {
        self.returns.push(end);
    }

    fn flag(&mut self, coder: &mut impl Coder, index: usize, bit: bool) -> Result<bool, Damage> {
        let flag = &mut self.flags[index];
        let bit = coder.code(bit, flag.p())?;
        flag.update(bit, 60);
        Ok(bit)
    }

    /// Codes where a return goes.
    pub fn code_return(
        &mut self,
        coder: &mut impl Coder,
        history: &History,
        address: u64,
        target: u64,
    ) -> Result<u64, Damage> {
        if let Some(expected) = self.returns.pop()
            && self.flag(coder, TABLES * 4, expected == target)?
        {
            return Ok(expected);
        }
        self.code(coder, history, address, target)
    }

    /// Codes where an indirect branch goes.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        history: &History,
        address: u64,
        target: u64,
    ) -> Result<u64, Damage> {
        let mut slots = [(0usize, 0u8); TABLES];
        for (slot, &length) in slots.iter_mut().zip(&self.build.target_paths) {
            if length != Mix::UNUSED {
                let hashed = hash(address, history.path(length) ^ u64::from(length));
                *slot = ((hashed >> 40) as usize & ((1 << self.build.target_bits) - 1), (hashed >> 24) as u8);
            }
        }
        let mut tried = [None; TABLES];
        let mut coded = None;
        for table in (0..self.tables.len()).rev() {
            let (slot, tag) = slots[table];
            let entry = self.tables[table][slot];
            if !entry.valid || entry.tag != tag || tried.contains(&Some(entry.target)) {
                continue;
            }
            tried[table] = Some(entry.target);
            if self.flag(coder, table * 4 + usize::from(entry.sure), entry.target == target)? {
                coded = Some((table, entry.target));
                break;
            }
        }
        let (right, target) = match coded {
            Some((table, target)) => (Some(table), target),
            None => (None, self.code_new(coder, target)?),
        };
        self.update(&slots, right, target);
        Ok(target)
    }

    fn update(&mut self, slots: &[(usize, u8); TABLES], right: Option<usize>, target: u64) {
        let mut allocate = true;
        for (table, (entries, &(slot, tag))) in self.tables.iter_mut().zip(slots).enumerate() {
            let entry = &mut entries[slot];
            if entry.valid && entry.tag == tag {
                if entry.target == target {
                    entry.sure = (entry.sure + 1).min(3);
                } else if entry.sure > 0 {
                    entry.sure -= 1;
                } else {
                    entry.target = target;
                }
            } else if right.is_none_or(|right| table > right) && allocate {
                if entry.valid && entry.sure > 0 {
                    entry.sure -= 1;
                } else {
                    *entry = Entry { target, tag, sure: 0, valid: true };
                    // The shortest and one longer path learn at a time, so that one odd target does not fill all tables.
                    allocate = table == 0;
                }
            }
        }
    }

    /// A target that is not in a table.
    fn code_new(&mut self, coder: &mut impl Coder, target: u64) -> Result<u64, Damage> {
        let unused = 64 - self.build.address_bits;
        let difference = (target.wrapping_sub(self.last) << unused) as i64 >> unused;
        // The sign goes into the lowest bit.
        let folded = (difference << 1 ^ difference >> 63) as u64;
        let size = 64 - folded.leading_zeros();
        let mut coded = 0;
        for bit in (0..7).rev() {
            coded = coded << 1 | u32::from(coder.code(size >> bit & 1 == 1, 1 << 15)?);
        }
        let size = coded;
        if size > 64 {
            return Err(Damage::Record("a distance of more than 64 bits"));
        }
        let mut value = u64::from(size > 0);
        for bit in (0..size.saturating_sub(1)).rev() {
            value = value << 1 | u64::from(coder.code(folded >> bit & 1 == 1, 1 << 15)?);
        }
        let difference = (value >> 1) ^ (value & 1).wrapping_neg();
        let target = self.last.wrapping_add(difference) & (u64::MAX >> unused);
        self.last = target;
        Ok(target)
    }
}
