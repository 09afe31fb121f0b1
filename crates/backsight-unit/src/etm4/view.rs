//! ViewInst: which instructions are traced.
//!
//! The filter looks at the address (ranges to include and exclude), at what was executed before (start and stop
//! addresses) and at the exception level. The instruction at a start address is traced, and so is the one at a stop
//! address.

use super::controls::{Controls, Range};
use backsight_core::{Context, Security};

pub(super) struct View {
    include: Vec<Range>,
    exclude: Vec<Range>,
    start: Vec<u64>,
    stop: Vec<u64>,
    victlr: u32,
    started: bool,
    level: bool,
    /// Nothing is filtered whatever the address: the common case.
    everything: bool,
}

impl View {
    pub(super) fn new(controls: &Controls) -> Self {
        let stop = controls.comparators(controls.vissctlr >> 16);
        let mut view = Self {
            include: controls.ranges(controls.viiectlr),
            exclude: controls.ranges(controls.viiectlr >> 16),
            start: controls.comparators(controls.vissctlr),
            stop,
            victlr: controls.victlr,
            started: controls.victlr >> 9 & 1 == 1 || controls.vissctlr == 0,
            level: true,
            everything: false,
        };
        view.everything = view.include.is_empty()
            && view.exclude.is_empty()
            && view.start.is_empty()
            && view.stop.is_empty()
            && view.victlr >> 16 & 0x7F == 0;
        view
    }

    /// Is every instruction traced?
    #[inline]
    pub(super) fn everything(&self) -> bool {
        self.everything
    }

    /// Takes note of the exception level.
    pub(super) fn context(&mut self, context: &Context) {
        let first =
            if matches!(context.privilege.security(), Security::Secure | Security::Root) { 16 } else { 20 };
        self.level = self.victlr >> (first + u32::from(context.level() & 3)) & 1 == 0;
    }

    /// Is the instruction at `address`, which was just executed, to be traced?
    pub(super) fn sees(&mut self, address: u64) -> bool {
        if self.everything {
            return true;
        }
        self.started |= self.start.contains(&address);
        let visible = self.level
            && self.started
            && (self.include.is_empty() || self.include.iter().any(|range| range.contains(address)))
            && !self.exclude.iter().any(|range| range.contains(address));
        self.started &= !self.stop.contains(&address);
        visible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_and_exclude_ranges_combine() {
        let mut controls = Controls::default();
        controls.set_range(0, 0x1000, 0x1FFF);
        controls.set_range(1, 0x1800, 0x18FF);
        controls.viiectlr = 0x0002_0001;
        let mut view = View::new(&controls);
        let seen = [0xFFC, 0x1000, 0x1800, 0x1900, 0x2000].map(|address| view.sees(address));
        assert_eq!(seen, [false, true, false, true, false]);
    }

    #[test]
    fn start_and_stop_instructions_are_both_traced() {
        let mut controls = Controls::default();
        controls.acvr[4] = 0x104;
        controls.acvr[5] = 0x10C;
        controls.vissctlr = 0x0020_0010;
        controls.victlr = 0;
        let mut view = View::new(&controls);
        let seen = [0x100, 0x104, 0x108, 0x10C, 0x110].map(|address| view.sees(address));
        assert_eq!(seen, [false, true, true, true, false]);
    }

    #[test]
    fn exception_levels_are_left_out_by_security_state() {
        let controls = Controls { victlr: 0x0020_0201, ..Controls::default() };
        let mut view = View::new(&controls);
        let mut sees = |level, security| {
            view.context(&Context::arm(level, security, false));
            view.sees(0)
        };
        assert!(sees(0, Security::NonSecure) && sees(1, Security::Secure));
        assert!(!sees(1, Security::NonSecure));
    }
}
