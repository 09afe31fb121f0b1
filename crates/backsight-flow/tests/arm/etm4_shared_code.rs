//! What one follower has read of the code, others go on with: in the same space and in another one.

use crate::scene::*;
use backsight_arm::etm4::{Config, Packet};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etm4::{Follower, Options};
use backsight_image::Code;

/// Each exception level sees other code at the same addresses.
#[derive(Clone)]
struct ByLevel(Vec<(AddressSpace, Memory)>);

impl Code for ByLevel {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        let (_, memory) = self.0.iter().find(|(known, _)| *known == space)?;
        memory.bytes_at(space, address)
    }
}

/// A follower that is at 0x1000 in an exception level.
struct Core {
    follower: Follower<ByLevel>,
    lines: Vec<String>,
}

impl Core {
    fn new(config: &Config, code: &ByLevel, level: u8) -> Self {
        let follower = Follower::with_options(config, code.clone(), Options::default());
        let mut core = Self { follower, lines: Vec::new() };
        for packet in [Packet::Async, trace_info(), Packet::Context(Some(context_of(level, true)))] {
            core.push(packet);
        }
        core.push(address(0x1000));
        core
    }

    fn push(&mut self, value: Packet) {
        let lines = &mut self.lines;
        let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
        self.follower.push(Located { offset: 0, length: 1, value }, &mut sink);
    }
}

fn space_of(level: u8) -> AddressSpace {
    backsight_core::Context::from(context_of(level, true)).space()
}

#[test]
fn cores_in_several_spaces_share_what_was_read_of_each() {
    // Every branch leads to 0x1000.
    let code = ByLevel(vec![
        (space_of(1), words(&[NOP, cbz(-1), cbz(-2), b(-3)])),
        (space_of(2), words(&[cbz(0), NOP, cbz(-2), b(-3)])),
    ]);
    assert_ne!(space_of(1), space_of(2));
    let config = etm4(&[]);
    let levels = [1, 2, 2, 1, 2];
    let mut alone: Vec<Core> = levels.iter().map(|&level| Core::new(&config, &code, level)).collect();
    let mut together: Vec<Core> = levels.iter().map(|&level| Core::new(&config, &code, level)).collect();
    let mut cache = together[1].follower.take_cache();
    for round in 0..40 {
        for core in (0..levels.len()).rev() {
            let packet = atoms(["EENE", "E", "NNE", "NE"][(round + core) % 4]);
            alone[core].push(packet);
            let shared = &mut together[core];
            shared.follower.give_cache(cache).expect("code is read in the same way");
            shared.push(packet);
            cache = shared.follower.take_cache();
        }
    }
    for (core, (alone, together)) in alone.iter().zip(&together).enumerate() {
        assert!(alone.lines.len() > 100, "{}", alone.lines.len());
        assert_eq!(alone.lines, together.lines, "core {core}");
    }
}

#[test]
fn what_was_read_in_another_way_is_given_back() {
    let code = ByLevel(vec![(space_of(1), words(&[NOP, b(-1)]))]);
    let mut one = Follower::with_options(&etm4(&[]), code.clone(), Options::default());
    let options = Options { walk_limit: 7, ..Options::default() };
    let mut other = Follower::with_options(&etm4(&[]), code, options);
    assert!(other.give_cache(one.take_cache()).is_err());
}
