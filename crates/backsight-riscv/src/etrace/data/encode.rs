//! From data packets to payload bytes.

use super::super::{BitWriter, Payload};
use super::layout::{Form, Layout, bits_of, extend};
use super::{AccessPacket, Coding, DataCoding, Packet, ResponsePacket};

impl Packet {
    /// Encodes the packet; `None` if the layout has no such packet. Fields are cut to their widths.
    pub fn encode(&self, layout: &Layout) -> Option<Payload> {
        let mut fields = DataFieldWriter { bits: BitWriter::new(), layout };
        match self {
            Self::Access(access) => fields.access(access)?,
            Self::Response(response) => fields.response(response)?,
        }
        Some(fields.bits.finish())
    }
}

struct DataFieldWriter<'a> {
    bits: BitWriter,
    layout: &'a Layout,
}

impl DataFieldWriter<'_> {
    fn access(&mut self, access: &AccessPacket) -> Option<()> {
        let csr = access.address.unwrap_or(0);
        let form = self.layout.form(access.dtype, access.lrid.is_some(), csr)?;
        if form.lrid && !self.layout.is_split() {
            return None;
        }
        self.format(access)?;
        if access.dtype.is_csr() {
            return self.csr(access, &form, csr);
        }
        self.bits.put(access.size.into(), self.layout.size_width());
        if let Some(lrid) = access.lrid {
            self.bits.put(lrid.into(), self.layout.lrid_width);
        }
        self.diff(access.coding, &form)?;
        if form.operand {
            self.value(access.operand?, access.size, form.data || form.address);
        }
        if form.data {
            self.value(access.data?, access.size, form.address);
        }
        if form.address {
            self.bits.put(access.address?, self.layout.address_width);
        }
        Some(())
    }

    fn format(&mut self, access: &AccessPacket) -> Option<()> {
        let (layout, code) = (self.layout, access.dtype as u8);
        let plain = (code << 1) | u8::from(!access.aligned);
        let width = layout.format_width();
        if access.multiple && !(access.dtype.is_plain() && layout.has_multiple()) {
            return None;
        }
        match (layout.draft, access.dtype.is_plain()) {
            (true, true) => {
                self.bits.put(access.multiple.into(), width);
                self.bits.put(plain.into(), 2);
            }
            (true, false) if width == 2 => {
                self.bits.put(2, width);
                self.bits.put(code.into(), 4);
            }
            (false, true) => self.bits.put(plain.into(), width),
            (false, false) if width == 3 => {
                let csr = access.dtype.is_csr();
                self.bits.put(if csr { 5 } else { 6 }, width);
                self.bits.put(u64::from(code & 7), if csr { 2 } else { 3 });
            }
            _ => return None,
        }
        Some(())
    }

    /// `diff` of an access that has an address, data, or both.
    fn diff(&mut self, coding: Coding, form: &Form) -> Option<()> {
        let value = match (form.address, form.data || form.operand) {
            (true, false) => coding.differential_address.into(),
            (false, _) => data_diff(coding.data, form.diff_width)?,
            (true, true) => match (coding.differential_address, coding.data) {
                (false, DataCoding::Full) => 0,
                (false, _) => return None,
                (true, DataCoding::Xor) => 1,
                (true, DataCoding::Full) => 2,
                (true, DataCoding::Differential) => 3,
            },
        };
        self.bits.put(value, form.diff_width);
        Some(())
    }

    /// A value after its length; the last field of a packet needs none.
    fn value(&mut self, value: u128, size: u8, more_follows: bool) {
        let value = extend(value, bits_of(size));
        if more_follows {
            let bytes = bytes_needed(value);
            self.bits.put(u64::from(bytes - 1), size);
            self.wide(value, bytes * 8);
        } else {
            self.wide(value, self.layout.data_width);
        }
    }

    fn wide(&mut self, value: u128, width: u8) {
        self.bits.put(value as u64, width.min(64));
        self.bits.put((value >> 64) as u64, width.saturating_sub(64));
    }

    fn csr(&mut self, access: &AccessPacket, form: &Form, csr: u64) -> Option<()> {
        let size = self.layout.csr_size();
        self.bits.put(data_diff(access.coding.data, form.diff_width)?, form.diff_width);
        if form.data {
            self.value(access.data?, size, true);
        }
        self.bits.put(csr >> 6, 6);
        if form.operand {
            self.value(access.operand?, size, true);
        }
        self.bits.put(csr, 6);
        Some(())
    }

    fn response(&mut self, response: &ResponsePacket) -> Option<()> {
        let layout = self.layout;
        if !layout.is_split() {
            return None;
        }
        let sized = layout.draft || !response.atomic;
        match layout.draft {
            true => self.bits.put(3, 2),
            false => self.bits.put(if response.atomic { 7 } else { 4 }, 3),
        }
        if sized {
            self.bits.put(response.size.into(), layout.size_width());
        }
        self.bits.put(response.lrid.into(), layout.lrid_width);
        let Some((coding, data)) = response.data else {
            self.bits.put(0, 2);
            return Some(());
        };
        self.bits.put(
            match coding {
                DataCoding::Xor => 1,
                DataCoding::Full => 2,
                DataCoding::Differential => 3,
            },
            2,
        );
        self.value(data, response.size, !sized);
        Some(())
    }
}

/// `diff` about data alone: one bit distinguishes only full and differential.
fn data_diff(coding: DataCoding, width: u8) -> Option<u64> {
    match (coding, width) {
        (DataCoding::Full, _) => Some(0),
        (DataCoding::Differential, 1) => Some(1),
        (DataCoding::Xor, 2) => Some(1),
        (DataCoding::Differential, 2) => Some(3),
        _ => None,
    }
}

/// Bytes that a value needs if its sign is repeated: 1 to 16.
fn bytes_needed(value: u128) -> u8 {
    let significant = 129 - (value ^ ((value as i128) >> 127) as u128).leading_zeros();
    significant.div_ceil(8) as u8
}

/// The packet that needs the fewest bytes, of those that can be encoded.
pub(super) fn shortest(
    candidates: impl Iterator<Item = Packet>,
    layout: &Layout,
) -> Option<(Packet, Payload)> {
    candidates
        .filter_map(|packet| packet.encode(layout).map(|payload| (packet, payload)))
        .min_by_key(|(_, payload)| payload.len())
}
