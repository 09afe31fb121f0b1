//! Any bytes through the PTM and ETMv3 decoders and followers, over a little code: nothing panics, and neither remembering
//! blocks nor the cuts of the stream change anything.
#![no_main]

use backsight_arm::etm::Decoder;
use backsight_arm::{etm3, ptm};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etm::{Follower, Options, Protocol};
use backsight_image::Code;

const BASE: u64 = 0x1000;

struct Memory<'a>(&'a [u8]);

impl Code for Memory<'_> {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(BASE)?).ok()?;
        self.0.get(offset..).filter(|rest| !rest.is_empty())
    }
}

fn follow<C: Protocol>(
    config: &C,
    code: &Memory<'_>,
    trace: &[u8],
    blocks: usize,
    chunk: usize,
) -> Vec<Located<Event>> {
    let options = Options { cached_blocks: blocks, walk_limit: 1 << 12, ..Options::default() };
    let mut follower = Follower::with_options(config, code, options);
    let mut decoder = Decoder::new(config);
    let mut events = Vec::new();
    for bytes in trace.chunks(chunk) {
        decoder.feed(bytes, &mut |packet| follower.push(packet, &mut |event| events.push(event)));
    }
    decoder.finish(&mut |packet| follower.push(packet, &mut |event| events.push(event)));
    follower.finish(&mut |event| events.push(event));
    events
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, context, ccer], rest)) = data.split_first_chunk() else { return };
    let code = Memory(&rest[..rest.len().min(256)]);
    let trace = &rest[rest.len().min(256)..];
    if kind & 1 == 0 {
        let mut config = ptm::Config::default();
        config.registers.cr =
            u32::from(flags & 1) << 12 | u32::from(context & 3) << 14 | u32::from(flags & 2) << 28;
        config.registers.ccer = u32::from(ccer) << 22;
        // An A-sync and an I-sync in the code, so that most inputs get past synchronisation.
        let begin = [0, 0, 0, 0, 0, 0x80, 0x08, kind >> 7, 0x10, 0, 0, 0x01];
        let trace = [&begin[..], trace].concat();
        let events = follow(&config, &code, &trace, 1 << 10, usize::MAX);
        assert!(events == follow(&config, &code, &trace, 1, 3), "the cache or the pieces change the flow");
    } else {
        let mut config = etm3::Config::default();
        config.registers.cr = u32::from(flags & 1) << 12 | u32::from(flags & 0xE);
        config.profile = if flags & 0x80 == 0 { etm3::Profile::AOrR } else { etm3::Profile::M };
        config.registers.set_minor((flags >> 4 & 7).min(5));
        let begin = [0, 0, 0, 0, 0, 0x80, 0x08, 0x01, kind >> 7, 0x10, 0, 0];
        let trace = [&begin[..], trace].concat();
        let events = follow(&config, &code, &trace, 1 << 10, usize::MAX);
        assert!(events == follow(&config, &code, &trace, 1, 3), "the cache or the pieces change the flow");
    }
});
