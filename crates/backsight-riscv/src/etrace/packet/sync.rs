//! Format 3, subformats 0 to 2: what a decoder begins with, traps, and contexts.
//!
//! ```text
//! subformat 0: branch   privilege time context   address
//! subformat 1: branch   privilege time context   ecause   interrupt   thaddr   [address]   [tval]
//! subformat 2:          privilege time context
//! ```

use backsight_core::{Field, Value};

use super::PacketLayout;
use crate::etrace::{Dialect, FieldReader, FieldWriter, Options, Params};

/// Format 3 subformat 0: start of trace, or resync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Start {
    /// False only if the instruction is a branch that was taken.
    pub branch: bool,
    /// Privilege.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
    /// The address field, absolute.
    pub address: u64,
}

impl Start {
    pub(super) fn read(fields: &mut impl FieldReader, params: &Params) -> Self {
        let branch = fields.flag();
        let ContextPacket { privilege, time, context } = ContextPacket::read(fields, params);
        Self { branch, privilege, time, context, address: fields.address(0, params) }
    }

    #[inline]
    pub(super) fn write(&self, fields: &mut impl FieldWriter, params: &Params) {
        let &Self { branch, privilege, time, context, address } = self;
        fields.put(branch.into(), 1);
        ContextPacket { privilege, time, context }.write(fields, params);
        fields.address(address, params);
    }

    pub(super) fn fields(&self, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
        let &Self { branch, privilege, time, context, address } = self;
        each(Field::new("address", Value::Hexadecimal(address)));
        each(Field::new("branch", Value::Decimal(branch.into())));
        ContextPacket { privilege, time, context }.fields(layout, each);
    }
}

/// Format 3 subformat 1: exception or interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrapPacket {
    /// False only if the instruction is a branch that was taken.
    pub branch: bool,
    /// Privilege: of the handler with `thaddr`, else from before the trap.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
    /// Cause.
    pub ecause: u64,
    /// Interrupt; else exception.
    pub interrupt: bool,
    /// `address` is the first instruction of the handler, which retired. Else nothing retired in the handler, and
    /// `address` is where the exception happened if that is not known otherwise.
    pub thaddr: bool,
    /// The address field, absolute; absent in implicit exception mode with `thaddr`.
    pub address: Option<u64>,
    /// Trap value; 0 for interrupts, which carry none.
    pub tval: u64,
}

/// Bits of tval: interrupts carry none, except those of the encoder for CVA6.
const fn tval_bits(interrupt: bool, params: &Params) -> u8 {
    if interrupt && !matches!(params.dialect, Dialect::Cva6) { 0 } else { params.iaddress_width }
}

impl TrapPacket {
    pub(super) fn read(fields: &mut impl FieldReader, params: &Params, options: &Options) -> Self {
        let branch = fields.flag();
        let ContextPacket { privilege, time, context } = ContextPacket::read(fields, params);
        let ecause = fields.take(params.ecause_width);
        let (interrupt, thaddr) = (fields.flag(), fields.flag());
        let tval_bits = tval_bits(interrupt, params);
        let implicit = options.implicit_exception && thaddr;
        let address = (!implicit).then(|| fields.address(tval_bits.into(), params));
        let tval = fields.take(tval_bits);
        Self { branch, privilege, time, context, ecause, interrupt, thaddr, address, tval }
    }

    #[inline]
    pub(super) fn write(&self, fields: &mut impl FieldWriter, params: &Params, options: &Options) {
        let &Self { branch, privilege, time, context, ecause, interrupt, thaddr, address, tval } = self;
        fields.put(branch.into(), 1);
        ContextPacket { privilege, time, context }.write(fields, params);
        fields.put(ecause, params.ecause_width);
        fields.put(interrupt.into(), 1);
        fields.put(thaddr.into(), 1);
        if !(options.implicit_exception && thaddr) {
            fields.address(address.unwrap_or(0), params);
        }
        fields.put(tval, tval_bits(interrupt, params));
    }

    pub(super) fn fields(&self, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
        let &Self { branch, privilege, time, context, ecause, interrupt, thaddr, address, tval } = self;
        if let Some(address) = address {
            each(Field::new("address", Value::Hexadecimal(address)));
        }
        each(Field::new("branch", Value::Decimal(branch.into())));
        ContextPacket { privilege, time, context }.fields(layout, each);
        each(Field::new("ecause", Value::Decimal(ecause)));
        each(Field::new("interrupt", Value::Decimal(interrupt.into())));
        each(Field::new("thaddr", Value::Decimal(thaddr.into())));
        if !interrupt {
            each(Field::new("tval", Value::Hexadecimal(tval)));
        }
    }
}

/// Format 3 subformat 2: context. Its fields stand like this in every packet of format 3 that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextPacket {
    /// Privilege.
    pub privilege: u8,
    /// Time, 0 where there is none.
    pub time: u64,
    /// Context, 0 where there is none.
    pub context: u64,
}

impl ContextPacket {
    pub(super) fn read(fields: &mut impl FieldReader, params: &Params) -> Self {
        Self {
            privilege: fields.take(params.privilege_width) as u8,
            time: fields.take(params.time_bits()),
            context: fields.take(params.context_bits()),
        }
    }

    #[inline]
    pub(super) fn write(self, fields: &mut impl FieldWriter, params: &Params) {
        fields.put(self.privilege.into(), params.privilege_width);
        fields.put(self.time, params.time_bits());
        fields.put(self.context, params.context_bits());
    }

    pub(super) fn fields(self, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
        each(Field::new("privilege", Value::Decimal(self.privilege.into())));
        if layout.has_time {
            each(Field::new("time", Value::Decimal(self.time)));
        }
        if layout.has_context {
            each(Field::new("context", Value::Decimal(self.context)));
        }
    }
}
