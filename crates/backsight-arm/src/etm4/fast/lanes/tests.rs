//! Both ways to the lanes give the same.

use backsight_simd::{Bytes, InstructionSet, Instructions, Plain, Task};
use backsight_testing::Random;

use super::{COUNTS, Lanes, NO_TIMES, READ, REGION, RUN, TIMESTAMPS, Times};
use crate::etm4::fast::headers::Headers;

/// The lanes of a region, as far as anybody asks for them: where a step leads, and the form of the packet that it ends with.
fn steps(lanes: &Lanes) -> std::vec::Vec<(u8, u8, Option<u8>)> {
    let step = |at: usize| {
        let (to, over) = (lanes.to[at], lanes.over[at]);
        (to, over, (over > to).then(|| lanes.form[at + usize::from(to)]))
    };
    (0..REGION).map(step).collect()
}

struct InRegisters<'a>(&'a [u8; READ], &'a Headers, Times);

impl Task for InRegisters<'_> {
    type Output = Lanes;

    #[inline(always)]
    fn run<I: Instructions>(self) -> Lanes {
        in_registers::<I::Bytes>(self.0, self.1, self.2)
    }
}

#[inline(always)]
fn in_registers<B: Bytes>(bytes: &[u8; READ], headers: &Headers, times: Times) -> Lanes {
    let mut lanes = Lanes::EMPTY;
    match times {
        Times::None => lanes.by_registers::<B, NO_TIMES>(bytes, headers),
        Times::Counts => lanes.by_registers::<B, COUNTS>(bytes, headers),
        Times::CountsAndTimestamps => lanes.by_registers::<B, TIMESTAMPS>(bytes, headers),
    }
    lanes
}

#[test]
fn lanes_are_the_same_in_registers_and_in_passes() {
    let mut random = Random(11);
    for round in 0..600 {
        let (has_sources, counts) = (round & 1 == 1, round & 2 == 2);
        let times = [Times::None, Times::Counts, Times::CountsAndTimestamps][round % 3];
        let headers = Headers::new(has_sources, counts, times);
        // Mostly headers that are common, and bytes that go on.
        let mut bytes = [0; READ];
        for byte in &mut bytes {
            *byte = match random.below(8) {
                0 => random.below(0x10) as u8,
                1 => 0x90 + random.below(0x10) as u8,
                2 => 0xB0 + random.below(0x0F) as u8,
                3..6 => 0xC0 + random.below(0x40) as u8,
                _ => random.next() as u8,
            };
        }
        let mut passes = Lanes::EMPTY;
        passes.work_out::<Plain>(&bytes, &headers, times);
        let expected = steps(&passes);
        assert!(expected.iter().all(|step| usize::from(step.0) <= RUN));
        for set in InstructionSet::ALL {
            let lanes = backsight_simd::run(set, InRegisters(&bytes, &headers, times));
            assert!(steps(&lanes) == expected, "round {round}, {}", set.name());
        }
    }
}
