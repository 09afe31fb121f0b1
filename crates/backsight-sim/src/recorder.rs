//! Writing down every value that enters the hart, for [`Replay`](crate::Replay).

use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::linux::Kernel;
use crate::observer::Observer;

const A0: u8 = 10;

/// A process whose values are written down.
pub struct Recorder<'a, F> {
    pub kernel: &'a mut Kernel,
    /// Receives each value.
    pub value: &'a mut F,
    /// A system call has begun and its result was not written down.
    pub unfinished: &'a mut bool,
}

impl<F: FnMut(u64)> Recorder<'_, F> {
    fn result(&mut self, hart: &Hart, after: After) -> After {
        *self.unfinished = !matches!(after, After::Continue);
        if !*self.unfinished {
            (self.value)(hart.x(A0));
        }
        after
    }
}

impl<F: FnMut(u64)> Environment for Recorder<'_, F> {
    #[inline(always)]
    fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        let value = self.kernel.load::<N>(address)?;
        (self.value)(value);
        Ok(value)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        self.kernel.store::<N>(address, value)
    }

    fn check_store(&mut self, address: u64, size: u64) -> Result<(), Cause> {
        self.kernel.check_store(address, size)
    }

    fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        self.kernel.fetch(address)
    }

    fn decoded(&mut self, start: u64, end: u64) {
        self.kernel.decoded(start, end);
    }

    fn forget_decoded(&mut self, address: u64, size: u64) {
        self.kernel.forget_decoded(address, size);
    }

    fn next_stale_page(&mut self) -> Option<u64> {
        self.kernel.next_stale_page()
    }

    fn time(&mut self, hart: &Hart) -> Result<u64, Cause> {
        let time = self.kernel.time(hart)?;
        (self.value)(time);
        Ok(time)
    }

    fn resume(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        let after = self.kernel.resume(hart)?;
        Ok(if *self.unfinished { self.result(hart, after) } else { after })
    }

    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        let after = self.kernel.system_call(hart)?;
        Ok(self.result(hart, after))
    }

    fn fault(&mut self, hart: &mut Hart, fault: Fault) -> After {
        self.kernel.fault(hart, fault)
    }

    fn has_slices(&self) -> bool {
        self.kernel.has_slices()
    }

    fn end_of_slice(&mut self, hart: &mut Hart) -> After {
        self.kernel.end_of_slice(hart)
    }

    fn report(&mut self, observer: &mut impl Observer) {
        self.kernel.report(observer);
    }
}
