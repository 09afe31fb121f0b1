//! Layouts of the support packet.
//!
//! The ratified specification leaves number and order of the option bits to the implementation; three layouts are
//! in use.

use crate::cva6;

use super::{
    BadPacket, BitReader, BitWriter, DataOptions, Disclosed, ImplicitReturn, Options, Params, QualStatus,
    Support,
};

/// Which bits a support packet has after its subformat, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SupportLayout {
    /// The specification's reference model.
    #[default]
    Reference,
    /// The encoder for CVA6.
    Cva6,
    /// The draft Standard Support Packet.
    Standard,
}

impl SupportLayout {
    pub(crate) fn read(self, bits: &mut BitReader<'_>) -> Support {
        match self {
            Self::Reference => read_reference(bits),
            Self::Cva6 => cva6::read_support(bits),
            Self::Standard => read_standard(bits),
        }
    }

    pub(crate) fn write(self, support: &Support, bits: &mut BitWriter) {
        match self {
            Self::Reference => write_reference(support, bits),
            Self::Cva6 => cva6::write_support(support, bits),
            Self::Standard => write_standard(support, bits),
        }
    }
}

/// Most bits of time, in units of 16: what the draft layout can announce.
const MOST_TIME_WIDTH: u8 = 4;

impl Support {
    /// Can an encoder with these parameters have sent it?
    pub(crate) fn check(&self, params: &Params) -> Result<(), BadPacket> {
        if self.encoder_mode != 0 {
            return Err(BadPacket::ReservedMode);
        }
        let (mut announced, mut options) = (*params, Options::default());
        self.announce(&mut announced, &mut options);
        let stack = announced.return_stack_size > 0 || announced.call_counter_size > 0;
        let impossible = options.branch_prediction && announced.bpred_size == 0
            || options.jump_target_cache && announced.cache_size == 0
            || options.implicit_return && !stack
            || self.disclosed.is_some_and(|disclosed| disclosed.time_width > MOST_TIME_WIDTH);
        if impossible { Err(BadPacket::ImpossibleOption) } else { Ok(()) }
    }

    /// Takes over the options that the packet announces, and the parameters where its layout has them.
    pub fn announce(&self, params: &mut Params, options: &mut Options) {
        // Where a layout has no bit for an option, what was configured stays.
        let Options { sijump, resync_disabled, .. } = *options;
        *options = self.options;
        if params.layout == SupportLayout::Reference {
            options.sijump = sijump;
        }
        if params.layout != SupportLayout::Standard {
            options.resync_disabled = resync_disabled;
        }
        let Some(d) = &self.disclosed else { return };
        params.implicit_return = if d.iret_ext { ImplicitReturn::Returns } else { ImplicitReturn::Depth };
        params.notime = u8::from(d.time_width == 0);
        params.time_width = (d.time_width * 16).clamp(1, 64);
        params.f0s_width = d.f0s_width;
        params.return_stack_size = d.return_stack_size;
        params.call_counter_size = d.call_counter_size;
        params.bpred_size = d.bpred_size;
        params.cache_size = d.cache_size;
        params.mmacas_ext = d.mmacas_ext.into();
    }
}

fn read_head(bits: &mut BitReader<'_>, mode_bits: u8) -> Support {
    Support {
        ienable: bits.flag(),
        encoder_mode: bits.take(mode_bits) as u8,
        qual_status: QualStatus::from_bits(bits.take(2)),
        ..Support::default()
    }
}

fn write_head(support: &Support, bits: &mut BitWriter, mode_bits: u8) {
    bits.put(support.ienable.into(), 1);
    bits.put(support.encoder_mode.into(), mode_bits);
    bits.put(support.qual_status as u64, 2);
}

fn write_flags<const N: usize>(flags: [bool; N], bits: &mut BitWriter) {
    for flag in flags {
        bits.put(flag.into(), 1);
    }
}

fn read_reference(bits: &mut BitReader<'_>) -> Support {
    let head = read_head(bits, 1);
    let options = Options {
        implicit_return: bits.flag(),
        implicit_exception: bits.flag(),
        full_address: bits.flag(),
        jump_target_cache: bits.flag(),
        branch_prediction: bits.flag(),
        ..Options::default()
    };
    let (denable, dloss) = (bits.flag(), bits.flag());
    Support { options, denable, dloss, data_options: read_data_options(bits), ..head }
}

fn write_reference(support: &Support, bits: &mut BitWriter) {
    write_head(support, bits, 1);
    let o = &support.options;
    write_flags(
        [
            o.implicit_return,
            o.implicit_exception,
            o.full_address,
            o.jump_target_cache,
            o.branch_prediction,
            support.denable,
            support.dloss,
        ],
        bits,
    );
    write_data_options(&support.data_options, bits);
}

fn read_data_options(bits: &mut BitReader<'_>) -> DataOptions {
    DataOptions {
        no_address: bits.flag(),
        no_data: bits.flag(),
        full_address: bits.flag(),
        full_data: bits.flag(),
    }
}

fn write_data_options(options: &DataOptions, bits: &mut BitWriter) {
    write_flags([options.no_address, options.no_data, options.full_address, options.full_data], bits);
}

fn read_standard(bits: &mut BitReader<'_>) -> Support {
    let head = read_head(bits, 2);
    let options = Options {
        sijump: bits.flag(),
        implicit_return: bits.flag(),
        branch_prediction: bits.flag(),
        jump_target_cache: bits.flag(),
        implicit_exception: bits.flag(),
        full_address: bits.flag(),
        resync_disabled: bits.flag(),
    };
    let mut disclosed = Disclosed {
        iret_ext: bits.flag(),
        time_width: bits.take(3) as u8,
        f0s_width: bits.take(2) as u8,
        return_stack_size: bits.take(3) as u8,
        call_counter_size: bits.take(4) as u8,
        bpred_size: bits.take(3) as u8,
        cache_size: bits.take(3) as u8,
        mmacas_ext: false,
    };
    let (denable, dloss) = (bits.flag(), bits.flag());
    disclosed.mmacas_ext = bits.flag();
    let data_options = read_data_options(bits);
    Support { options, denable, dloss, data_options, disclosed: Some(disclosed), ..head }
}

fn write_standard(support: &Support, bits: &mut BitWriter) {
    write_head(support, bits, 2);
    let (o, d) = (&support.options, support.disclosed.unwrap_or_default());
    write_flags(
        [
            o.sijump,
            o.implicit_return,
            o.branch_prediction,
            o.jump_target_cache,
            o.implicit_exception,
            o.full_address,
            o.resync_disabled,
            d.iret_ext,
        ],
        bits,
    );
    let sizes = [
        (d.time_width, 3),
        (d.f0s_width, 2),
        (d.return_stack_size, 3),
        (d.call_counter_size, 4),
        (d.bpred_size, 3),
        (d.cache_size, 3),
    ];
    for (value, width) in sizes {
        bits.put(value.into(), width);
    }
    write_flags([support.denable, support.dloss, d.mmacas_ext], bits);
    write_data_options(&support.data_options, bits);
}
