//! What is fixed when an encoder is built, and what software may switch.
//!
//! A decoder cannot read a stream without these: widths of fields and sizes of tables do not travel with it.
//! Names and defaults are those of the specification's discovery table.

use core::fmt;

use super::SupportLayout;

/// How fields become payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// As the specification has it.
    #[default]
    Standard,
    /// As the encoder for CVA6 has it: see [`cva6`](crate::cva6).
    Cva6,
}

/// What the field after `irreport` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImplicitReturn {
    /// Ratified: entries on the return stack (`irdepth`). Two returns at the same depth cannot be distinguished, so a
    /// decoder may take a wrong path without noticing.
    #[default]
    Depth,
    /// Draft extension: implicit returns since the last branch or packet (`irets`, 8 bits).
    Returns,
}

macro_rules! params {
    ($( $(#[doc = $doc:literal])+ $field:ident = $default:literal in $low:literal ..= $high:literal; )*) => {
        /// The parameters of an encoder.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Params {
            $( $(#[doc = $doc])+ pub $field: u8, )*
            /// Order and number of the bits in support packets.
            pub layout: SupportLayout,
            /// How fields become bytes.
            pub dialect: Dialect,
            /// What the field after `irreport` counts.
            pub implicit_return: ImplicitReturn,
        }

        impl Default for Params {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    layout: SupportLayout::Reference,
                    dialect: Dialect::Standard,
                    implicit_return: ImplicitReturn::Depth,
                }
            }
        }

        impl Params {
            /// Every numeric parameter with its value, in the order of the specification.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u8)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// The numeric parameter of that name and the values it may have.
            pub(super) fn field(&mut self, name: &str) -> Option<(&mut u8, u8, u8)> {
                match name {
                    $( stringify!($field) => Some((&mut self.$field, $low, $high)), )*
                    _ => None,
                }
            }

            fn limits() -> impl Iterator<Item = (&'static str, u8, u8)> {
                [$( (stringify!($field), $low, $high), )*].into_iter()
            }
        }
    };
}

params! {
    /// Architecture specification version.
    arch = 0 in 0..=255;
    /// The predictor has 2^n entries; 0: there is none.
    bpred_size = 0 in 0..=16;
    /// The jump target cache has 2^n entries; 0: there is none.
    cache_size = 0 in 0..=16;
    /// The call counter counts 2^n levels; 0: there is none.
    call_counter_size = 0 in 0..=16;
    /// Bits of the context.
    context_width = 1 in 0..=64;
    /// Bits of the time.
    time_width = 1 in 0..=64;
    /// Bits of the cause.
    ecause_width = 4 in 1..=64;
    /// Bits of the subformat of format 0.
    f0s_width = 0 in 0..=3;
    /// Lowest bit of an address that is sent: 1, or 2 without compressed instructions.
    iaddress_lsb = 1 in 0..=2;
    /// Bits of an address.
    iaddress_width = 32 in 3..=64;
    /// 1: packets carry no context.
    nocontext = 1 in 0..=1;
    /// 1: packets carry no time.
    notime = 1 in 0..=1;
    /// Bits of the privilege: 2, or 3 with debug and virtual modes.
    privilege_width = 2 in 1..=3;
    /// The return stack has 2^n entries; 0: there is none.
    return_stack_size = 0 in 0..=16;
    /// 1: sequentially inferable jumps are recognised.
    sijump = 0 in 0..=1;

    /// Comparators.
    comparators = 1 in 0..=8;
    /// Filters.
    filters = 1 in 0..=16;
    /// Bits of the cause that a filter looks at.
    ecause_choice = 5 in 0..=8;
    /// 1: filters can look at the context.
    filter_context = 1 in 0..=1;
    /// 1: filters can look at the time.
    filter_time = 1 in 0..=1;
    /// 2^n nested traps are counted by filters.
    filter_excint = 1 in 0..=16;
    /// 1: filters can look at the privilege.
    filter_privilege = 1 in 0..=1;
    /// 1: filters can look at tval.
    filter_tval = 1 in 0..=1;

    /// Bits of ctype at the ingress port.
    ctype_width = 1 in 0..=2;
    /// Bits of ilastsize at the ingress port.
    ilastsize_width = 1 in 0..=2;
    /// Bits of itype at the ingress port.
    itype_width = 4 in 3..=4;
    /// Bits of iretire at the ingress port.
    iretire_width = 2 in 0..=32;
    /// Instructions that may retire in one block.
    retires = 1 in 0..=255;
    /// Taken branches that one cycle may report.
    taken_branches = 1 in 0..=255;
    /// Block groups of the ingress port.
    blocks = 1 in 0..=16;
    /// Bits of impdef at the ingress port.
    impdef_width = 1 in 0..=64;

    /// Bits of a data address.
    daddress_width = 32 in 0..=64;
    /// Bits of dblock.
    dblock_width = 1 in 0..=8;
    /// Bits of data.
    data_width = 32 in 0..=128;
    /// Bits of dsize.
    dsize_width = 3 in 0..=4;
    /// Bits of dtype: 1 loads and stores, 3 with CSRs, 4 with atomics.
    dtype_width = 1 in 0..=4;
    /// Bits of iaddr_lsbs.
    iaddr_lsbs_width = 1 in 0..=64;
    /// Bits of the number that joins a split request and its response.
    lrid_width = 1 in 0..=16;
    /// Bits of lresp.
    lresp_width = 1 in 0..=2;
    /// Bits of load data in the split form.
    ldata_width = 32 in 0..=128;
    /// Bits of store data in the split form.
    sdata_width = 32 in 0..=128;
    /// 1: loads and atomics are split into requests and responses.
    data_split = 0 in 0..=1;
    /// Bits of `diff` in data packets without an address: 2 where data can be compressed in two ways.
    data_diff_width = 2 in 1..=2;
    /// 1: the draft Multi-Memory-Access/CAS extension of data trace.
    mmacas_ext = 0 in 0..=1;
}

impl Params {
    /// Bits of an address field: `iaddress_width - iaddress_lsb`.
    #[inline]
    pub const fn address_bits(&self) -> u8 {
        self.iaddress_width.saturating_sub(self.iaddress_lsb)
    }

    /// An address cut to the width of addresses.
    #[inline]
    pub const fn wrap(&self, address: u64) -> u64 {
        if self.iaddress_width >= 64 { address } else { address & ((1 << self.iaddress_width) - 1) }
    }

    /// Bits of the time field.
    #[inline]
    pub const fn time_bits(&self) -> u8 {
        if self.notime != 0 { 0 } else { self.time_width }
    }

    /// Bits of the context field.
    #[inline]
    pub const fn context_bits(&self) -> u8 {
        if self.nocontext != 0 { 0 } else { self.context_width }
    }

    /// Bits of irdepth or irets.
    #[inline]
    pub const fn irdepth_bits(&self) -> u8 {
        match self.implicit_return {
            ImplicitReturn::Returns => 8,
            ImplicitReturn::Depth => {
                self.return_stack_size + (self.return_stack_size > 0) as u8 + self.call_counter_size
            }
        }
    }

    /// Most bytes that the payload of a packet of any parameters can have.
    pub const MOST_PAYLOAD: usize = 48;

    /// Most bytes that the payload of a packet can have before it is compressed.
    pub const fn longest_payload(&self) -> usize {
        let [address, returns, subformat] = [self.address_bits(), self.irdepth_bits(), self.f0s_width];
        // The encoder for CVA6 adds one bit to every address.
        let reported = address as usize + 1 + 3 + returns as usize;
        let context =
            5 + self.privilege_width as usize + self.time_bits() as usize + self.context_bits() as usize;
        let bits = [
            2 + subformat as usize + 32 + 2 + reported,
            2 + subformat as usize + self.cache_size as usize + 5 + 31 + 1 + returns as usize,
            2 + 5 + 31 + reported,
            context + self.ecause_width as usize + 2 + address as usize + 1 + self.iaddress_width as usize,
            40,
        ];
        let (mut most, mut index) = (0, 0);
        while index < bits.len() {
            if bits[index] > most {
                most = bits[index];
            }
            index += 1;
        }
        most.div_ceil(8)
    }

    /// Checks every value against its range, and those that depend on each other.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let out = |(name, low, high)| match { *self }.field(name) {
            Some((value, ..)) if !(low..=high).contains(value) => {
                Some(ParamsError::OutOfRange { name, value: *value, low, high })
            }
            _ => None,
        };
        if let Some(error) = Self::limits().find_map(out) {
            return Err(error);
        }
        if self.bpred_size > 0 && self.cache_size > 0 && self.f0s_width == 0 {
            return Err(ParamsError::SubformatMissing);
        }
        Ok(())
    }
}

