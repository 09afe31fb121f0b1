//! Any payload is a packet or a named fault, in every configuration; a packet encodes to itself.
#![no_main]

use backsight_riscv::etrace::data::{self, Layout};
use backsight_riscv::etrace::{
    DataOptions, Dialect, ImplicitReturn, Options, PacketLayout, Params, SupportLayout, decode, encode,
};

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
        layout: [SupportLayout::Reference, SupportLayout::Cva6, SupportLayout::Standard][usize::from(a % 3)],
        dialect: if b & 0x70 == 0x70 { Dialect::Cva6 } else { Dialect::Standard },
        ..Params::default()
    };
    let options = Options {
        branch_prediction: a & 16 != 0,
        jump_target_cache: a & 32 != 0,
        implicit_exception: b & 16 != 0,
        ..Options::default()
    };
    data_packets(*a, *b, *c, payload);
    let Ok(packet) = decode(payload, &params, &options) else { return };
    packet.fields(&PacketLayout::new(&params), &mut |_| {});
    if params.dialect == Dialect::Standard {
        let again = encode(&packet, &params, &options);
        assert_eq!(decode(&again, &params, &options), Ok(packet));
    }
});

/// The same payloads, cut into pieces, as data packets.
fn data_packets(a: u8, b: u8, c: u8, payload: &[u8]) {
    let params = Params {
        data_width: 8 + (a % 121),
        daddress_width: 1 + b % 64,
        dtype_width: 1 + c % 4,
        lrid_width: 1 + a % 16,
        data_split: c >> 2 & 1,
        data_diff_width: 1 + (c >> 3 & 1),
        mmacas_ext: c >> 4 & 1,
        ..Params::default()
    };
    let options = DataOptions {
        no_address: c & 32 != 0,
        no_data: c & 64 != 0,
        full_address: b & 64 != 0,
        full_data: b & 128 != 0,
    };
    let layout = Layout::new(&params, &options);
    let mut decoder = data::Decoder::new(&params, &options);
    for piece in payload.chunks(1 + usize::from(a >> 4)) {
        let Ok(packet) = decoder.decode(piece) else { continue };
        packet.fields(&mut |_, _, _| {});
        let again = packet.encode(&layout).expect("what decodes encodes");
        assert_eq!(decoder.decode(&again), Ok(packet));
        if let Ok(record) = decoder.resolve(&packet) {
            let _ = data::Encoder::new(&params, &options).push(&record);
        }
    }
}
