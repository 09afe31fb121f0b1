//! PTM and ETMv3.

use std::collections::BTreeSet;

use backsight_arm::{etm3, ptm};
use backsight_core::{Address, Located};
use backsight_flow::{Event, etm3 as etm3_flow, ptm as ptm_flow};
use backsight_testing::Random;
use backsight_unit::{etm3 as etm3_unit, ptm as ptm_unit};

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject};
use crate::harm::Harm;
use crate::support::{Flavour, Program, Walk, Walker};

/// A random program, traced by a random unit.
struct Traced<C> {
    program: Program,
    config: C,
    bytes: Vec<u8>,
    decode: fn(&C, &Program, &[u8]) -> Listing,
}

fn walk(random: &mut Random, seed: u64) -> Walk {
    Walk {
        seed,
        steps: 2500,
        interrupts: 60,
        contexts: 150 * random.below(2),
        gaps: 300 * random.below(2),
        ..Walk::default()
    }
}

pub fn ptm_subject(seed: u64) -> Option<Box<dyn Subject>> {
    let random = &mut Random(seed);
    let program = Program::random(seed, Flavour::AArch32, false);
    let mut config = ptm::Config::default();
    for option in ["cyclecount", "return_stack", "branch_broadcast"] {
        config.set(option, if random.below(2) == 0 { "1" } else { "0" }).ok()?;
    }
    config.set("context_id", ["0", "4"][random.below(2) as usize]).ok()?;
    config.set("timestamp_bits", ["0", "64"][random.below(2) as usize]).ok()?;
    let mut options = ptm_unit::UnitConfig::new(config);
    options.sync_period = 256;
    let mut unit = ptm_unit::Unit::new(options);
    let mut bytes = Vec::new();
    unit.push_all(&Walker::run(&program, walk(random, seed)), &mut bytes);
    unit.finish(&mut bytes);
    Some(Box::new(Traced { program, config, bytes, decode: decode_ptm }))
}

pub fn etm3_subject(seed: u64) -> Option<Box<dyn Subject>> {
    let random = &mut Random(seed);
    let program = Program::random(seed, Flavour::AArch32, false);
    let mut config = etm3::Config::default();
    for option in ["cyclecount", "alternative_branches", "branch_broadcast"] {
        config.set(option, if random.below(2) == 0 { "1" } else { "0" }).ok()?;
    }
    config.set("context_id", ["0", "4"][random.below(2) as usize]).ok()?;
    config.set("timestamp_bits", ["0", "64"][random.below(2) as usize]).ok()?;
    let mut options = etm3_unit::UnitConfig::new(config);
    options.sync_period = 256;
    let mut unit = etm3_unit::Unit::new(options);
    let mut bytes = Vec::new();
    unit.push_all(&Walker::run(&program, walk(random, seed)), &mut bytes);
    unit.finish(&mut bytes);
    Some(Box::new(Traced { program, config, bytes, decode: decode_etm3 }))
}

/// Marks packets, by whether they are A-syncs or I-syncs.
#[derive(Default)]
struct Marker {
    waits: bool,
}

impl Marker {
    fn mark<P>(&mut self, packet: &Located<P>, is_async: bool, i_sync: Option<Address>) -> Mark {
        let kind = match i_sync {
            _ if is_async => {
                self.waits = true;
                MarkKind::Alignment
            }
            Some(address) if std::mem::take(&mut self.waits) => MarkKind::Synchronisation(address),
            _ => MarkKind::Packet,
        };
        Mark { start: packet.offset as usize, end: packet.end() as usize, kind }
    }
}

fn decode_ptm(config: &ptm::Config, program: &Program, bytes: &[u8]) -> Listing {
    let mut listing = Listing::default();
    let mut follower = ptm_flow::Follower::new(config, program);
    let mut marker = Marker::default();
    let Listing { events, marks } = &mut listing;
    let mut sink = |event: Located<Event>| events.push(event);
    ptm::packets(config, bytes, &mut |packet| {
        let i_sync = match packet.value {
            ptm::Packet::ISync(sync) => Some(sync.address),
            _ => None,
        };
        marks.push(marker.mark(&packet, packet.value == ptm::Packet::Async, i_sync));
        follower.push(packet, &mut sink);
    });
    follower.finish(&mut sink);
    listing
}

fn decode_etm3(config: &etm3::Config, program: &Program, bytes: &[u8]) -> Listing {
    let mut listing = Listing::default();
    let mut follower = etm3_flow::Follower::new(config, program);
    let mut marker = Marker::default();
    let Listing { events, marks } = &mut listing;
    let mut sink = |event: Located<Event>| events.push(event);
    etm3::packets(config, bytes, &mut |packet| {
        let i_sync = match packet.value {
            etm3::Packet::ISync(sync) => sync.address,
            _ => None,
        };
        marks.push(marker.mark(&packet, packet.value == etm3::Packet::Async, i_sync));
        follower.push(packet, &mut sink);
    });
    follower.finish(&mut sink);
    listing
}

impl<C: std::fmt::Debug> Subject for Traced<C> {
    fn name(&self) -> String {
        format!("{:x?}", self.config)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        (self.decode)(&self.config, &self.program, bytes)
    }

    fn code(&self) -> &dyn CodeAt {
        &self.program
    }

    /// An A-sync counts where it is seen: bytes before it that damage made into a long packet may take its first zeros.
    fn synchronisation<'l>(&self, intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark> {
        let asyncs = damaged.marks.iter().filter(|mark| mark.kind == MarkKind::Alignment);
        let seen: BTreeSet<usize> = asyncs.map(|mark| mark.end).collect();
        let mut later = intact.marks.iter().filter(|mark| mark.start >= harm.end);
        later.find(|mark| mark.kind == MarkKind::Alignment && seen.contains(&harm.moved(mark.end)))?;
        later.find(|mark| matches!(mark.kind, MarkKind::Synchronisation(_)))
    }
}
