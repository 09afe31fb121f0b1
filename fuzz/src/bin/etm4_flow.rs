//! Any bytes through the ETMv4 decoder and follower, over a little code: nothing panics, every range lies in the
//! code, and neither remembering blocks nor following runs of atoms at once nor taking turns changes anything.
#![no_main]

use backsight_arm::etm4::{Config, Decoder, Profile};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etm4::{Branches, Follower, Options};
use backsight_image::Code;

const BASE: u64 = 0x1000;

struct Memory<'a>(&'a [u8]);

impl Code for Memory<'_> {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(BASE)?).ok()?;
        self.0.get(offset..).filter(|rest| !rest.is_empty())
    }
}

/// How packets reach the follower.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// One by one.
    Packets,
    /// Runs of atoms at once.
    Runs,
    /// The same, to two followers in turn, each of which goes on with what the other one knows.
    InTurn,
}

fn follow(
    config: &Config,
    code: &Memory<'_>,
    trace: &[u8],
    (cached_blocks, chunk, way): (usize, usize, Way),
) -> Vec<Located<Event>> {
    let strict_image = config.registers.idr8 & 1 != 0;
    let options = Options { strict_image, cached_blocks, walk_limit: 1 << 12 };
    let new = || (Decoder::new(config), Follower::with_options(config, code, options));
    let ((mut decoder, mut follower), mut other) = (new(), new());
    let mut events: Vec<Located<Event>> = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event);
    // Twice, so that what was remembered is used.
    for _ in 0..2 {
        for bytes in trace.chunks(chunk) {
            if way == Way::Packets {
                decoder.feed(bytes, &mut |packet| follower.push(packet, &mut sink));
            } else {
                decoder.feed_to(bytes, &mut follower.input(&mut sink));
            }
            if way == Way::InTurn {
                other.0.restore(&decoder.state());
                other.1.restore(&follower.state());
                assert!(other.0.state() == decoder.state() && other.1.state() == follower.state());
                std::mem::swap(&mut decoder, &mut other.0);
                std::mem::swap(&mut follower, &mut other.1);
            }
        }
        decoder.finish(&mut |packet| follower.push(packet, &mut sink));
        follower.finish(&mut sink);
    }
    events
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<16>() else { return };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mut config = if head[15] & 1 == 0 { Config::etm4_default() } else { Config::ete_default() };
    config.registers.idr0 ^= word(0);
    config.registers.configr = word(4);
    config.registers.idr8 = u32::from(head[8]);
    config.registers.idr12 = u32::from(head[9]);
    config.profile = if head[15] & 2 == 0 { Profile::A } else { Profile::M };
    let code = Memory(&rest[..rest.len().min(256)]);
    // An Async and a Trace Info, so that most inputs get past synchronisation, and an address in the code.
    let mut trace = vec![0; 11];
    trace.extend([0x80, 0x01, 0x00, 0x82, 0x00, 0x08, 0x00, 0x00, head[10] & 0x3F]);
    trace.extend(&rest[rest.len().min(256)..]);

    let events = follow(&config, &code, &trace, (1 << 10, usize::MAX, Way::Packets));
    assert!(
        events == follow(&config, &code, &trace, (1, 3, Way::Packets)),
        "the cache or the chunks change the flow"
    );
    assert!(
        events == follow(&config, &code, &trace, (1 << 10, usize::MAX, Way::Runs)),
        "runs of atoms change the flow"
    );
    assert!(
        events == follow(&config, &code, &trace, (5, 97, Way::Runs)),
        "runs of atoms change the flow of a small cache"
    );
    assert!(
        events == follow(&config, &code, &trace, (1 << 10, 31, Way::InTurn)),
        "followers that take turns change it"
    );

    let mut branches = Branches::new(&config);
    let mut decoder = Decoder::new(&config);
    decoder.feed(&trace, &mut |packet| branches.push(packet, &mut |_| {}));
    branches.finish(&mut |_| {});
});
