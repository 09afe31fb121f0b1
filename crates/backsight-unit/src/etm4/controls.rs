//! The programming of a trace unit that its stream does not repeat: what to trace, and how often to synchronise.

/// Programmable registers, as the hardware has them. Address ranges are pairs of address comparators: range `i`
/// goes from `acvr[2 * i]` to `acvr[2 * i + 1]`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// TRCBBCTLR: bits 7:0 choose address ranges, bit 8 says that branches are broadcast inside them (else outside).
    pub bbctlr: u32,
    /// TRCQCTLR: bits 7:0 choose address ranges, bit 8 says that Q elements are allowed inside them (else outside).
    pub qctlr: u32,
    /// TRCSYNCPR: bits 4:0, synchronise every 2^n bytes; 0 never again.
    pub syncpr: u32,
    /// TRCVICTLR: bit 9 tracing is started, bits 19:16 and 22:20 exception levels not to trace (Secure, Non-secure).
    pub victlr: u32,
    /// TRCVIIECTLR: bits 7:0 ranges to include (none: everything), bits 23:16 ranges to exclude.
    pub viiectlr: u32,
    /// TRCVISSCTLR: bits 15:0 comparators that start tracing, bits 31:16 comparators that stop it.
    pub vissctlr: u32,
    /// TRCACVRn: address comparators.
    pub acvr: [u64; 16],
}

impl Default for Controls {
    /// Traces everything, synchronises every 4096 bytes.
    fn default() -> Self {
        Self { bbctlr: 0, qctlr: 0, syncpr: 12, victlr: 0x201, viiectlr: 0, vissctlr: 0, acvr: [0; 16] }
    }
}

impl Controls {
    /// Sets a register by the manual's name, in any case: `TRCBBCTLR`, `TRCACVR3` … False if it is none of these.
    pub fn set_register(&mut self, name: &str, value: u64) -> bool {
        let name = name.to_ascii_uppercase();
        let narrow = match name.as_str() {
            "TRCBBCTLR" => &mut self.bbctlr,
            "TRCQCTLR" => &mut self.qctlr,
            "TRCSYNCPR" => &mut self.syncpr,
            "TRCVICTLR" => &mut self.victlr,
            "TRCVIIECTLR" => &mut self.viiectlr,
            "TRCVISSCTLR" => &mut self.vissctlr,
            other => {
                let number = other.strip_prefix("TRCACVR").and_then(|number| number.parse::<usize>().ok());
                let Some(comparator) = number.and_then(|number| self.acvr.get_mut(number)) else {
                    return false;
                };
                *comparator = value;
                return true;
            }
        };
        *narrow = value as u32;
        true
    }

    /// Programs range `number` (0 to 7) as `first` to `last`, both included.
    pub fn set_range(&mut self, number: usize, first: u64, last: u64) {
        let number = number & 7;
        self.acvr[2 * number] = first;
        self.acvr[2 * number + 1] = last;
    }

    /// The ranges that the low eight bits of `chosen` name.
    pub(super) fn ranges(&self, chosen: u32) -> Vec<Range> {
        (0..8)
            .filter(|number| chosen >> number & 1 != 0)
            .map(|number| Range { first: self.acvr[2 * number], last: self.acvr[2 * number + 1] })
            .collect()
    }

    /// The comparators that the low sixteen bits of `chosen` name.
    pub(super) fn comparators(&self, chosen: u32) -> Vec<u64> {
        (0..16).filter(|number| chosen >> number & 1 != 0).map(|number| self.acvr[number]).collect()
    }

    /// Bytes between synchronisations.
    pub(super) fn sync_period(&self) -> u64 {
        match self.syncpr & 0x1F {
            0 => u64::MAX,
            exponent => 1 << exponent,
        }
    }
}

/// Addresses from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: u64,
    pub last: u64,
}

impl Range {
    pub(super) fn contains(self, address: u64) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

/// A set of ranges, or all addresses outside of them.
#[derive(Clone, Debug)]
pub(super) struct Region {
    ranges: Vec<Range>,
    inside: bool,
}

impl Region {
    /// As TRCBBCTLR and TRCQCTLR say it: ranges in bits 7:0, mode in bit 8. Both zero is everywhere.
    pub(super) fn new(controls: &Controls, register: u32) -> Self {
        Self { ranges: controls.ranges(register), inside: register >> 8 & 1 == 1 }
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) == self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_region_register_means_everywhere() {
        let controls = Controls::default();
        assert!(Region::new(&controls, 0).contains(0x1234));
    }

    #[test]
    fn a_region_is_the_inside_or_the_outside_of_its_ranges() {
        let mut controls = Controls::default();
        controls.set_range(1, 0x1000, 0x1FFF);
        let inside = Region::new(&controls, 0x102);
        let outside = Region::new(&controls, 0x002);
        for (address, is_in) in [(0xFFC, false), (0x1000, true), (0x1FFC, true), (0x2000, false)] {
            assert_eq!(inside.contains(address), is_in);
            assert_eq!(outside.contains(address), !is_in);
        }
    }

    #[test]
    fn registers_are_set_by_name_and_others_refused() {
        let mut controls = Controls::default();
        assert!(controls.set_register("trcsyncpr", 8));
        assert!(controls.set_register("TRCACVR3", 0xFFFF_0000_0000_0000));
        assert_eq!((controls.sync_period(), controls.acvr[3]), (256, 0xFFFF_0000_0000_0000));
        assert!(!controls.set_register("TRCACVR16", 0) && !controls.set_register("TRCFOO", 0));
    }
}
