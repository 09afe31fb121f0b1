//! Data packets: the transfers of the newest load or store, some of whose values come late.

use backsight_arm::etm3::{DataAddress, DataValue, Packet};
use backsight_core::{Address, Isa};
use backsight_image::Code;
use backsight_isa::{TransferKind, Transfers, transfers};

use super::Follower;
use super::waiting::Waiting;
use crate::etm::At;
use crate::sink::Sink;
use crate::{AccessKind, Event, TracedAccess};

/// What is known of data.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Data {
    /// The newest instruction that transfers data.
    owner: Owner,
    /// Its transfers so far.
    transferred: u8,
    /// Where the next transfer is, unless its packet says.
    next: Option<u32>,
    /// Transfers whose value is to come.
    waiting: Waiting,
}

/// Who transfers data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    /// Nobody knows.
    #[default]
    Unknown,
    /// A load or store.
    Instruction { address: Address, transfers: Transfers },
    /// M profile: the processor, which saves registers for an exception, or restores them.
    Stacking(AccessKind),
}

impl Data {
    /// Nothing is known of what comes next.
    pub fn forget(&mut self) {
        self.owner = Owner::Unknown;
        self.next = None;
    }

    /// The processor itself transfers what follows.
    pub fn stack(&mut self, kind: AccessKind) {
        *self = Self { owner: Owner::Stacking(kind), waiting: self.waiting, ..Self::default() };
    }

    /// The next transfer.
    fn transfer(&mut self, begins: bool, address: Option<DataAddress>, has_addresses: bool) -> TracedAccess {
        let (kind, size, instruction) = match self.owner {
            Owner::Unknown => (AccessKind::Unknown, 0, None),
            Owner::Stacking(kind) => (kind, 4, None),
            Owner::Instruction { address, transfers } => {
                let kind = match transfers.kind {
                    TransferKind::Load => AccessKind::Load,
                    TransferKind::Swap if self.transferred == 0 => AccessKind::Load,
                    TransferKind::Store | TransferKind::Swap => AccessKind::Store,
                    TransferKind::CoprocessorRead => AccessKind::CoprocessorRead,
                    TransferKind::CoprocessorWrite => AccessKind::CoprocessorWrite,
                };
                (kind, transfers.size, Some(address))
            }
        };
        let is_register = matches!(kind, AccessKind::CoprocessorRead | AccessKind::CoprocessorWrite);
        let is_swap = matches!(
            self.owner,
            Owner::Instruction { transfers: Transfers { kind: TransferKind::Swap, .. }, .. }
        );
        let here = match address {
            Some(address) => address.is_complete.then_some(address.address),
            None if begins || is_register || !has_addresses => None,
            None => self.next,
        };
        // Both transfers of a swap are at the same address.
        let step = if is_swap { 0 } else { u32::from(size.max(1)) };
        self.next = here.map(|here| here.wrapping_add(step));
        self.transferred = self.transferred.saturating_add(1);
        TracedAccess::new(kind, size).at(here.map(u64::from)).by(instruction)
    }
}

impl<C: Code> Follower<C> {
    /// An instruction that may transfer data was executed.
    pub(super) fn own_data(&mut self, address: Address, isa: Isa, size: u8) {
        let (bytes, length) = self.tracker.opcode_at(address);
        if length < usize::from(size) {
            return;
        }
        let half = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let opcode = match (isa, size) {
            (Isa::A32, _) => u32::from_le_bytes(bytes),
            (_, 2) => half(0),
            _ => half(0) << 16 | half(2),
        };
        let Some(transfers) = transfers(isa, opcode, size) else { return };
        let is_register =
            matches!(transfers.kind, TransferKind::CoprocessorRead | TransferKind::CoprocessorWrite);
        if is_register && !self.rules.coprocessors {
            return;
        }
        let waiting = self.known.data.waiting;
        let owner = Owner::Instruction { address, transfers };
        self.known.data = Data { owner, transferred: 0, next: None, waiting };
    }

    /// A packet of data trace.
    pub(super) fn data_packet(&mut self, packet: &Packet, at: At, sink: &mut impl Sink) {
        let event = match *packet {
            Packet::NormalData { begins, address, value } => {
                let value = value.map(|value: DataValue| u64::from(value.value));
                Event::Access(
                    self.known.data.transfer(begins, address, self.rules.addresses).with_value(value),
                )
            }
            Packet::ValueNotTraced { begins, address } => {
                Event::Access(self.known.data.transfer(begins, address, self.rules.addresses))
            }
            Packet::OutOfOrderPlaceholder { tag, begins, address } => {
                let access = self.known.data.transfer(begins, address, self.rules.addresses);
                for given_up in self.known.data.waiting.wait(tag, access) {
                    self.put(at, Event::Access(given_up), sink);
                }
                return;
            }
            Packet::OutOfOrderData { tag, value } => match self.known.data.waiting.take(tag) {
                Some(access) => Event::Access(access.with_value(Some(value.value.into()))),
                // Its placeholder came before tracing began.
                None => return,
            },
            Packet::StoreFailed => {
                if !self.known.held.fail_store() {
                    self.tracker.statistics.skipped += 1;
                }
                return;
            }
            _ => Event::AccessesLost,
        };
        self.put(at, event, sink);
    }

    /// Values that have not come will not come.
    pub(super) fn give_up_values(&mut self, at: At, sink: &mut impl Sink) {
        if self.known.data.waiting.is_empty() {
            return;
        }
        for access in self.known.data.waiting.give_up() {
            self.tracker.emit(at, Event::Access(access), sink);
        }
    }

    /// A periodic I-sync: values that are long overdue will not come.
    pub(super) fn give_up_old_values(&mut self, at: At, sink: &mut impl Sink) {
        if self.known.data.waiting.is_empty() {
            return;
        }
        for access in self.known.data.waiting.age() {
            self.tracker.emit(at, Event::Access(access), sink);
        }
    }
}
