//! N-Trace bytes to messages, back to bytes, and through a little code to execution.
#![no_main]

use backsight_core::{Address, AddressSpace};
use backsight_flow::ntrace::Follower;
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, Decoder, Message, Packet, Process, encode, messages};

struct Flat<'a>(&'a [u8]);

impl Code for Flat<'_> {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0.get(usize::try_from(address.0).ok()?..).filter(|bytes| !bytes.is_empty())
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (code, trace) = data.split_at(data.len() / 2);
    let code = Flat(code);
    let config = Config::with_source_bits(trace.len() as u8 % 3);
    let mut decoder = Decoder::new(&config);
    let mut follower = Follower::new(rv::Set::RV64, &code);
    let mut events = 0u64;
    decoder.feed(trace, &mut |packet| follower.push(packet, &mut |_| events += 1));
    decoder.finish(&mut |packet| follower.push(packet, &mut |_| events += 1));
    follower.finish(&mut |_| events += 1);
    assert_eq!(decoder.accounting().total(), trace.len() as u64);
    for packet in messages(&config, trace) {
        let mut bytes = Vec::new();
        if encode(&config, &packet.value, &mut bytes) {
            let sent = |packet: &Packet| Packet::new(packet.source, packet.timestamp, packet.message);
            let again: Vec<_> = messages(&config, &bytes).iter().map(|packet| sent(&packet.value)).collect();
            assert_eq!(again, [sent(&packet.value)]);
        }
        if let Message::Ownership { process } = packet.value.message
            && let Some(known) = Process::from_field(process)
        {
            assert_eq!(Process::from_field(known.field()), Some(known));
        }
    }
});
