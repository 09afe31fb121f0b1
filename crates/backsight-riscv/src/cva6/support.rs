//! The support packet: option bits in an order of its own, and one that only this hardware has.

use crate::etrace::{FieldReader, FieldWriter, Options, Support};

pub(crate) fn read_support(bits: &mut impl FieldReader) -> Support {
    let head = Support::read_head(bits, 1);
    let options = Options {
        jump_target_cache: bits.flag(),
        branch_prediction: bits.flag(),
        implicit_return: bits.flag(),
        sijump: bits.flag(),
        implicit_exception: bits.flag(),
        full_address: bits.flag(),
        ..Options::default()
    };
    Support { options, delta_address: bits.flag(), ..head }
}

pub(crate) fn write_support(support: &Support, bits: &mut impl FieldWriter) {
    support.write_head(bits, 1);
    let o = &support.options;
    bits.flags([
        o.jump_target_cache,
        o.branch_prediction,
        o.implicit_return,
        o.sijump,
        o.implicit_exception,
        o.full_address,
        support.delta_address,
    ]);
}
