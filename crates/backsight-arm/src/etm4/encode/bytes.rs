//! The bytes of one packet.

use backsight_core::Security;

use crate::etm4::Context;

use super::super::{AddressForm, Config, Is, MAX_PACKET};
use super::EncodeError;

/// The bytes of the packet that is being written.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    bytes: [u8; MAX_PACKET],
    length: usize,
}

impl Bytes {
    pub const EMPTY: Self = Self { bytes: [0; MAX_PACKET], length: 0 };

    #[inline]
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Begins a packet.
    #[inline]
    pub const fn start(&mut self, header: u8) {
        self.bytes[0] = header;
        self.length = 1;
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.length..self.length + bytes.len()) {
            place.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    /// Seven bits in each byte, lowest first; bit 7 says that the field goes on.
    #[inline]
    pub fn continued(&mut self, mut value: u32) {
        while value > 0x7F {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A timestamp in so many bytes; those bits of the value that they do not hold are left out.
    #[inline]
    pub fn timestamp(&mut self, value: u64, bytes: u8) {
        for index in 0..bytes {
            self.byte(match index {
                8 => (value >> 56) as u8,
                _ => (value >> (7 * index)) as u8 & 0x7F | if index + 1 < bytes { 0x80 } else { 0 },
            });
        }
    }

    #[inline]
    pub fn address(&mut self, address: u64, is: Is, form: AddressForm) {
        let (low, shift) = match is {
            Is::Is0 => ((address >> 2) as u8 & 0x7F, 9),
            Is::Is1 => ((address >> 1) as u8 & 0x7F, 8),
        };
        let mut long = address.to_le_bytes();
        long[0] = low;
        if matches!(is, Is::Is0) {
            long[1] = (address >> 9) as u8 & 0x7F;
        }
        match form {
            AddressForm::Exact(_) => {}
            AddressForm::Short1 => self.byte(low),
            AddressForm::Short2 => self.bytes(&[low | 0x80, (address >> shift) as u8]),
            AddressForm::Long32 => self.bytes(&[long[0], long[1], long[2], long[3]]),
            AddressForm::Long64 => self.bytes(&long),
        }
    }

    /// The information byte, then the VMID and the context ID that there are.
    pub fn context(&mut self, context: &Context, config: &Config) -> Result<(), EncodeError> {
        if context.level > 3 {
            return Err(EncodeError::OutOfRange);
        }
        let security = match context.security {
            Security::Secure => 0,
            Security::NonSecure => 0x20,
            Security::Root => 0x08,
            Security::Realm => 0x28,
        };
        let present = |flag, is: bool| if is { flag } else { 0u8 };
        let info = context.level
            | security
            | present(0x10, context.wide)
            | present(0x40, context.vmid.is_some())
            | present(0x80, context.context_id.is_some());
        self.byte(info);
        self.number(context.vmid, config.vmid_bytes())?;
        self.number(context.context_id, config.context_id_bytes())
    }

    fn number(&mut self, value: Option<u32>, bytes: u8) -> Result<(), EncodeError> {
        let Some(value) = value else { return Ok(()) };
        if bytes < 4 && value >> (8 * bytes) != 0 {
            return Err(EncodeError::OutOfRange);
        }
        self.bytes(value.to_le_bytes().get(..usize::from(bytes)).unwrap_or_default());
        Ok(())
    }
}
