//! The packets of an ETMv3.
//!
//! A packet holds what the trace unit meant: addresses are complete, timestamps have their upper bits. What is needed to
//! write the same bytes again is kept beside that.

use backsight_core::{Address, Describe, Field, Isa, Text, Value};

use super::data::{DataAddress, DataValue};
use super::{Kind, PHeader};
use crate::etm::{Bad, Reason, State, address_fields};

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Zero bytes and 0x80: the next byte is a header.
    Async,
    /// Where execution is, and in which state.
    ISync(ISync),
    /// Atoms, and the cycles between them.
    PHeader(PHeader),
    /// The instruction before went to this address, or an exception was taken.
    Branch(Branch),
    /// Cycles before the last I-sync that is not periodic; 0: more than can be counted.
    CycleCount(u32),
    /// The trigger event happened.
    Trigger,
    /// One transfer of the last data instruction.
    NormalData {
        /// It begins a run of addresses: its address is in the packet, if addresses are traced.
        begins: bool,
        /// The address.
        address: Option<DataAddress>,
        /// The value, if values are traced.
        value: Option<DataValue>,
    },
    /// One transfer whose value comes later.
    OutOfOrderPlaceholder {
        /// The tag that the value will come with, 1 to 3.
        tag: u8,
        /// It begins a run of addresses.
        begins: bool,
        /// The address.
        address: Option<DataAddress>,
    },
    /// The value of a transfer that had a placeholder.
    OutOfOrderData {
        /// The tag, 1 to 3.
        tag: u8,
        /// The value.
        value: DataValue,
    },
    /// One transfer of several that was not selected for tracing.
    ValueNotTraced {
        /// It begins a run of addresses.
        begins: bool,
        /// The address.
        address: Option<DataAddress>,
    },
    /// The exclusive store before did not store.
    StoreFailed,
    /// Data packets are missing from here to the next data packet.
    DataSuppressed,
    /// Nothing.
    Ignore,
    /// The context ID of what follows.
    ContextId(u32),
    /// The VMID of what follows.
    Vmid(u8),
    /// The processor returned from an exception.
    ExceptionExit,
    /// M profile: the data packets that follow are the stacking of an exception.
    ExceptionEntry,
    /// Global timestamp.
    Timestamp(Timestamp),
    /// Bytes that are no packet.
    Bad(Bad),
    /// Bytes that were passed over in search of an A-sync.
    Unsynchronised,
}

const _: () = assert!(size_of::<Packet>() <= 56);

/// Where execution is, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ISync {
    /// The next instruction, or the load or store in progress; `None` in data-only mode.
    pub address: Option<Address>,
    /// Its instruction set.
    pub isa: Isa,
    /// Why it was sent.
    pub reason: Reason,
    /// The state.
    pub state: State,
    /// The context ID, where those are traced.
    pub context_id: Option<u32>,
    /// Cycles that passed before it while nothing was traced.
    pub cycles: Option<u32>,
    /// The instruction at the address is a load or store in progress, and this is the next one to execute.
    pub next: Option<NextInstruction>,
}

/// The instruction after a load or store in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextInstruction {
    /// Its address.
    pub address: Address,
    /// Its instruction set.
    pub isa: Isa,
    /// Bytes of the address, 1 to 5.
    pub bytes: u8,
}

/// A branch, or an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Where execution goes on.
    pub address: Address,
    /// All bits of the address are known: there was an I-sync or an address of five bytes.
    pub is_complete: bool,
    /// The instruction set there.
    pub isa: Isa,
    /// Bytes of the address, 1 to 5.
    pub bytes: u8,
    /// Exception information.
    pub information: Option<Information>,
    /// The exception in the form of the first ETMv3, which is part of the address.
    pub early: Option<EarlyException>,
}

/// The information bytes of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    /// The state after the branch. Hyp mode is in the second byte.
    pub state: State,
    /// The exception, 0 for none. Numbers from 16 on need the second byte.
    pub exception: u16,
    /// The instruction before was cancelled.
    pub cancels: bool,
    /// The second byte is there.
    pub is_long: bool,
    /// M profile: where an interrupted load or store multiple is resumed.
    pub resume: Option<u8>,
}

/// An exception in the form of the first ETMv3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyException {
    /// 0 reset, 1 IRQ, 4 Jazelle, 5 FIQ, 6 asynchronous data abort, 7 debug halt.
    pub code: u8,
    /// The instruction before was cancelled.
    pub cancels: bool,
}

impl EarlyException {
    /// The number that later versions have for it.
    pub const fn number(self) -> u16 {
        match self.code {
            0 => 8,
            1 => 14,
            4 => 5,
            5 => 15,
            6 => 4,
            7 => 1,
            _ => 6,
        }
    }
}

impl Branch {
    /// The number of the exception, if it is one.
    pub const fn exception(&self) -> Option<u16> {
        match (self.information, self.early) {
            (Some(Information { exception: number @ 1.., .. }), _) => Some(number),
            (_, Some(early)) => Some(early.number()),
            _ => None,
        }
    }

    /// Was the instruction before cancelled?
    pub const fn cancels(&self) -> bool {
        match (self.information, self.early) {
            (Some(information), _) => information.cancels,
            (None, Some(early)) => early.cancels,
            (None, None) => false,
        }
    }
}

/// A global timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The timestamp, all of its bits; 0 is unknown.
    pub value: u64,
    /// How many bytes it was written in.
    pub bytes: u8,
    /// The frequency of a clock changed since the timestamp before.
    pub clock_changed: bool,
}

