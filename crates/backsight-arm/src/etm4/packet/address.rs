//! Addresses, and the source addresses of ETE.
//!
//! ```text
//! header        payload: byte 0   byte 1        bytes 2 …
//! exact QE      –                                                 entry QE of the address history
//! short IS0     C, A[8:2]         A[16:9] if C                    the rest from the newest address
//! short IS1     C, A[7:1]         A[15:8] if C
//! long  IS0     0, A[8:2]         0, A[15:9]    A[23:16] …        32 bits: two bytes more; 64 bits: six
//! long  IS1     0, A[7:1]         A[15:8]       A[23:16] …
//! ```
//!
//! A 32-bit address keeps the upper half of the newest one in AArch64 state, and has none in AArch32 state. Every
//! address, exact matches included, becomes the newest of the history.

use backsight_core::{Address, Field, Text, Value};

use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::{PacketWriter, within};
use crate::etm4::state::StreamState;
use crate::etm4::{EncodeError, Encoder, Kind};

/// Instruction set flag of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Is {
    /// 4-byte aligned: A64 or A32.
    #[default]
    Is0,
    /// 2-byte aligned: T32.
    Is1,
}

impl Is {
    /// Zero bits at the bottom of an address.
    const fn alignment(self) -> u32 {
        match self {
            Self::Is0 => 2,
            Self::Is1 => 1,
        }
    }
}

/// How an address was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressForm {
    /// The same as entry 0, 1 or 2 of the address history.
    Exact(u8),
    /// Low 9 (IS0) or 8 (IS1) bits, one byte.
    Short1,
    /// Low 17 (IS0) or 16 (IS1) bits, two bytes.
    Short2,
    /// Low 32 bits.
    Long32,
    /// All bits.
    Long64,
}

/// An address as a packet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPacket {
    /// The address, all of its bits.
    pub address: Address,
    /// Its instruction set flag.
    pub is: Is,
    /// How it was written.
    pub form: AddressForm,
}

/// The kinds of one family of packets with an address; of each pair, that of IS0 and that of IS1.
pub(super) struct AddressKinds {
    pub exact: Kind,
    pub short: [Kind; 2],
    pub long32: [Kind; 2],
    pub long64: [Kind; 2],
}

pub(super) const ADDRESS: AddressKinds = AddressKinds {
    exact: Kind::AddressExact,
    short: [Kind::AddressShortIs0, Kind::AddressShortIs1],
    long32: [Kind::Address32Is0, Kind::Address32Is1],
    long64: [Kind::Address64Is0, Kind::Address64Is1],
};

pub(super) const SOURCE: AddressKinds = AddressKinds {
    exact: Kind::SourceExact,
    short: [Kind::SourceShortIs0, Kind::SourceShortIs1],
    long32: [Kind::Source32Is0, Kind::Source32Is1],
    long64: [Kind::Source64Is0, Kind::Source64Is1],
};

impl AddressKinds {
    /// The kind of packet that an address of this form is.
    #[inline]
    pub const fn of(&self, address: &AddressPacket) -> Kind {
        let is = address.is as usize;
        match address.form {
            AddressForm::Exact(_) => self.exact,
            AddressForm::Short1 | AddressForm::Short2 => self.short[is],
            AddressForm::Long32 => self.long32[is],
            AddressForm::Long64 => self.long64[is],
        }
    }
}

/// Reads an Address or a Source Address.
#[inline]
pub(super) fn read(
    kind: Kind,
    field: u8,
    payload: &mut PayloadReader<'_>,
    state: &mut StreamState,
) -> Result<AddressPacket, Stop> {
    let sent = match kind {
        Kind::AddressShortIs0 | Kind::SourceShortIs0 => SentBits::short(payload, Is::Is0)?,
        Kind::AddressShortIs1 | Kind::SourceShortIs1 => SentBits::short(payload, Is::Is1)?,
        Kind::Address32Is0 | Kind::Source32Is0 => SentBits::long32(payload, Is::Is0)?,
        Kind::Address32Is1 | Kind::Source32Is1 => SentBits::long32(payload, Is::Is1)?,
        Kind::Address64Is0 | Kind::Source64Is0 => SentBits::long64(payload, Is::Is0)?,
        Kind::Address64Is1 | Kind::Source64Is1 => SentBits::long64(payload, Is::Is1)?,
        _ => return Ok(exact(field, state)),
    };
    Ok(sent.complete(state))
}

/// Exact matches become the newest too: index 0 makes the newest address the second newest as well.
#[inline]
pub(super) fn exact(index: u8, state: &mut StreamState) -> AddressPacket {
    let (address, is) = state.history.entry(index);
    state.history.push(address, is);
    AddressPacket { address, is, form: AddressForm::Exact(index) }
}

