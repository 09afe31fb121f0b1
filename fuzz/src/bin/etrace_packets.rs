//! Any payload is a packet or a named fault, in every configuration; a packet encodes to itself.
#![no_main]

use backsight_riscv::etrace::{Dialect, ImplicitReturn, Options, Params, SupportLayout, decode, encode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [a, b, c, payload @ ..] = data else { return };
    let params = Params {
        iaddress_width: 32 + a % 33,
        iaddress_lsb: b % 3,
        context_width: 1 + c % 64,
        nocontext: a >> 7,
        notime: b >> 7,
        time_width: 1 + a % 64,
        ecause_width: 1 + b % 64,
        privilege_width: 2 + (c >> 7),
        f0s_width: 1 + (a >> 6 & 1),
        cache_size: b % 16,
        bpred_size: 1,
        return_stack_size: c % 8,
        implicit_return: if c & 8 != 0 { ImplicitReturn::Returns } else { ImplicitReturn::Depth },
        layout: [SupportLayout::Reference, SupportLayout::Seed, SupportLayout::Standard][usize::from(a % 3)],
        dialect: if b & 0x70 == 0x70 { Dialect::Seed } else { Dialect::Standard },
        ..Params::default()
    };
    let options = Options {
        branch_prediction: a & 16 != 0,
        jump_target_cache: a & 32 != 0,
        implicit_exception: b & 16 != 0,
        ..Options::default()
    };
    let Ok(packet) = decode(payload, &params, &options) else { return };
    packet.fields(&params, &mut |_, _| {});
    if params.dialect == Dialect::Standard {
        let again = encode(&packet, &params, &options);
        assert_eq!(decode(&again, &params, &options), Ok(packet));
    }
});
