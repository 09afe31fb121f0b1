//! ETMv4 and ETE.

use backsight_arm::etm4::{Config, Decoder, Packet};
use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::etm4::Follower;
use backsight_testing::Random;
use backsight_unit::etm4::{FrontEnd, Unit, UnitConfig};

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject, after_alignment};
use crate::harm::Harm;
use crate::support::{Flavour, Program, Walk, Walker};

struct Traced {
    program: Program,
    config: Config,
    bytes: Vec<u8>,
}

/// A random program, traced by a random unit.
pub fn subject(seed: u64) -> Option<Box<dyn Subject>> {
    let mut random = Random(seed);
    let ete = random.below(2) == 0;
    let flavour = if random.below(3) == 0 { Flavour::AArch32 } else { Flavour::A64 };
    let program = Program::random(seed, flavour, ete);
    let mut config = if ete { Config::ete_default() } else { Config::etm4_default() };
    // Cycle counts, context IDs, VMIDs, timestamps, return stack.
    for bit in [4, 6, 7, 11, 12] {
        config.registers.configr |= (random.below(2) as u32) << bit;
    }
    let mut unit = UnitConfig::new(config);
    unit.controls.syncpr = 8;
    if random.below(3) == 0 {
        unit.config.registers.idr8 = 1 + random.below(30) as u32;
        unit.front_end = Some(FrontEnd { seed, wrong: 20, longest_path: 6 });
    }
    let walk = Walk {
        seed,
        steps: 2500,
        interrupts: 60,
        contexts: 150 * random.below(2),
        gaps: 300 * random.below(2),
        ..Walk::default()
    };
    let mut traced = Unit::new(unit.clone()).expect("a unit that can be");
    let mut bytes = Vec::new();
    traced.push_all(&Walker::run(&program, walk), &mut bytes);
    traced.finish(&mut bytes);
    Some(Box::new(Traced { program, config: unit.config, bytes }))
}

impl Subject for Traced {
    fn name(&self) -> String {
        let registers = &self.config.registers;
        let kind = if self.config.is_ete() { "ETE" } else { "ETMv4" };
        format!("{kind}, TRCCONFIGR {:#x}, TRCIDR8 {}", registers.configr, registers.idr8)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        let mut listing = Listing::default();
        let (mut decoder, mut follower) =
            (Decoder::new(&self.config), Follower::new(&self.config, &self.program));
        let mut waits_for_address = true;
        let Listing { events, marks } = &mut listing;
        let mut sink = |event: Located<Event>| events.push(event);
        let mut each = |packet: Located<Packet>| {
            let kind = match packet.value {
                Packet::Async => {
                    waits_for_address = true;
                    MarkKind::Alignment
                }
                Packet::Address(address) | Packet::AddressContext(address, _) if waits_for_address => {
                    waits_for_address = false;
                    MarkKind::Synchronisation(address.address)
                }
                _ => MarkKind::Packet,
            };
            marks.push(Mark { start: packet.offset as usize, end: packet.end() as usize, kind });
            follower.push(packet, &mut sink);
        };
        decoder.feed(bytes, &mut each);
        decoder.finish(&mut each);
        follower.finish(&mut sink);
        listing
    }

    fn code(&self) -> &dyn CodeAt {
        &self.program
    }

    fn synchronisation<'l>(&self, intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark> {
        after_alignment(intact, damaged, harm)
    }
}
