//! Any packets through any code: no panic, no endless walk, and the quick way tells what the careful one tells, also with
//! what another hart has read of the code.
#![no_main]

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code;
use backsight_riscv::etrace::{ImplicitReturn, Message, Options, Params, PayloadDecoder};

const BASE: u64 = 0x8000_0000;

struct Memory<'a>(&'a [u8]);

impl Code for Memory<'_> {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let distance = usize::try_from(address.0.checked_sub(BASE)?).ok()?;
        self.0.get(distance..).filter(|rest| !rest.is_empty())
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [switches, size, rest @ ..] = data else { return };
    let (code, mut stream) = rest.split_at(usize::from(*size).min(rest.len()));
    let params = Params {
        iaddress_width: 32,
        ecause_width: 4,
        f0s_width: 1,
        bpred_size: 3,
        cache_size: 3,
        return_stack_size: 2,
        implicit_return: if switches & 1 != 0 { ImplicitReturn::Returns } else { ImplicitReturn::Depth },
        itype_width: 3 + (switches >> 1 & 1),
        ..Params::default()
    };
    let options = Options {
        implicit_return: switches & 4 != 0,
        implicit_exception: switches & 8 != 0,
        full_address: switches & 16 != 0,
        jump_target_cache: switches & 32 != 0,
        branch_prediction: switches & 64 != 0,
        sijump: switches & 128 != 0,
        resync_disabled: false,
    };
    let memory = Memory(code);
    let mut settings = Settings::new(params, options);
    settings.longest_path = 1 << 10;
    settings.handlers.base = Some(BASE);
    let clear = Settings { fast_walk: false, ..settings.clone() };
    let mut other = Follower::new(settings.clone(), &memory);
    let (mut follower, mut reference) = (Follower::new(settings, &memory), Follower::new(clear, &memory));
    let mut decoder = PayloadDecoder::new(params, options);
    let (mut events, mut expected) = (Vec::new(), Vec::new());
    let mut offset = 0;
    while let Some((&length, rest)) = stream.split_first() {
        let (value, rest) = rest.split_at(usize::from(length % 16).min(rest.len()));
        stream = rest;
        let packet: Located<Message> = Located { offset, length: 1, value: decoder.decode(value).into() };
        follower.push(packet, &mut |event| events.push(event));
        reference.push(packet, &mut |event| expected.push(event));
        assert_eq!(events, expected);
        (events.clear(), expected.clear());
        if length & 0x40 != 0 {
            other.push(packet, &mut |_| {});
        }
        if length & 0x80 != 0 {
            follower.exchange_caches(&mut other);
        }
        offset += 1;
    }
    follower.finish(&mut |event| events.push(event));
    reference.finish(&mut |event| expected.push(event));
    assert_eq!(events, expected);
    assert_eq!((follower.faults(), follower.statistics()), (reference.faults(), reference.statistics()));
});
