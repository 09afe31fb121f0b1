//! Format 3 subformat 3: what the encoder does, and what it is set to.
//!
//! The ratified specification leaves number and order of the option bits to the implementation; three layouts are
//! in use.

use backsight_core::{Field, Value};

use crate::cva6;
use crate::etrace::{BadPacket, DataOptions, FieldReader, FieldWriter, ImplicitReturn, Options, Params};

/// What became of tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QualStatus {
    /// Nothing changed.
    #[default]
    NoChange = 0,
    /// Tracing ended; the packet before was sent only to name the last instruction.
    EndedRep = 1,
    /// Packets were lost.
    TraceLost = 2,
    /// Tracing ended; the packet before would have been sent anyway, because of an uninferable discontinuity.
    EndedNtr = 3,
}

impl QualStatus {
    /// From the two bits on the wire.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::NoChange,
            1 => Self::EndedRep,
            2 => Self::TraceLost,
            _ => Self::EndedNtr,
        }
    }
}

/// What the draft standard support packet says about the encoder's parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disclosed {
    /// The Implicit Return extension: irets instead of irdepth.
    pub iret_ext: bool,
    /// Bits of time divided by 16.
    pub time_width: u8,
    /// Bits of the subformat of format 0.
    pub f0s_width: u8,
    /// Return stack size.
    pub return_stack_size: u8,
    /// Call counter size.
    pub call_counter_size: u8,
    /// Predictor size.
    pub bpred_size: u8,
    /// Jump target cache size.
    pub cache_size: u8,
    /// The Multi-Memory-Access/CAS extension of data trace.
    pub mmacas_ext: bool,
}

/// Format 3 subformat 3: state of the encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Support {
    /// The instruction trace encoder is enabled.
    pub ienable: bool,
    /// Trace algorithm; 0: branch trace.
    pub encoder_mode: u8,
    /// What became of tracing.
    pub qual_status: QualStatus,
    /// Run-time options of instruction trace.
    pub options: Options,
    /// The option bit `delta_address` of the encoder for CVA6; false elsewhere.
    pub delta_address: bool,
    /// Data trace is enabled.
    pub denable: bool,
    /// Data packets were lost.
    pub dloss: bool,
    /// Run-time options of data trace.
    pub data_options: DataOptions,
    /// Parameters, in the layout that has them.
    pub disclosed: Option<Disclosed>,
}

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
    pub(crate) fn read(self, bits: &mut impl FieldReader) -> Support {
        match self {
            Self::Reference => read_reference(bits),
            Self::Cva6 => cva6::read_support(bits),
            Self::Standard => read_standard(bits),
        }
    }

    pub(crate) fn write(self, support: &Support, bits: &mut impl FieldWriter) {
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

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(Field::new("ienable", Value::Decimal(self.ienable.into())));
        each(Field::new("encoder_mode", Value::Decimal(self.encoder_mode.into())));
        each(Field::new("qual_status", Value::Decimal(self.qual_status as u64)));
        each(Field::new("ioptions", Value::Decimal(self.options.bits())));
        if self.denable || self.dloss {
            each(Field::new("denable", Value::Decimal(self.denable.into())));
            each(Field::new("dloss", Value::Decimal(self.dloss.into())));
        }
        if self.denable {
            each(Field::new("doptions", Value::Decimal(self.data_options.bits())));
        }
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

impl Support {
    /// What every layout begins with.
    pub(crate) fn read_head(bits: &mut impl FieldReader, mode_bits: u8) -> Self {
        Self {
            ienable: bits.flag(),
            encoder_mode: bits.take(mode_bits) as u8,
            qual_status: QualStatus::from_bits(bits.take(2)),
            ..Self::default()
        }
    }

    pub(crate) fn write_head(&self, bits: &mut impl FieldWriter, mode_bits: u8) {
        bits.put(self.ienable.into(), 1);
        bits.put(self.encoder_mode.into(), mode_bits);
        bits.put(self.qual_status as u64, 2);
    }
}

fn read_reference(bits: &mut impl FieldReader) -> Support {
    let head = Support::read_head(bits, 1);
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

fn write_reference(support: &Support, bits: &mut impl FieldWriter) {
    support.write_head(bits, 1);
    let o = &support.options;
    bits.flags([
        o.implicit_return,
        o.implicit_exception,
        o.full_address,
        o.jump_target_cache,
        o.branch_prediction,
        support.denable,
        support.dloss,
    ]);
    write_data_options(&support.data_options, bits);
}

fn read_data_options(bits: &mut impl FieldReader) -> DataOptions {
    DataOptions {
        no_address: bits.flag(),
        no_data: bits.flag(),
        full_address: bits.flag(),
        full_data: bits.flag(),
    }
}

fn write_data_options(options: &DataOptions, bits: &mut impl FieldWriter) {
    bits.flags([options.no_address, options.no_data, options.full_address, options.full_data]);
}

fn read_standard(bits: &mut impl FieldReader) -> Support {
    let head = Support::read_head(bits, 2);
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

fn write_standard(support: &Support, bits: &mut impl FieldWriter) {
    support.write_head(bits, 2);
    let (o, d) = (&support.options, support.disclosed.unwrap_or_default());
    bits.flags([
        o.sijump,
        o.implicit_return,
        o.branch_prediction,
        o.jump_target_cache,
        o.implicit_exception,
        o.full_address,
        o.resync_disabled,
        d.iret_ext,
    ]);
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
    bits.flags([support.denable, support.dloss, d.mmacas_ext]);
    write_data_options(&support.data_options, bits);
}