/// Address bits as a payload has them.
pub(super) struct SentBits {
    value: u64,
    bits: u32,
    is: Is,
    form: AddressForm,
}

impl SentBits {
    #[inline]
    pub fn short(payload: &mut PayloadReader<'_>, is: Is) -> Result<Self, Stop> {
        let shift = is.alignment();
        let first = payload.byte()?;
        let value = u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Ok(Self { value, bits: 7 + shift, is, form: AddressForm::Short1 });
        }
        let value = value | u64::from(payload.byte()?) << (7 + shift);
        Ok(Self { value, bits: 15 + shift, is, form: AddressForm::Short2 })
    }

    #[inline]
    pub fn long32(payload: &mut PayloadReader<'_>, is: Is) -> Result<Self, Stop> {
        let raw = u32::from_le_bytes(payload.array()?);
        Ok(Self { value: close_gaps(raw.into(), is), bits: 32, is, form: AddressForm::Long32 })
    }

    #[inline]
    pub fn long64(payload: &mut PayloadReader<'_>, is: Is) -> Result<Self, Stop> {
        let raw = u64::from_le_bytes(payload.array()?);
        Ok(Self { value: close_gaps(raw, is), bits: 64, is, form: AddressForm::Long64 })
    }

    /// Adds the bits that were not sent. The address becomes the newest of the history.
    #[inline]
    pub fn complete(self, state: &mut StreamState) -> AddressPacket {
        let Self { value, bits, is, form } = self;
        let address = match form {
            AddressForm::Long32 if !state.wide => Address(value),
            _ => state.history.merge(value, bits),
        };
        state.history.push(address, is);
        AddressPacket { address, is, form }
    }
}

/// Long addresses have bit 7 of their first byte (IS0: of the first two) unused: closes the gaps.
#[inline]
const fn close_gaps(raw: u64, is: Is) -> u64 {
    match is {
        Is::Is0 => (raw & 0x7F) << 2 | (raw & 0x7F00) << 1 | raw & !0xFFFF,
        Is::Is1 => (raw & 0x7F) << 1 | raw & !0xFF,
    }
}

impl Encoder {
    /// The shortest form of an address, for an Address or Source Address packet.
    #[inline]
    pub fn compress(&self, address: Address, is: Is) -> AddressPacket {
        self.state.history.compress(address, is, self.state.wide)
    }

    /// The shorter of the two long forms, for an Address with Context packet: it has no others.
    #[inline]
    pub fn compress_long(&self, address: Address, is: Is) -> AddressPacket {
        AddressPacket { address, is, form: self.state.history.long(address, self.state.wide) }
    }
}

impl AddressPacket {
    /// Writes an Address or a Source Address.
    #[inline]
    pub(super) fn write(&self, kinds: &AddressKinds, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let index = match self.form {
            AddressForm::Exact(index) => within(index, 2)?,
            _ => 0,
        };
        self.check(encoder)?;
        encoder.begin_header(kinds.of(self).header() + index)?;
        self.write_bits(&mut encoder.out);
        encoder.state.history.push(self.address, self.is);
        Ok(())
    }

    /// Would a reader get this address from this form?
    #[inline]
    pub(super) fn check(&self, encoder: &Encoder) -> Result<(), EncodeError> {
        let is_expressed = encoder.state.history.expresses(self, encoder.state.wide);
        if is_expressed { Ok(()) } else { Err(EncodeError::Address) }
    }

    /// Writes the bits that the form has.
    #[inline]
    pub(super) fn write_bits(&self, out: &mut PacketWriter) {
        let address = self.address.0;
        let shift = self.is.alignment();
        let low = (address >> shift) as u8 & 0x7F;
        let mut long = address.to_le_bytes();
        long[0] = low;
        if matches!(self.is, Is::Is0) {
            long[1] = (address >> 9) as u8 & 0x7F;
        }
        match self.form {
            AddressForm::Exact(_) => {}
            AddressForm::Short1 => out.byte(low),
            AddressForm::Short2 => out.bytes(&[low | 0x80, (address >> (7 + shift)) as u8]),
            AddressForm::Long32 => out.bytes(&[long[0], long[1], long[2], long[3]]),
            AddressForm::Long64 => out.bytes(&long),
        }
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(Field::new("address", Value::Address(self.address)).text(Text::Plain));
        let text = if self.is == Is::Is1 { Text::Words("IS1") } else { Text::Hidden };
        each(Field::new("is", Value::Decimal(self.is as u64)).text(text));
    }
}
