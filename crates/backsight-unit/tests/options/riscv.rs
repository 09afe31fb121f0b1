//! Programs whose every instruction is known, and what a follower makes of their trace.

use backsight_core::{Address, AddressSpace, Execution};
use backsight_flow::{Event, Range};
use backsight_image::{Code, Image};
use backsight_sim::{Simulator, Streams};
use backsight_testing::repository;

use crate::Effort;

/// A program that ran.
pub struct Run {
    pub image: Image,
    pub items: Vec<Execution>,
    /// Every instruction, in order.
    pub truth: Vec<Address>,
}

impl Run {
    /// The first instructions of a bundled program.
    pub fn new(name: &str, effort: Effort) -> Self {
        let path = repository().join("testdata/programs/riscv64").join(name);
        let file = std::fs::read(&path).expect("a bundled program");
        let options = backsight_sim::Options {
            streams: Streams::none(),
            host_files: false,
            instructions: effort.instructions(),
            ..backsight_sim::Options::default()
        };
        let mut simulator = Simulator::load(&file, options).expect("a static RV64 program");
        let mut items = Vec::new();
        let _ = simulator.run(&mut |item| items.push(item));
        let mut image = Image::new();
        image.add_elf(&path, None, AddressSpace::ANY).expect("an ELF file");
        let truth = items
            .iter()
            .filter_map(|item| match item {
                Execution::Instruction(retired) => Some(retired.address),
                _ => None,
            })
            .collect();
        Self { image, items, truth }
    }

    /// The instructions of a range.
    pub fn addresses(&self, range: &Range) -> Vec<Address> {
        let (mut addresses, mut at) = (Vec::new(), range.start);
        while at != range.end {
            addresses.push(at);
            let bytes = self.image.bytes_at(AddressSpace::ANY, at).expect("code");
            at = at.plus(if bytes[0] & 3 == 3 { 4 } else { 2 });
        }
        assert_eq!(addresses.len(), range.instructions as usize, "{range:x?}");
        addresses
    }

    /// Bits that the addresses of its instructions need.
    pub fn address_bits(&self) -> u64 {
        let most = self.truth.iter().map(|address| address.0).max().unwrap_or(0);
        64 - u64::from(most.leading_zeros())
    }

    /// What a follower reports is the whole truth.
    pub fn check(&self, events: &[Event], what: &str) {
        let mut followed = Vec::new();
        for event in events {
            match event {
                Event::Range(range) => followed.extend(self.addresses(range)),
                Event::NoMemory { .. } | Event::Mismatch { .. } | Event::PathUnknown { .. } => {
                    panic!("{what}: {event:x?}")
                }
                _ => {}
            }
        }
        let same = followed.iter().zip(&self.truth).take_while(|(a, b)| a == b).count();
        assert_eq!(followed.get(same), self.truth.get(same), "{what}: from instruction {same} on");
    }
}