/// Parameters that no encoder can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamsError {
    /// A value is out of its range.
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u8,
        /// Least value.
        low: u8,
        /// Greatest value.
        high: u8,
    },
    /// Predictor and cache exist, so that format 0 needs a subformat, but `f0s_width` is 0.
    SubformatMissing,
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { name, value, low, high } => {
                write!(f, "{name} is {value}, expected {low} to {high}")
            }
            Self::SubformatMissing => {
                f.write_str("bpred_size and cache_size are both set: f0s_width must be at least 1")
            }
        }
    }
}

impl core::error::Error for ParamsError {}

/// What software may switch while the encoder runs. Support packets announce it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Targets of returns that a return stack predicts are not sent.
    pub implicit_return: bool,
    /// Addresses of trap handlers are not sent.
    pub implicit_exception: bool,
    /// Addresses are absolute, not differences.
    pub full_address: bool,
    /// Targets found in the jump target cache are sent as an index.
    pub jump_target_cache: bool,
    /// Correctly predicted branches are counted.
    pub branch_prediction: bool,
    /// A jump through a register that the instruction before set to a constant is not sent.
    pub sijump: bool,
    /// There is no periodic resynchronisation: tables survive sync packets (draft).
    pub resync_disabled: bool,
}

impl Options {
    /// The option bits in the order of the reference model.
    pub const fn bits(&self) -> u64 {
        self.implicit_return as u64
            | (self.implicit_exception as u64) << 1
            | (self.full_address as u64) << 2
            | (self.jump_target_cache as u64) << 3
            | (self.branch_prediction as u64) << 4
    }
}

