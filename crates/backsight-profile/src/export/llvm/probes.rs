//! Counts of blocks, from the probes that the compiler put into them.
//!
//! An address has each probe at most once, and an optimiser that copies a block copies its probe: the count of a probe is
//! the sum over its copies, not the greatest.

use super::{ExecutedFunctions, FunctionSamples, Functions, Location, add_calls, instruction_counts};
use crate::{Module, Probe, ProbeKind, Probes, Profile};

pub(super) struct ProbeSampler<'a> {
    profile: &'a Profile,
    number: u32,
    probes: &'a Probes,
}

impl<'a> ProbeSampler<'a> {
    pub(super) fn new(profile: &'a Profile, number: u32, module: &'a Module) -> Self {
        Self { profile, number, probes: module.probes() }
    }

    pub(super) fn run(&self, functions: &mut Functions) {
        if self.probes.is_empty() {
            return;
        }
        let counts = instruction_counts(self.profile, self.number);
        let executed = ExecutedFunctions::of(self.profile, self.number);
        for probe in self.probes.all() {
            let count = counts.get(&probe.address).map_or(0, |&(_, count)| count);
            // A count of 0 says that a block was not executed, where none would leave it open.
            if count > 0 || executed.contain(probe.address) {
                self.add(probe, count, functions);
            }
        }
        add_calls(self.profile, self.number, functions, &|address, functions| {
            let call = self.probes.at(address).iter().find(|probe| probe.kind == ProbeKind::Call)?;
            self.location_of(call, functions, |_| {})
        });
    }

    fn add(&self, probe: &Probe, count: u64, functions: &mut Functions) {
        let located =
            self.location_of(probe, functions, |body| body.total = body.total.saturating_add(count));
        if let Some((body, location)) = located {
            let samples = body.body.entry(location).or_default();
            samples.count = samples.count.saturating_add(count);
        }
    }

    /// The body that a probe belongs to, and its location there.
    fn location_of<'f>(
        &self,
        probe: &Probe,
        functions: &'f mut Functions,
        mut on_the_way: impl FnMut(&mut FunctionSamples),
    ) -> Option<(&'f mut FunctionSamples, Location)> {
        let frames = self.probes.frames(probe);
        let mut outer = frames.iter().rev();
        let mut around = outer.next()?;
        let mut body = functions.entry(around.function.name.clone()).or_default();
        body.checksum = Some(around.function.checksum);
        on_the_way(body);
        for frame in outer {
            let callees = body.inlined.entry((around.index, 0)).or_default();
            body = callees.entry(frame.function.name.clone()).or_default();
            body.checksum = Some(frame.function.checksum);
            on_the_way(body);
            around = frame;
        }
        Some((body, (probe.index, probe.discriminator)))
    }
}
