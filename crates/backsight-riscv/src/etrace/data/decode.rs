//! From payload bytes to data packets.

use core::fmt;

use super::super::BitReader;
use super::layout::{Form, Layout, cut, extend};
use super::{AccessPacket, Coding, DataCoding, Packet, ResponsePacket};
use crate::ingress::Dtype;

/// Why a payload is not a data packet, or cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadData {
    /// There are no bytes.
    Empty,
    /// More bytes than the fields take: parameters are wrong, or bytes were damaged.
    TooLong,
    /// A format, subformat or subtype without a meaning.
    ReservedFormat,
    /// A value of `diff` without a meaning.
    ReservedDiff,
    /// More bytes than data has room for.
    Size(u8),
    /// A response to a request that was not seen.
    UnknownRequest(u16),
    /// A difference to an access that was not seen.
    NoReference,
}

impl fmt::Display for BadData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            Self::Size(size) => write!(f, " (2^{size} bytes)"),
            Self::UnknownRequest(lrid) => write!(f, " (number {lrid})"),
            _ => Ok(()),
        }
    }
}

impl BadData {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "empty payload",
            Self::TooLong => "payload longer than its fields",
            Self::ReservedFormat => "reserved format of a data packet",
            Self::ReservedDiff => "reserved value of diff",
            Self::Size(_) => "an access that is wider than data",
            Self::UnknownRequest(_) => "a response without a request",
            Self::NoReference => "a difference to an access that was not seen",
        }
    }

    /// Is it the packets before that are missing, not the payload that is wrong?
    pub const fn is_unresolved(self) -> bool {
        matches!(self, Self::UnknownRequest(_) | Self::NoReference)
    }
}

impl core::error::Error for BadData {}

impl Packet {
    /// Decodes one payload. `size_of` gives the size of an atomic request, which its response leaves out.
    pub fn decode(
        payload: &[u8],
        layout: &Layout,
        size_of: impl Fn(u16) -> Option<u8>,
    ) -> Result<Self, BadData> {
        if payload.is_empty() {
            return Err(BadData::Empty);
        }
        let mut fields = DataFieldReader { bits: BitReader::new(payload), layout };
        let packet = fields.packet(size_of)?;
        if fields.bits.unused() > 7 { Err(BadData::TooLong) } else { Ok(packet) }
    }
}

struct DataFieldReader<'a> {
    bits: BitReader<'a>,
    layout: &'a Layout,
}

