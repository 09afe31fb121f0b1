//! Which fields a packet has, and how wide they are.

use super::super::{DataOptions, Params};
use crate::ingress::Dtype;

/// What parameters and options make of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) address_width: u8,
    pub(super) data_width: u8,
    pub(super) dtype_width: u8,
    pub(super) lrid_width: u8,
    /// Bits of `diff` where there is data and no address.
    pub(super) diff_width: u8,
    pub(super) draft: bool,
    pub(super) options: DataOptions,
    split: bool,
}

/// Which fields an access has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub lrid: bool,
    pub operand: bool,
    pub data: bool,
    pub address: bool,
    pub diff_width: u8,
}

impl Layout {
    /// The layout of these parameters, while these options are in force.
    pub fn new(params: &Params, options: &DataOptions) -> Self {
        Self {
            address_width: params.daddress_width.clamp(1, 64),
            data_width: params.data_width.clamp(8, 128),
            dtype_width: params.dtype_width.max(1),
            lrid_width: params.lrid_width.min(16),
            diff_width: params.data_diff_width.clamp(1, 2),
            draft: params.mmacas_ext != 0,
            options: *options,
            split: params.data_split != 0,
        }
    }

    /// Are loads and atomics sent as request and response? Only where both address and data are sent.
    pub const fn is_split(&self) -> bool {
        self.split && !self.options.no_address && !self.options.no_data
    }

    /// Bits of the size: `max(1, clog2(clog2(data_width / 8 + 1)))`.
    pub(super) const fn size_width(&self) -> u8 {
        match self.data_width {
            ..=31 => 1,
            32..=127 => 2,
            _ => 3,
        }
    }

    /// The greatest size that data has room for.
    pub const fn largest_size(&self) -> u8 {
        (self.data_width / 8).ilog2() as u8
    }

    /// CSRs have 32 or 64 bits.
    pub const fn csr_size(&self) -> u8 {
        if self.data_width >= 64 { 3 } else { 2 }
    }

    /// Bits of the format.
    pub(super) const fn format_width(&self) -> u8 {
        match (self.draft, self.dtype_width, self.split) {
            (false, 1, false) => 2,
            (false, ..) => 3,
            (true, 1, false) => 0,
            (true, 2, false) => 1,
            (true, ..) => 2,
        }
    }

    /// Can one packet be marked as one of several accesses?
    pub const fn has_multiple(&self) -> bool {
        self.draft && self.format_width() > 0
    }

    /// The fields of an access, or `None` if there is no packet for it. `address` is that of a CSR.
    pub(super) fn form(&self, dtype: Dtype, request: bool, address: u64) -> Option<Form> {
        let DataOptions { no_address, no_data, .. } = self.options;
        if no_address && no_data && !dtype.is_csr() {
            return None;
        }
        let (with_address, with_data) = (!no_address, !no_data);
        let form = |operand: bool, data: bool, address: bool| Form {
            lrid: request,
            operand,
            data,
            address,
            diff_width: match (address, operand || data) {
                (true, true) => 2,
                (true, false) => 1,
                (false, _) => self.diff_width,
            },
        };
        Some(match dtype {
            Dtype::Load => form(false, with_data && !request, with_address),
            Dtype::Store => form(false, with_data, with_address),
            // Their address is always sent, and never compressed: `diff` is about the data alone.
            _ if dtype.is_csr() => Form {
                diff_width: if no_data { self.diff_width - 1 } else { self.diff_width },
                ..form(with_data && !is_read_only(address), with_data, true)
            },
            Dtype::CasFailure if self.draft => form(with_data, false, with_address),
            // Ratified packets have no code for it but in the form without data.
            Dtype::ConditionalStoreFailure if with_address && (self.draft || no_data) => {
                form(false, false, true)
            }
            Dtype::CasFailure | Dtype::ConditionalStoreFailure => return None,
            _ => form(with_data, with_data && !request, with_address),
        })
    }
}

/// CSRs whose number begins with 3 cannot be written: there is no operand.
pub(super) const fn is_read_only(csr: u64) -> bool {
    csr >> 10 & 3 == 3
}

/// Bits of an access of that size.
pub(super) const fn bits_of(size: u8) -> u32 {
    8 << size
}

/// The low bits of a value that an access of that size has.
pub(super) const fn cut(value: u128, size: u8) -> u128 {
    let unused = 128u32.saturating_sub(bits_of(size));
    value << unused >> unused
}

/// The value with its sign repeated.
pub(super) const fn extend(value: u128, bits: u32) -> u128 {
    let unused = 128u32.saturating_sub(bits);
    ((value << unused) as i128 >> unused) as u128
}
