//! Contexts, alone and after an address.
//!
//! ```text
//! Context               P = 0: no payload, the context is unchanged; P = 1: as follows
//! Address with Context  a long address, then as follows
//!
//! information byte:  7   6   5    4    3     2   1:0
//!                    C   V   NS   SF   NSE   0   EL        SF: AArch64 state
//! VMID, if V:        as many bytes as the configuration says    NSE, NS: 00 Secure, 01 Non-secure,
//! context ID, if C:  as many bytes as the configuration says             10 Root, 11 Realm
//! ```

use backsight_core::{Describe, Field, Privilege, Security, Text, Value};

use super::address::{AddressForm, AddressPacket, Is, SentBits};
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::PacketWriter;
use crate::etm4::state::StreamState;
use crate::etm4::{Config, EncodeError, Encoder, Kind, Packet};

/// What a Context packet, or the context part of an Address with Context packet, says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Exception level, 0 to 3.
    pub level: u8,
    /// Security state.
    pub security: Security,
    /// AArch64 state.
    pub wide: bool,
    /// VMID, if the packet has one.
    pub vmid: Option<u32>,
    /// Context ID, if the packet has one.
    pub context_id: Option<u32>,
}

impl From<Context> for backsight_core::Context {
    fn from(context: Context) -> Self {
        Self {
            privilege: Privilege::Arm { level: context.level, security: context.security },
            wide: context.wide,
            vmid: context.vmid,
            context_id: context.context_id.map(u64::from),
        }
    }
}

// Bits of the information byte.
const LEVEL: u8 = 0x03;
const NSE: u8 = 0x08;
const SF: u8 = 0x10;
const NS: u8 = 0x20;
const V: u8 = 0x40;
const C: u8 = 0x80;

/// Reads a Context.
pub(super) fn read(
    field: u8,
    payload: &mut PayloadReader<'_>,
    config: &Config,
    state: &mut StreamState,
) -> Result<Packet, Stop> {
    let is_present = field == 1;
    if !is_present {
        return Ok(Packet::Context(None));
    }
    let context = Context::read(payload, config)?;
    state.wide = context.wide;
    Ok(Packet::Context(Some(context)))
}

/// Reads an Address with Context. The address was compressed before the context changed.
pub(super) fn read_with_address(
    kind: Kind,
    payload: &mut PayloadReader<'_>,
    config: &Config,
    state: &mut StreamState,
) -> Result<Packet, Stop> {
    let sent = match kind {
        Kind::AddressContext32Is0 => SentBits::long32(payload, Is::Is0)?,
        Kind::AddressContext32Is1 => SentBits::long32(payload, Is::Is1)?,
        Kind::AddressContext64Is0 => SentBits::long64(payload, Is::Is0)?,
        _ => SentBits::long64(payload, Is::Is1)?,
    };
    let context = Context::read(payload, config)?;
    let address = sent.complete(state);
    state.wide = context.wide;
    Ok(Packet::AddressContext(address, context))
}

/// Writes a Context.
pub(super) fn write(context: Option<&Context>, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::Context, u8::from(context.is_some()))?;
    if let Some(context) = context {
        context.write(&encoder.config, &mut encoder.out)?;
        encoder.state.wide = context.wide;
    }
    Ok(())
}

/// Writes an Address with Context.
pub(super) fn write_with_address(
    address: &AddressPacket,
    context: &Context,
    encoder: &mut Encoder,
) -> Result<(), EncodeError> {
    if !matches!(address.form, AddressForm::Long32 | AddressForm::Long64) {
        return Err(EncodeError::Address);
    }
    address.check(encoder)?;
    encoder.begin(kind_with_address(address), 0)?;
    address.write_bits(&mut encoder.out);
    context.write(&encoder.config, &mut encoder.out)?;
    encoder.state.history.push(address.address, address.is);
    encoder.state.wide = context.wide;
    Ok(())
}

/// The kind of an Address with Context.
pub(super) const fn kind_with_address(address: &AddressPacket) -> Kind {
    match (address.form, address.is) {
        (AddressForm::Long32, Is::Is0) => Kind::AddressContext32Is0,
        (AddressForm::Long32, Is::Is1) => Kind::AddressContext32Is1,
        (_, Is::Is0) => Kind::AddressContext64Is0,
        (_, Is::Is1) => Kind::AddressContext64Is1,
    }
}

impl Context {
    fn read(payload: &mut PayloadReader<'_>, config: &Config) -> Result<Self, Stop> {
        let info = payload.byte()?;
        let security = match (info & NSE != 0, info & NS != 0) {
            (false, false) => Security::Secure,
            (false, true) => Security::NonSecure,
            (true, false) => Security::Root,
            (true, true) => Security::Realm,
        };
        let mut identifier =
            |flag, bytes| if info & flag != 0 { payload.little_endian(bytes).map(Some) } else { Ok(None) };
        let vmid = identifier(V, config.vmid_bytes())?;
        let context_id = identifier(C, config.context_id_bytes())?;
        Ok(Self { level: info & LEVEL, security, wide: info & SF != 0, vmid, context_id })
    }

    fn write(&self, config: &Config, out: &mut PacketWriter) -> Result<(), EncodeError> {
        if self.level > LEVEL {
            return Err(EncodeError::OutOfRange);
        }
        let security = match self.security {
            Security::Secure => 0,
            Security::NonSecure => NS,
            Security::Root => NSE,
            Security::Realm => NSE | NS,
        };
        let flag = |flag, is_set: bool| if is_set { flag } else { 0u8 };
        out.byte(
            self.level
                | security
                | flag(SF, self.wide)
                | flag(V, self.vmid.is_some())
                | flag(C, self.context_id.is_some()),
        );
        if let Some(vmid) = self.vmid {
            out.little_endian(vmid, config.vmid_bytes())?;
        }
        if let Some(context_id) = self.context_id {
            out.little_endian(context_id, config.context_id_bytes())?;
        }
        Ok(())
    }
}

impl Describe for Context {
    fn name(&self) -> &'static str {
        "context"
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        let (bits, state) = if self.wide { (64, "Ctxt: AArch64") } else { (32, "Ctxt: AArch32") };
        each(Field::new("context.bits", Value::Decimal(bits)).text(Text::Words(state)));
        each(level("context.level", self.level).comma());
        each(Field::new("context.security", Value::Word(self.security.name())).text(Text::Plain).comma());
        let identifier = |name, label, value: Option<u32>, digits| match value {
            Some(value) => {
                Field::new(name, Value::Padded(value.into(), digits)).text(Text::Labelled(label)).comma()
            }
            None => Field::new(name, Value::Absent).text(Text::Hidden),
        };
        each(identifier("context.context_id", "CID", self.context_id, 8));
        each(identifier("context.vmid", "VMID", self.vmid, 4));
    }
}

/// An exception level.
pub(super) const fn level(name: &'static str, level: u8) -> Field {
    let words = ["EL0", "EL1", "EL2", "EL3"][(level & LEVEL) as usize];
    Field::new(name, Value::Decimal(level as u64)).text(Text::Words(words))
}

/// The fields of a Context packet.
pub(super) fn fields(context: Option<&Context>, each: &mut dyn FnMut(Field)) {
    match context {
        Some(context) => context.fields(each),
        None => each(Field::new("details", Value::Word("unchanged")).text(Text::Plain)),
    }
}
