//! PTM and ETMv3.

use backsight_arm::etm::packets;
use backsight_arm::{etm3, ptm};
use backsight_core::{Address, Located};
use backsight_flow::Event;
use backsight_flow::etm::{Follower, Protocol};
use backsight_testing::Random;
use backsight_unit::etm::{Unit, UnitConfig};

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject, after_alignment};
use crate::harm::Harm;
use crate::support::accesses::with_accesses;
use crate::support::{Flavour, Program, Walk, Walker};

/// A random program, traced by a random unit.
struct Traced<C: Protocol> {
    program: Program,
    config: C,
    bytes: Vec<u8>,
    traces_data: bool,
    traces_values: bool,
    role: fn(&C::Packet) -> Role,
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
    for option in ["cyclecount", "return_stack", "branch_broadcast", "vmid"] {
        config.set(option, if random.below(2) == 0 { "1" } else { "0" }).ok()?;
    }
    config.set("context_id", ["0", "4"][random.below(2) as usize]).ok()?;
    config.set("timestamp_bits", ["0", "64"][random.below(2) as usize]).ok()?;
    let mut options = UnitConfig::new(config);
    options.sync_period = 256;
    let mut unit = Unit::new(options);
    let mut bytes = Vec::new();
    unit.push_all(&Walker::run(&program, walk(random, seed)), &mut bytes);
    unit.finish(&mut bytes);
    Some(Box::new(Traced {
        program,
        config,
        bytes,
        traces_data: false,
        traces_values: false,
        role: ptm_role,
    }))
}

pub fn etm3_subject(seed: u64) -> Option<Box<dyn Subject>> {
    let random = &mut Random(seed);
    let program = Program::random(seed, Flavour::AArch32, false);
    let mut config = etm3::Config::default();
    for option in ["cyclecount", "alternative_branches", "branch_broadcast", "vmid"] {
        config.set(option, if random.below(2) == 0 { "1" } else { "0" }).ok()?;
    }
    config.set("context_id", ["0", "4"][random.below(2) as usize]).ok()?;
    config.set("timestamp_bits", ["0", "64"][random.below(2) as usize]).ok()?;
    config.set("data", ["none", "none", "address", "value", "both"][random.below(5) as usize]).ok()?;
    let mut options = UnitConfig::new(config);
    options.sync_period = 256;
    let mut unit = Unit::new(options);
    let mut bytes = Vec::new();
    let executed = Walker::run(&program, walk(random, seed));
    unit.push_all(&with_accesses(&executed, random), &mut bytes);
    unit.finish(&mut bytes);
    let (traces_data, traces_values) = (config.data_trace(), config.data_values());
    Some(Box::new(Traced { program, config, bytes, traces_data, traces_values, role: etm3_role }))
}

/// What a packet is for synchronisation.
enum Role {
    Async,
    ISync(Address),
    Vmid,
    Other,
}

/// Marks packets. A synchronisation is an A-sync, an I-sync and, where VMIDs are traced, the VMID.
struct Marker {
    vmid: bool,
    is_aligned: bool,
    address: Option<Address>,
}

impl Marker {
    fn new(vmid: bool) -> Self {
        Self { vmid, is_aligned: false, address: None }
    }

    fn mark<P>(&mut self, packet: &Located<P>, role: Role) -> Mark {
        let kind = match role {
            Role::Async => {
                (self.is_aligned, self.address) = (true, None);
                MarkKind::Alignment
            }
            Role::ISync(address) if std::mem::take(&mut self.is_aligned) => match self.vmid {
                true => {
                    self.address = Some(address);
                    MarkKind::Packet
                }
                false => MarkKind::Synchronisation(address),
            },
            Role::Vmid => self.address.take().map_or(MarkKind::Packet, MarkKind::Synchronisation),
            _ => MarkKind::Packet,
        };
        Mark { start: packet.offset as usize, end: packet.end() as usize, kind }
    }
}

fn ptm_role(packet: &ptm::Packet) -> Role {
    match packet {
        ptm::Packet::Async => Role::Async,
        ptm::Packet::ISync(sync) => Role::ISync(sync.address),
        ptm::Packet::Vmid(_) => Role::Vmid,
        _ => Role::Other,
    }
}

fn etm3_role(packet: &etm3::Packet) -> Role {
    match packet {
        etm3::Packet::Async => Role::Async,
        etm3::Packet::ISync(sync) => sync.address.map_or(Role::Other, Role::ISync),
        etm3::Packet::Vmid(_) => Role::Vmid,
        _ => Role::Other,
    }
}

impl<C: Protocol> Subject for Traced<C> {
    fn name(&self) -> String {
        format!("{:x?}", self.config)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        let mut listing = Listing::default();
        let mut follower = Follower::new(&self.config, &self.program);
        let mut marker = Marker::new(self.config.vmid());
        let Listing { events, marks } = &mut listing;
        let mut sink = |event: Located<Event>| events.push(event);
        packets(&self.config, bytes, &mut |packet| {
            marks.push(marker.mark(&packet, (self.role)(&packet.value)));
            follower.push(packet, &mut sink);
        });
        follower.finish(&mut sink);
        listing
    }

    fn code(&self) -> &dyn CodeAt {
        &self.program
    }

    fn traces_data(&self) -> bool {
        self.traces_data
    }

    fn traces_values(&self) -> bool {
        self.traces_values
    }

    fn synchronisation<'l>(&self, intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark> {
        after_alignment(intact, damaged, harm)
    }
}
