//! E-Trace, in its framings and with its options.

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Handlers, Settings as Following};
use backsight_image::Code as _;
use backsight_isa::rv::{self, Operation, Set, Source};
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{
    Config, Content, Decoder, ImplicitReturn, Message, Options, Packet, Params, SupportLayout,
};
use backsight_testing::Random;
use backsight_unit::etrace::{Settings, Unit, UnitConfig};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject};
use crate::harm::Harm;
use crate::program::Program;
use crate::random::{Code, Wildness, execute};

/// Bytes of the longest payload in a frame.
const LONGEST_PAYLOAD: usize = 31;

struct Traced {
    program: Program,
    handlers: Handlers,
    config: Config,
    source: u16,
    bytes: Vec<u8>,
}

/// A random program, traced by a random unit.
pub fn subject(seed: u64) -> Option<Box<dyn Subject>> {
    let mut random = Random(seed);
    let mut flip = || random.below(2) == 0;
    let mut options = Options {
        implicit_return: flip(),
        jump_target_cache: flip(),
        branch_prediction: flip(),
        full_address: flip(),
        implicit_exception: flip(),
        ..Options::default()
    };
    let layout = if flip() { SupportLayout::Standard } else { SupportLayout::Reference };
    options.sijump = flip();
    let params = Params {
        iaddress_width: 64,
        bpred_size: if options.branch_prediction { 3 } else { 0 },
        cache_size: if options.jump_target_cache { 3 } else { 0 },
        f0s_width: 1,
        return_stack_size: if options.implicit_return { 2 } else { 0 },
        sijump: options.sijump.into(),
        implicit_return: ImplicitReturn::Returns,
        nocontext: flip().into(),
        context_width: 20,
        layout,
        ..Params::default()
    };
    let framing = [
        Framing::REFERENCE,
        Framing::Reference { hart_bits: 8 },
        Framing::ATB,
        Framing::SIEMENS,
        Framing::Standard(Encapsulation { source_bits: 3, time_bytes: 0, type_bits: 1 }),
    ][random.below(5) as usize];
    let resync = Resync { mode: ResyncMode::Packets, limit: 8 + random.below(40) };
    let source = if framing == Framing::ATB || framing == Framing::REFERENCE { 0 } else { 5 };
    let unit = UnitConfig {
        params,
        options,
        settings: Settings { resync, ..Settings::default() },
        framing,
        source,
        sync_period: 100,
        ..UnitConfig::default()
    };
    let code = Code::new(&mut random, 60);
    let wild = Wildness { returns: true, traps: 10, contexts: 5, taken: 60 };
    let items = execute(&code, &mut random, 3000, wild);
    let mut traced = Unit::new(unit).expect("a unit that can be");
    let mut bytes = Vec::new();
    traced.push_all(&items, &mut bytes);
    traced.finish(&mut bytes);
    let causes = (0..16).flat_map(|cause| [(cause, false), (cause, true)]);
    let single = causes.map(|(cause, interrupt)| ((cause, interrupt), code.handler(cause, interrupt)));
    let handlers = Handlers { single: single.collect(), ..Handlers::default() };
    let config = Config { params, options, framing };
    Some(Box::new(Traced { program: code.program, handlers, config, source, bytes }))
}

impl Traced {
    /// Is there a jump that may be sequentially inferable? A decoder that begins at one cannot know whether the
    /// instruction before it was traced too, and with it where the jump went.
    fn is_register_jump(&self, address: Address) -> bool {
        let bytes = self.program.bytes_at(AddressSpace::ANY, address);
        let operation =
            bytes.and_then(rv::opcode).map(|opcode| rv::decode(Set::RV64, opcode, address).operation);
        matches!(operation, Some(Operation::Jump { source, .. }) if source != Source::Opcode)
    }

    fn kind(&self, message: &Message) -> MarkKind {
        match message.content {
            Content::Instruction(Packet::Start(start)) => {
                MarkKind::Synchronisation(Address(start.address << self.config.params.iaddress_lsb))
            }
            Content::Null => MarkKind::Alignment,
            _ => MarkKind::Packet,
        }
    }
}

impl Subject for Traced {
    fn name(&self) -> String {
        let Config { params, options, framing } = &self.config;
        format!("{:?}, {framing:?}, {options:?}", params.layout)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        let mut listing = Listing::default();
        let mut decoder = Decoder::new(&self.config);
        let following = Following {
            set: Set::RV64,
            longest_path: 1 << 16,
            handlers: self.handlers.clone(),
            ..Following::from(&self.config)
        };
        let mut follower = Follower::new(following, &self.program);
        let Listing { events, marks } = &mut listing;
        let mut sink = |event: Located<Event>| events.push(event);
        let mut each = |message: Located<Message>| {
            let (start, end) = (message.offset as usize, message.end() as usize);
            marks.push(Mark { start, end, kind: self.kind(&message.value) });
            if message.value.source.is_none_or(|source| source == self.source) {
                follower.push(message, &mut sink);
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

    fn realigns(&self) -> bool {
        matches!(self.config.framing, Framing::Standard(_))
    }

    fn is_payload(&self, packet: &Mark, at: usize) -> bool {
        packet.kind != MarkKind::Alignment && at > packet.start
    }

    fn synchronisation<'l>(&self, intact: &'l Listing, _: &Listing, harm: &Harm) -> Option<&'l Mark> {
        let mut later = intact.marks.iter().filter(|mark| mark.start >= harm.end);
        if !harm.keeps_frames {
            // Frames are found again after more null bytes than a packet can hold.
            let mut nulls = 0;
            later.find(|mark| {
                nulls = if mark.kind == MarkKind::Alignment { nulls + 1 } else { 0 };
                nulls > LONGEST_PAYLOAD
            })?;
        }
        later.find(|mark| {
            let MarkKind::Synchronisation(address) = mark.kind else { return false };
            !(self.config.options.sijump && self.is_register_jump(address))
        })
    }
}
