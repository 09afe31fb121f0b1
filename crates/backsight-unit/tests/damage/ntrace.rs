//! N-Trace, with and without histories.

use backsight_core::{Address, Located};
use backsight_flow::Event;
use backsight_flow::ntrace::{Follower, Options};
use backsight_isa::rv::Set;
use backsight_riscv::ntrace::{Config, Decoder, Dialect, Message, Mode, Packet};
use backsight_testing::Random;
use backsight_unit::ntrace::{Settings, Timestamps, Unit, UnitConfig};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject};
use crate::harm::Harm;
use crate::program::Program;
use crate::random::{Code, Wildness, execute};

struct Traced {
    program: Program,
    config: Config,
    settings: Settings,
    bytes: Vec<u8>,
}

/// A random program, traced by a random unit.
pub fn subject(seed: u64) -> Option<Box<dyn Subject>> {
    let mut random = Random(seed);
    let mut below = |most: u64| random.below(most);
    let settings = Settings {
        mode: if below(3) == 0 { Mode::Branch } else { Mode::History },
        history_bits: 1 + below(40) as u8,
        repeat_history: below(2) == 0,
        repeat_branch: below(2) == 0,
        return_stack: below(17) as u8,
        resync: Resync { mode: ResyncMode::Packets, limit: 4 + below(30) },
        ownership: below(2) == 0,
        timestamps: [Timestamps::Off, Timestamps::Synchronising, Timestamps::All][below(3) as usize],
        ..Settings::default()
    };
    let mut unit = UnitConfig { settings, ..UnitConfig::default() };
    unit.config.source_bits = below(4) as u8;
    let code = Code::new(&mut random, 60);
    let wild = Wildness { returns: true, traps: 10, contexts: 5, taken: 60 };
    let items = execute(&code, &mut random, 3000, wild);
    let mut traced = Unit::new(unit).expect("a unit that can be");
    let mut bytes = Vec::new();
    traced.push_all(&items, &mut bytes);
    traced.finish(&mut bytes);
    let config = Config { dialect: Some(Dialect::Ratified), ..unit.config };
    Some(Box::new(Traced { program: code.program, config, settings, bytes }))
}

impl Subject for Traced {
    fn name(&self) -> String {
        format!("{:?}, {:?}", self.config, self.settings)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        let mut listing = Listing::default();
        let mut decoder = Decoder::new(&self.config);
        let mut follower = Follower::with_options(
            Set::RV64,
            &self.program,
            Options { config: self.config, ..Options::default() },
        );
        let Listing { events, marks } = &mut listing;
        let mut sink = |event: Located<Event>| events.push(event);
        let mut each = |packet: Located<Packet>| {
            let (start, end) = (packet.offset as usize, packet.end() as usize);
            let kind = match packet.value.message {
                Message::ProgramTraceSync { address, .. }
                | Message::DirectBranchSync { address, .. }
                | Message::IndirectBranchSync { address, .. }
                | Message::IndirectBranchHistorySync { address, .. } => {
                    MarkKind::Synchronisation(Address(address << 1))
                }
                _ => MarkKind::Packet,
            };
            marks.push(Mark { start, end, kind });
            if packet.value.source == self.settings.source {
                follower.push(packet, &mut sink);
            }
        };
        decoder.feed(bytes, &mut each);
        decoder.finish(&mut each);
        follower.finish(&mut sink);
        listing
    }

    fn code(&self) -> &dyn CodeAt {
        &self.program
    }

    /// The end of a message is in its last byte: if that is damaged, the next message is part of this one.
    fn synchronisation<'l>(&self, intact: &'l Listing, _: &Listing, harm: &Harm) -> Option<&'l Mark> {
        let mut later = intact.marks.iter().filter(|mark| mark.start > harm.end);
        later.find(|mark| matches!(mark.kind, MarkKind::Synchronisation(_)))
    }
}
