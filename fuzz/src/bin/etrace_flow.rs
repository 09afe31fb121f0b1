//! Any packets through any code: no panic, no endless walk.
#![no_main]

use backsight_core::{Address, Located, MemorySpace};
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code;
use backsight_riscv::etrace::{Decoder, ImplicitReturn, Options, Params};

const BASE: u64 = 0x8000_0000;

struct Memory<'a>(&'a [u8]);

impl Code for Memory<'_> {
    fn bytes_at(&self, _: MemorySpace, address: Address) -> Option<&[u8]> {
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
    let (mut follower, mut decoder) = (Follower::new(settings, &memory), Decoder::new(params, options));
    let mut offset = 0;
    while let Some((&length, rest)) = stream.split_first() {
        let (payload, rest) = rest.split_at(usize::from(length % 16).min(rest.len()));
        stream = rest;
        match decoder.decode(payload) {
            Ok(value) => follower.push(Located { offset, length: 1, value }, &mut |_| {}),
            Err(_) => follower.push_bad(Located { offset, length: 1, value: () }, &mut |_| {}),
        }
        offset += 1;
    }
    follower.finish(&mut |_| {});
});
