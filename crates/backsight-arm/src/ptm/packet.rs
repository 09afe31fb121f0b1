//! The packets of a PTM.
//!
//! A packet holds what the trace unit meant: addresses are complete, timestamps have their upper bits. What is needed to
//! write the same bytes again is kept beside that.

use core::fmt;

use backsight_core::{Address, Describe, Field, Isa, Text, Value};

use super::Kind;
use crate::etm::{Bad, Reason, State, address_fields};

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Zero bytes and 0x80: the next byte is a header.
    Async,
    /// Where execution is, and in which state.
    ISync(ISync),
    /// Waypoints that were passed.
    Atoms(Atoms),
    /// A waypoint was passed and led to this address, or an exception was taken.
    Branch(Branch),
    /// Execution went on to this instruction, which is included.
    WaypointUpdate(WaypointUpdate),
    /// The context ID of what follows.
    ContextId(u32),
    /// The VMID of what follows.
    Vmid(u8),
    /// Global timestamp.
    Timestamp(Timestamp),
    /// The trigger event happened.
    Trigger,
    /// The waypoint before was an exception return.
    ExceptionReturn,
    /// Nothing.
    Ignore,
    /// Bytes that are no packet.
    Bad(Bad),
    /// Bytes that were passed over in search of an A-sync.
    Unsynchronised,
}

const _: () = assert!(size_of::<Packet>() <= 40);

/// Where execution is, and in which state. Nothing was executed since the packet before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ISync {
    /// The next instruction.
    pub address: Address,
    /// Its instruction set.
    pub isa: Isa,
    /// Why it was sent.
    pub reason: Reason,
    /// The state.
    pub state: State,
    /// The context ID, where those are traced.
    pub context_id: Option<u32>,
    /// Cycles since the last count: in cycle-accurate mode, unless it is periodic.
    pub cycles: Option<u32>,
}

/// Waypoints that were passed, and whether their conditions held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atoms {
    /// The oldest in bit 0; 1 is E, 0 is N.
    pub bits: u8,
    /// How many, 1 to 5.
    pub count: u8,
    /// Cycles since the last count, in cycle-accurate mode.
    pub cycles: Option<u32>,
}

impl fmt::Display for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::Outcomes(self.bits.into(), self.count, ['E', 'N']).fmt(f)
    }
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
    /// Cycles since the last count, in cycle-accurate mode.
    pub cycles: Option<u32>,
}

impl Branch {
    /// The number of the exception, if it is one.
    pub const fn exception(&self) -> Option<u16> {
        match self.information {
            Some(Information { exception: number @ 1.., .. }) => Some(number),
            _ => None,
        }
    }
}

/// The information bytes of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    /// The state after the branch. Hyp mode is in the second byte.
    pub state: State,
    /// The exception, 0 for none. Numbers from 16 on need the second byte.
    pub exception: u16,
    /// There are two bytes.
    pub is_long: bool,
}

/// Execution went on to an instruction, which is included; whether its condition held is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaypointUpdate {
    /// The last instruction that was executed.
    pub address: Address,
    /// All bits of the address are known.
    pub is_complete: bool,
    /// Its instruction set.
    pub isa: Isa,
    /// Bytes of the address, 1 to 5.
    pub bytes: u8,
    /// AltISA, where an information byte follows.
    pub alt_isa: Option<bool>,
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
    /// Cycles since the last count, in cycle-accurate mode.
    pub cycles: Option<u32>,
}

impl Packet {
    /// The name in listings.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Async => Kind::Async.name(),
            Self::ISync(_) => Kind::ISync.name(),
            Self::Atoms(_) => Kind::Atom.name(),
            Self::Branch(_) => Kind::BranchAddress.name(),
            Self::WaypointUpdate(_) => Kind::WaypointUpdate.name(),
            Self::ContextId(_) => Kind::ContextId.name(),
            Self::Vmid(_) => Kind::Vmid.name(),
            Self::Timestamp(_) => Kind::Timestamp.name(),
            Self::Trigger => Kind::Trigger.name(),
            Self::ExceptionReturn => Kind::ExceptionReturn.name(),
            Self::Ignore => Kind::Ignore.name(),
            Self::Bad(why) => why.name(),
            Self::Unsynchronised => "NOTSYNC",
        }
    }
}

fn cycles_field(cycles: Option<u32>, each: &mut dyn FnMut(Field)) {
    if let Some(cycles) = cycles {
        each(Field::new("cycles", Value::Decimal(cycles.into())).text(Text::Labelled("CC")).comma());
    }
}

fn complete(address: Address, is_complete: bool) -> Option<Address> {
    is_complete.then_some(address)
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        match self {
            Self::ISync(sync) => {
                each(Field::new("reason", Value::Word(sync.reason.words())).text(Text::Plain));
                address_fields(Some(sync.address), sync.isa, each);
                sync.state.fields(each);
                if let Some(id) = sync.context_id {
                    each(Field::new("context_id", Value::Hexadecimal(id.into())).text(Text::Labelled("CID")));
                }
                cycles_field(sync.cycles, each);
            }
            Self::Atoms(atoms) => {
                let outcomes = Value::Outcomes(atoms.bits.into(), atoms.count, ['E', 'N']);
                each(Field::new("atoms", outcomes).text(Text::Plain));
                cycles_field(atoms.cycles, each);
            }
            Self::Branch(branch) => {
                address_fields(complete(branch.address, branch.is_complete), branch.isa, each);
                if let Some(information) = branch.information {
                    information.state.fields(each);
                    let number = Field::new("exception", Value::Decimal(information.exception.into()));
                    each(number.text(match information.exception {
                        0 => Text::Hidden,
                        _ => Text::Labelled("exception"),
                    }));
                }
                cycles_field(branch.cycles, each);
            }
            Self::WaypointUpdate(update) => {
                address_fields(complete(update.address, update.is_complete), update.isa, each);
            }
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
                cycles_field(timestamp.cycles, each);
            }
            Self::Bad(why) => each(Field::new("why", Value::Word(why.words())).text(Text::Plain)),
            Self::Async | Self::Trigger | Self::ExceptionReturn | Self::Ignore | Self::Unsynchronised => {}
        }
    }
}