impl DataFieldReader<'_> {
    fn packet(&mut self, size_of: impl Fn(u16) -> Option<u8>) -> Result<Packet, BadData> {
        let format = self.bits.take(self.layout.format_width()) as u8;
        if self.layout.draft {
            return match format {
                0 | 1 => {
                    let plain = self.bits.take(2) as u8;
                    self.plain(plain, format == 1)
                }
                2 => {
                    let code = self.bits.take(4) as u8;
                    let dtype = Dtype::from_code(code).filter(|dtype| !dtype.is_plain());
                    self.access(dtype.ok_or(BadData::ReservedFormat)?)
                }
                _ => self.response(false, &size_of),
            };
        }
        match format {
            0..=3 => self.plain(format, false),
            5 => {
                let dtype = Dtype::from_code(self.bits.take(2) as u8 + 4).filter(|dtype| dtype.is_csr());
                self.access(dtype.ok_or(BadData::ReservedFormat)?)
            }
            6 => {
                let dtype = Dtype::from_code(self.bits.take(3) as u8 + 8);
                self.access(dtype.ok_or(BadData::ReservedFormat)?)
            }
            4 => self.response(false, &size_of),
            _ => self.response(true, &size_of),
        }
    }

    fn plain(&mut self, code: u8, multiple: bool) -> Result<Packet, BadData> {
        let dtype = if code & 2 == 0 { Dtype::Load } else { Dtype::Store };
        let aligned = code & 1 == 0;
        self.fields_of(AccessPacket { dtype, multiple, aligned, ..AccessPacket::default() })
    }

    fn access(&mut self, dtype: Dtype) -> Result<Packet, BadData> {
        let access = AccessPacket { dtype, aligned: true, ..AccessPacket::default() };
        if dtype.is_csr() { self.csr(access) } else { self.fields_of(access) }
    }

    fn size(&mut self) -> Result<u8, BadData> {
        let size = self.bits.take(self.layout.size_width()) as u8;
        if size > self.layout.largest_size() { Err(BadData::Size(size)) } else { Ok(size) }
    }

    fn fields_of(&mut self, mut access: AccessPacket) -> Result<Packet, BadData> {
        let has_response =
            !matches!(access.dtype, Dtype::Store | Dtype::CasFailure | Dtype::ConditionalStoreFailure);
        let request = has_response && self.layout.is_split();
        let form = self.layout.form(access.dtype, request, 0).ok_or(BadData::ReservedFormat)?;
        access.size = self.size()?;
        access.lrid = form.lrid.then(|| self.bits.take(self.layout.lrid_width) as u16);
        access.coding = self.diff(&form)?;
        if form.operand {
            access.operand = Some(self.value(access.size, form.data || form.address));
        }
        if form.data {
            access.data = Some(self.value(access.size, form.address));
        }
        access.address = form.address.then(|| self.bits.take(self.layout.address_width));
        Ok(Packet::Access(access))
    }

    fn diff(&mut self, form: &Form) -> Result<Coding, BadData> {
        let value = self.bits.take(form.diff_width);
        let coding = |differential_address, data| Coding { differential_address, data };
        let coding = match (form.address, form.data || form.operand) {
            (true, false) => coding(value != 0, DataCoding::Full),
            (false, _) => coding(false, data_coding(value, form.diff_width)?),
            (true, true) => match value {
                0 => coding(false, DataCoding::Full),
                1 => coding(true, DataCoding::Xor),
                2 => coding(true, DataCoding::Full),
                _ => coding(true, DataCoding::Differential),
            },
        };
        // Operands are sent in full: without data there is nothing else to code.
        if !form.data && coding.data != DataCoding::Full {
            return Err(BadData::ReservedDiff);
        }
        Ok(coding)
    }

    fn value(&mut self, size: u8, more_follows: bool) -> u128 {
        let width = match more_follows {
            true => (self.bits.take(size) as u8 + 1) * 8,
            false => self.layout.data_width,
        };
        let low = u128::from(self.bits.take(width.min(64)));
        let value = low | u128::from(self.bits.take(width.saturating_sub(64))) << 64;
        cut(extend(value, width.into()), size)
    }

    fn csr(&mut self, mut access: AccessPacket) -> Result<Packet, BadData> {
        let size = self.layout.csr_size();
        access.size = size;
        let form = self.layout.form(access.dtype, false, 0).ok_or(BadData::ReservedFormat)?;
        let diff = self.bits.take(form.diff_width);
        if form.data {
            access.coding.data = data_coding(diff, form.diff_width)?;
            access.data = Some(self.value(size, true));
        } else if diff != 0 {
            return Err(BadData::ReservedDiff);
        }
        let high = self.bits.take(6) << 6;
        let form = self.layout.form(access.dtype, false, high).ok_or(BadData::ReservedFormat)?;
        if form.operand {
            access.operand = Some(self.value(size, true));
        }
        access.address = Some(high | self.bits.take(6));
        Ok(Packet::Access(access))
    }

    fn response(&mut self, atomic: bool, size_of: &impl Fn(u16) -> Option<u8>) -> Result<Packet, BadData> {
        if !self.layout.is_split() {
            return Err(BadData::ReservedFormat);
        }
        let sent = if atomic { None } else { Some(self.size()?) };
        let lrid = self.bits.take(self.layout.lrid_width) as u16;
        let size = sent.or_else(|| size_of(lrid)).ok_or(BadData::UnknownRequest(lrid))?;
        let coding = match self.bits.take(2) {
            0 => None,
            1 => Some(DataCoding::Xor),
            2 => Some(DataCoding::Full),
            _ => Some(DataCoding::Differential),
        };
        let data = coding.map(|coding| (coding, self.value(size, atomic)));
        Ok(Packet::Response(ResponsePacket { atomic, size, lrid, data }))
    }
}

fn data_coding(value: u64, width: u8) -> Result<DataCoding, BadData> {
    match (value, width) {
        (0, _) => Ok(DataCoding::Full),
        (1, 1) | (3, 2) => Ok(DataCoding::Differential),
        (1, 2) => Ok(DataCoding::Xor),
        _ => Err(BadData::ReservedDiff),
    }
}
