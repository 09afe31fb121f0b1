//! How the fields of a payload are read and written. Dialects code addresses in ways of their own.

use super::{BitReader, BitWriter, Params, Reported};

/// Reads the fields of a string of bits that goes on for ever: beyond the end the last bit repeats.
pub(crate) trait FieldReader {
    /// The next `width` bits (at most 64).
    fn take(&mut self, width: u8) -> u64;

    /// Number of received bits that were not taken.
    fn unused(&self) -> usize;

    /// One bit.
    #[inline]
    fn flag(&mut self) -> bool {
        self.take(1) != 0
    }

    /// An address that `_following` bits follow.
    #[inline]
    fn address(&mut self, _following: usize, params: &Params) -> u64 {
        self.take(params.address_bits())
    }

    /// An address with the flags after it.
    #[inline]
    fn reported(&mut self, params: &Params) -> Reported {
        let address = self.take(params.address_bits());
        let sign = address >> (params.address_bits().max(1) - 1) & 1;
        self.flags(address, sign, params)
    }

    /// The flags after an address. Each is sent as whether it differs from the bit before it.
    #[inline]
    fn flags(&mut self, address: u64, before: u64, params: &Params) -> Reported {
        let sent = self.take(3);
        let flags = sent ^ (sent << 1 | before);
        let returns = self.take(params.irdepth_bits()) as u32;
        Reported {
            address,
            notify: flags & 1 != 0,
            updiscon: flags & 2 != 0,
            irreport: (flags & 4 != 0).then_some(returns),
        }
    }
}

impl FieldReader for BitReader<'_> {
    #[inline]
    fn take(&mut self, width: u8) -> u64 {
        self.take(width)
    }

    #[inline]
    fn unused(&self) -> usize {
        self.unused()
    }
}

/// Writes fields.
pub(crate) trait FieldWriter {
    /// The low `width` bits (at most 64) of `value`.
    fn put(&mut self, value: u64, width: u8);

    /// A bit each.
    fn flags<const N: usize>(&mut self, flags: [bool; N]) {
        for flag in flags {
            self.put(flag.into(), 1);
        }
    }

    /// An address.
    fn address(&mut self, address: u64, params: &Params);

    /// An address with the flags after it.
    fn reported(&mut self, reported: &Reported, params: &Params);
}

impl FieldWriter for BitWriter {
    #[inline]
    fn put(&mut self, value: u64, width: u8) {
        self.put(value, width);
    }

    #[inline]
    fn address(&mut self, address: u64, params: &Params) {
        self.put(address, params.address_bits());
    }

    #[inline]
    fn reported(&mut self, reported: &Reported, params: &Params) {
        self.address(reported.address, params);
        let notify = reported.notify != self.top();
        let updiscon = reported.updiscon != notify;
        self.flags([notify, updiscon]);
        self.irreport(reported.irreport, params);
    }
}