impl Packet {
    /// The name in listings.
    pub const fn name(&self) -> &'static str {
        let kind = match self {
            Self::Async => Kind::Async,
            Self::ISync(ISync { cycles: None, .. }) => Kind::ISync,
            Self::ISync(_) => Kind::ISyncCycleCount,
            Self::PHeader(_) => Kind::PHeader,
            Self::Branch(_) => Kind::BranchAddress,
            Self::CycleCount(_) => Kind::CycleCount,
            Self::Trigger => Kind::Trigger,
            Self::NormalData { .. } => Kind::NormalData,
            Self::OutOfOrderPlaceholder { .. } => Kind::OutOfOrderPlaceholder,
            Self::OutOfOrderData { .. } => Kind::OutOfOrderData,
            Self::ValueNotTraced { .. } => Kind::ValueNotTraced,
            Self::StoreFailed => Kind::StoreFailed,
            Self::DataSuppressed => Kind::DataSuppressed,
            Self::Ignore => Kind::Ignore,
            Self::ContextId(_) => Kind::ContextId,
            Self::Vmid(_) => Kind::Vmid,
            Self::ExceptionExit => Kind::ExceptionExit,
            Self::ExceptionEntry => Kind::ExceptionEntry,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::Bad(why) => return why.name(),
            Self::Unsynchronised => return "NOTSYNC",
        };
        kind.name()
    }
}

fn data_address(address: Option<DataAddress>, each: &mut dyn FnMut(Field)) {
    let Some(DataAddress { address, is_complete, is_big_endian, .. }) = address else { return };
    let value = if is_complete { Value::Padded(address.into(), 8) } else { Value::Absent };
    each(Field::new("data_address", value).text(match is_complete {
        true => Text::Labelled("data address"),
        false => Text::Words("data address incomplete"),
    }));
    let flag = Field::new("big_endian", Value::Flag(is_big_endian));
    each(flag.text(Text::Words("big-endian")));
}

fn data_value(value: Option<DataValue>, each: &mut dyn FnMut(Field)) {
    if let Some(value) = value {
        each(Field::new("value", Value::Hexadecimal(value.value.into())));
    }
}

fn tag_field(tag: u8, each: &mut dyn FnMut(Field)) {
    each(Field::new("tag", Value::Decimal(tag.into())));
}

fn i_sync_fields(sync: &ISync, each: &mut dyn FnMut(Field)) {
    each(Field::new("reason", Value::Word(sync.reason.words())).text(Text::Plain));
    if let Some(address) = sync.address {
        address_fields(Some(address), sync.isa, each);
    }
    sync.state.fields(each);
    if let Some(id) = sync.context_id {
        each(Field::new("context_id", Value::Hexadecimal(id.into())).text(Text::Labelled("CID")));
    }
    if let Some(next) = sync.next {
        let text = Text::Within("in progress, next ", "");
        each(Field::new("next", Value::Address(next.address)).text(text).comma());
    }
    if let Some(cycles) = sync.cycles {
        each(Field::new("cycles", Value::Decimal(cycles.into())).text(Text::Labelled("CC")).comma());
    }
}

fn branch_fields(branch: &Branch, each: &mut dyn FnMut(Field)) {
    address_fields(branch.is_complete.then_some(branch.address), branch.isa, each);
    if let Some(information) = branch.information {
        information.state.fields(each);
    }
    if let Some(number) = branch.exception() {
        each(Field::new("exception", Value::Decimal(number.into())));
    }
    if branch.information.is_some() || branch.early.is_some() {
        each(Field::new("cancels", Value::Flag(branch.cancels())).text(Text::Words("cancels")));
    }
    if let Some(resume) = branch.information.and_then(|information| information.resume) {
        each(Field::new("resume", Value::Decimal(resume.into())));
    }
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        match self {
            Self::ISync(sync) => i_sync_fields(sync, each),
            Self::Branch(branch) => branch_fields(branch, each),
            Self::PHeader(header) => {
                let atoms = Value::Outcomes(header.atoms.into(), header.count, ['E', 'N']);
                each(Field::new("atoms", atoms).text(Text::Plain));
                if let Some(cycles) = header.total_cycles() {
                    each(Field::new("cycles", Value::Decimal(cycles.into())).text(Text::Labelled("CC")));
                }
            }
            Self::CycleCount(cycles) => {
                each(Field::new("cycles", Value::Decimal((*cycles).into())).text(Text::Labelled("CC")));
            }
            Self::NormalData { begins: _, address, value } => {
                data_address(*address, each);
                data_value(*value, each);
            }
            Self::OutOfOrderPlaceholder { tag, begins: _, address } => {
                tag_field(*tag, each);
                data_address(*address, each);
            }
            Self::OutOfOrderData { tag, value } => {
                tag_field(*tag, each);
                data_value(Some(*value), each);
            }
            Self::ValueNotTraced { begins: _, address } => data_address(*address, each),
            Self::ContextId(id) => {
                each(Field::new("context_id", Value::Hexadecimal((*id).into())).text(Text::Labelled("CID")));
            }
            Self::Vmid(id) => {
                each(Field::new("vmid", Value::Hexadecimal((*id).into())).text(Text::Labelled("VMID")));
            }
            Self::Timestamp(timestamp) => {
                each(Field::new("timestamp", Value::Hexadecimal(timestamp.value)).text(Text::Labelled("TS")));
                let changed = Field::new("clock_changed", Value::Flag(timestamp.clock_changed));
                each(changed.text(Text::Words("clock changed")).comma());
            }
            Self::Bad(why) => each(Field::new("why", Value::Word(why.words())).text(Text::Plain)),
            Self::Async
            | Self::Trigger
            | Self::StoreFailed
            | Self::DataSuppressed
            | Self::Ignore
            | Self::ExceptionExit
            | Self::ExceptionEntry
            | Self::Unsynchronised => {}
        }
    }
}
