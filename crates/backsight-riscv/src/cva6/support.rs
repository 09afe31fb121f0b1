//! The support packet: option bits in an order of its own, and one that only this hardware has.

use crate::etrace::{BitReader, BitWriter, Options, QualStatus, Support};

pub(crate) fn read_support(bits: &mut BitReader<'_>) -> Support {
    let ienable = bits.flag();
    let encoder_mode = bits.take(1) as u8;
    let qual_status = QualStatus::from_bits(bits.take(2));
    let options = Options {
        jump_target_cache: bits.flag(),
        branch_prediction: bits.flag(),
        implicit_return: bits.flag(),
        sijump: bits.flag(),
        implicit_exception: bits.flag(),
        full_address: bits.flag(),
        ..Options::default()
    };
    Support { ienable, encoder_mode, qual_status, options, delta_address: bits.flag(), ..Support::default() }
}

pub(crate) fn write_support(support: &Support, bits: &mut BitWriter) {
    bits.put(support.ienable.into(), 1);
    bits.put(support.encoder_mode.into(), 1);
    bits.put(support.qual_status as u64, 2);
    let o = &support.options;
    for flag in [
        o.jump_target_cache,
        o.branch_prediction,
        o.implicit_return,
        o.sijump,
        o.implicit_exception,
        o.full_address,
        support.delta_address,
    ] {
        bits.put(flag.into(), 1);
    }
}
