//! What a RISC-V unit traces, by `KEY=VALUE`.
//!
//! Conditions become filters of the specification's model: one for each address range, or a single one without any,
//! which all share the other conditions. A filter has room for three comparators, a unit for eight.

use backsight_unit::cva6::{self, Check};
use backsight_unit::riscv::filter::{Comparator, Filter, FilterUnit, Input, Standard};

use backsight_core::TraceId;

use crate::settings::{self, SettingError, flag, number, parse_number};

type Result<T> = std::result::Result<T, SettingError>;

/// Trace ID of the first hart.
pub const FIRST_ID: TraceId = TraceId::new(1);
/// What a unit of either protocol takes for the cycles of its hart.
pub const RETIRE: (&str, &str) =
    ("retire", "single, branches:N or blocks:N: a hart that retires several instructions a cycle");

/// What is taken, each with what it means.
pub const OPTIONS: [(&str, &str); 11] = [
    ("range", "FROM..TO: trace blocks that touch it; several are alternatives"),
    ("exclude", "FROM..TO: do not trace blocks that touch it"),
    ("window", "FIRST..LAST: trace from the instruction at FIRST to the one at LAST"),
    ("privilege", "trace only these: u, s, m, d, vu, vs or numbers, with commas"),
    ("ecause", "trace traps with these causes, to the return from them: numbers below 64, with commas"),
    ("interrupt", "1: trace interrupts, 0: exceptions, to the return from them"),
    ("context", "VALUE or VALUE/MASK: trace only these contexts"),
    ("tval", "FROM..TO: trace exceptions with such a trap value"),
    ("notify", "ADDRESS: report this instruction"),
    (
        "te_cause, te_tvec, te_tval, te_priv, te_iaddr",
        "VALUE or FROM..TO: the filter for CVA6; all must pass",
    ),
    ("0x00c, 0x400 to 0x6ff", "a register of the filters by its offset"),
];

/// Comparators of a unit.
const MOST_COMPARATORS: usize = 8;
/// Traps inside one that is traced which are counted: 2^n.
const NESTED: u8 = 4;

/// Conditions as they are given.
#[derive(Default)]
pub struct Conditions {
    ranges: Vec<Comparator>,
    /// Comparators that every filter uses.
    common: Vec<Comparator>,
    notify: Vec<u64>,
    shared: FilterUnit,
    registers: Vec<(u32, u32)>,
    cva6: Option<cva6::Filter>,
}