impl DataOptions {
    /// The option bits in the order of the reference model.
    pub const fn bits(&self) -> u64 {
        self.no_address as u64
            | (self.no_data as u64) << 1
            | (self.full_address as u64) << 2
            | (self.full_data as u64) << 3
    }
}

/// What software may switch in data trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataOptions {
    /// Addresses are left out.
    pub no_address: bool,
    /// Data is left out.
    pub no_data: bool,
    /// Addresses are absolute.
    pub full_address: bool,
    /// Data is not compressed.
    pub full_data: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cva6;

    #[test]
    fn defaults_are_valid_and_those_of_the_discovery_table() {
        let params = Params::default();
        assert_eq!(params.validate(), Ok(()));
        assert_eq!((params.iaddress_width, params.iaddress_lsb, params.ecause_width), (32, 1, 4));
        assert_eq!((params.context_bits(), params.time_bits(), params.irdepth_bits()), (0, 0, 0));
        assert_eq!(cva6::params().validate(), Ok(()));
    }

    #[test]
    fn impossible_parameters_are_named() {
        let both = Params { bpred_size: 4, cache_size: 4, ..Params::default() };
        assert_eq!(both.validate(), Err(ParamsError::SubformatMissing));
        let wide = Params { iaddress_width: 65, ..Params::default() };
        assert!(matches!(wide.validate(), Err(ParamsError::OutOfRange { name: "iaddress_width", .. })));
    }

    #[test]
    fn depth_has_a_bit_more_than_the_stack_needs() {
        let params = Params { return_stack_size: 3, call_counter_size: 2, ..Params::default() };
        assert_eq!(params.irdepth_bits(), 6);
        assert_eq!(Params { implicit_return: ImplicitReturn::Returns, ..params }.irdepth_bits(), 8);
    }
}
