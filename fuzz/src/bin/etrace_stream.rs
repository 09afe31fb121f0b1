//! A stream of E-Trace in any framing: however it is cut, and however often the taker of the events has enough, packets
//! and events are the same, and every byte is accounted for.
#![no_main]

use backsight_core::{Accounting, Address, AddressSpace, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_flow::{Buffer, Event};
use backsight_image::Code;
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{Config, Decoder, ImplicitReturn, Message, Options, Params, SupportLayout};

const BASE: u64 = 0x8000_0000;

struct Memory<'a>(&'a [u8]);

impl Code for Memory<'_> {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let distance = usize::try_from(address.0.checked_sub(BASE)?).ok()?;
        self.0.get(distance..).filter(|rest| !rest.is_empty())
    }
}

fn decode(config: &Config, bytes: &[u8], piece: usize) -> (Vec<Located<Message>>, Accounting) {
    let (mut decoder, mut messages) = (Decoder::new(config), Vec::new());
    let mut sink = |message| messages.push(message);
    bytes.chunks(piece.max(1)).for_each(|piece| decoder.feed(piece, &mut sink));
    decoder.finish(&mut sink);
    (messages, decoder.accounting())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [a, b, c, size, rest @ ..] = data else { return };
    let (code, bytes) = rest.split_at(usize::from(*size).min(rest.len()));
    let params = Params {
        iaddress_width: 32,
        f0s_width: 1,
        bpred_size: 3,
        cache_size: 3,
        return_stack_size: 2,
        implicit_return: ImplicitReturn::Returns,
        layout: if a & 1 == 0 { SupportLayout::Reference } else { SupportLayout::Standard },
        ..Params::default()
    };
    let options = Options {
        implicit_return: a & 2 != 0,
        jump_target_cache: a & 4 != 0,
        branch_prediction: a & 8 != 0,
        full_address: a & 16 != 0,
        ..Options::default()
    };
    let framing = match b % 5 {
        0 => Framing::Reference { hart_bits: 8 },
        1 => Framing::Esp32,
        2 => Framing::Pulp,
        3 => Framing::ATB,
        _ => Framing::Standard(Encapsulation { source_bits: b >> 4, time_bytes: c & 7, type_bits: c >> 6 }),
    };
    let config = Config { params, options, framing };
    let (messages, accounting) = decode(&config, bytes, bytes.len());
    assert_eq!(decode(&config, bytes, usize::from(*c)), (messages.clone(), accounting));
    assert_eq!(accounting.total(), bytes.len() as u64);

    let memory = Memory(code);
    let settings = Settings { longest_path: 1 << 10, ..Settings::from(&config) };
    let mut follower = Follower::new(settings.clone(), &memory);
    let mut expected = Vec::new();
    let mut sink = |event: Located<Event>| expected.push(event);
    messages.iter().for_each(|&message| follower.push(message, &mut sink));
    follower.finish(&mut sink);

    let (mut pausing, mut buffer, mut events) =
        (Follower::new(settings, &memory), Buffer::new(1), Vec::new());
    for &message in &messages {
        pausing.push(message, &mut buffer);
        events.extend(buffer.drain());
        while pausing.is_paused() {
            pausing.resume(&mut buffer);
            events.extend(buffer.drain());
        }
    }
    pausing.finish(&mut buffer);
    events.extend(buffer.drain());
    assert_eq!(events, expected);
});