impl Conditions {
    /// Takes a setting; false: it is about something else.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        let wrong = |why: String| SettingError::new(key, value, why);
        let range = |comparator: fn(Input, u64, u64) -> Comparator, input| {
            settings::range(key, value).map(|range| comparator(input, range.start, range.end))
        };
        match key {
            "range" => self.ranges.push(range(Comparator::within, Input::Iaddr)?),
            "exclude" => self.common.push(range(Comparator::outside, Input::Iaddr)?),
            "tval" => self.common.push(range(Comparator::within, Input::Tval)?),
            "window" => {
                let (first, last) =
                    value.split_once("..").ok_or_else(|| wrong("FIRST..LAST is expected".to_owned()))?;
                self.common.push(Comparator::window(number(key, first)?, number(key, last)?));
            }
            "context" => {
                let (wanted, mask) = value.split_once('/').unwrap_or((value, "0xffffffffffffffff"));
                let comparator = Comparator::masked(Input::Context, number(key, wanted)?, number(key, mask)?);
                self.common.push(comparator);
            }
            "privilege" => {
                let levels = self.shared.privileges.unwrap_or(0);
                let mut each = value.split(',').map(|word| privilege(word).ok_or(word));
                let mask = each.try_fold(levels, |mask, level| level.map(|level| mask | 1 << level));
                let mask =
                    mask.map_err(|word| wrong(format!("`{word}` is none of u, s, m, d, vu, vs, 0 to 7")))?;
                self.shared.privileges = Some(mask);
            }
            "ecause" => {
                for word in value.split(',') {
                    let cause: u64 = number(key, word)?;
                    if cause > 63 {
                        return Err(wrong(format!("cause {cause} cannot be chosen: 0 to 63 is expected")));
                    }
                    *self.shared.causes.get_or_insert(0) |= 1 << cause;
                }
            }
            "interrupt" => self.shared.interrupt = Some(flag(key, value)?),
            "notify" => self.notify.push(number(key, value)?),
            _ if key.starts_with("te_") => return self.set_cva6(key, value),
            _ if key.starts_with("0x") => {
                let offset = parse_number(key).ok().and_then(|offset| u32::try_from(offset).ok());
                let value = number(key, value)?;
                match offset.filter(|&offset| Standard::new(0).write(offset, value)) {
                    Some(offset) => self.registers.push((offset, value)),
                    None => return Err(wrong("no register of the filters has this offset".to_owned())),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_cva6(&mut self, key: &str, value: &str) -> Result<bool> {
        let check = if value.contains("..") {
            let range = settings::range(key, value)?;
            Check::Range(range.start, range.end - 1)
        } else {
            Check::Match(number(key, value)?)
        };
        let filter = self.cva6.get_or_insert_default();
        match key {
            "te_cause" => filter.cause = check,
            "te_tvec" => filter.tvec = check,
            "te_tval" => filter.tval = check,
            "te_priv" => filter.privilege = check,
            "te_iaddr" => filter.iaddr = check,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The filter; nothing if no condition was given.
    pub fn filter(self) -> Result<Option<Filter>> {
        let is_set =
            self.shared != FilterUnit::default() || !self.ranges.is_empty() || !self.common.is_empty();
        if !is_set && self.notify.is_empty() && self.registers.is_empty() && self.cva6.is_none() {
            return Ok(None);
        }
        if self.common.len() + usize::from(!self.ranges.is_empty()) > 3 {
            return Err(SettingError::together(
                "a filter has three comparators: `range` takes one, `exclude`, `window`, `context` and `tval` one each",
            ));
        }
        if self.common.len() + self.ranges.len() + self.notify.len() > MOST_COMPARATORS {
            return Err(SettingError::together(format!(
                "a unit has {MOST_COMPARATORS} comparators: `range`, `exclude`, `window`, `context`, `tval` and \
                 `notify` take one each"
            )));
        }
        let mut standard = Standard::new(NESTED);
        let mut programmed = 0;
        let mut program = |comparator: &Comparator| {
            if let Some(free) = standard.comparator_mut(programmed) {
                *free = *comparator;
            }
            programmed += 1;
            Some(programmed as u8 - 1)
        };
        let mut common = self.common.iter().map(&mut program).collect::<Vec<_>>().into_iter();
        let [first, second, third] = [(); 3].map(|()| common.next().flatten());
        let mut uses: Vec<_> = self.ranges.iter().map(|range| [program(range), first, second]).collect();
        if uses.is_empty() {
            uses.push([first, second, third]);
        }
        for &address in &self.notify {
            program(&Comparator::notifying(address));
        }
        if is_set {
            for (index, &comparators) in uses.iter().enumerate() {
                if let Some(filter) = standard.filter_mut(index) {
                    *filter = self.shared;
                    (filter.enabled, filter.comparators) = (true, comparators);
                }
            }
            standard.select(((1u32 << uses.len()) - 1) as u16);
        }
        for (offset, value) in self.registers {
            standard.write(offset, value);
        }
        Ok(Some(Filter { standard, cva6: self.cva6.unwrap_or_default() }))
    }
}

fn privilege(word: &str) -> Option<u8> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "u" => 0,
        "s" => 1,
        "m" => 3,
        "d" => 4,
        "vu" => 5,
        "vs" => 6,
        number => number.parse().ok().filter(|level| *level < 8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_riscv::ingress::{Block, Itype};

    fn made(settings: &[(&str, &str)]) -> Result<Option<Filter>> {
        let mut conditions = Conditions::default();
        for (key, value) in settings {
            assert!(conditions.set(key, value)?, "{key} is not known");
        }
        conditions.filter()
    }

    fn traced(settings: &[(&str, &str)], blocks: &[Block]) -> Vec<bool> {
        let Filter { mut standard, cva6 } = made(settings).expect("a filter").expect("conditions");
        blocks.iter().map(|block| standard.judge(block).qualified && cva6.qualifies(block, 0)).collect()
    }

    fn at(iaddr: u64) -> Block {
        Block { iaddr, iretire: 2, ilastsize: 1, privilege: 3, context: 0x1234, ..Block::default() }
    }

    #[test]
    fn ranges_are_alternatives_and_share_what_else_is_asked() {
        let settings = [("range", "0x100..0x200"), ("range", "0x400..0x500"), ("exclude", "0x180..0x190")];
        let blocks = [at(0xFC), at(0x100), at(0x180), at(0x300), at(0x4FC), at(0x500)];
        assert_eq!(traced(&settings, &blocks), [false, true, false, false, true, false]);
        let user = Block { privilege: 0, ..at(0x100) };
        let settings = [("range", "0x100..0x200"), ("privilege", "m,s")];
        assert_eq!(traced(&settings, &[at(0x100), user, at(0)]), [true, false, false]);
    }

    #[test]
    fn every_condition_is_understood() {
        let other = Block { context: 0x1334, ..at(0) };
        assert_eq!(traced(&[("context", "0x1200/0xff00")], &[at(0), other]), [true, false]);
        let trap = |itype, cause| Block { itype, cause, tval: 0x77, ..at(0) };
        let xret = trap(Itype::TrapReturn, 0);
        let steps = [at(0), trap(Itype::Exception, 5), at(0), xret, at(0), trap(Itype::Interrupt, 5)];
        let settings = [("ecause", "2,5"), ("interrupt", "0")];
        assert_eq!(traced(&settings, &steps), [false, true, true, true, false, false]);
        assert_eq!(traced(&[("tval", "0x70..0x78")], &steps[..2]), [false, true]);
        assert_eq!(traced(&[("window", "4..8")], &[at(0), at(4), at(8), at(12)]), [false, true, true, false]);
        assert_eq!(
            traced(&[("te_iaddr", "4..8"), ("te_priv", "3")], &[at(0), at(4), at(8)]),
            [false, true, false]
        );
        assert_eq!(traced(&[("0x400", "3"), ("0x404", "1"), ("0x00c", "1")], &[at(0)]), [false]);
        let mut filter = made(&[("notify", "0x10")]).expect("a filter").expect("one");
        let verdicts = [0x10, 0x20].map(|address| filter.standard.judge(&at(address)));
        assert_eq!(
            verdicts.map(|verdict| (verdict.qualified, verdict.notify)),
            [(true, true), (true, false)]
        );
    }

    #[test]
    fn what_the_hardware_has_no_room_for_is_refused() {
        assert!(made(&[]).expect("nothing").is_none());
        for (settings, expected) in [
            (vec![("range", "5")], "FROM..TO"),
            (vec![("privilege", "x")], "vu"),
            (vec![("ecause", "64")], "0 to 63"),
            (vec![("0x10", "1")], "offset"),
            (vec![("exclude", "0..1"); 4], "three comparators"),
            (vec![("range", "0..1"); 9], "8 comparators"),
        ] {
            let refused = made(&settings).expect_err(expected).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
