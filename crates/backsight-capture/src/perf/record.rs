//! The records of a perf.data file that matter for trace.

use super::fields::{Fields, build_id};
use super::header::{Attribute, Attributes};

/// Kinds of record that the kernel or perf writes.
pub(super) mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const TIME_CONV: u32 = 79;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// A record as it stands: its kind, the bits beside it, and what follows its header.
#[derive(Clone, Copy)]
pub(super) struct RawRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
    pub big_endian: bool,
}

/// What the kernel says at the end of its records, as far as the event asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trailer {
    pub thread: Option<(u32, u32)>,
    pub time: Option<u64>,
    pub cpu: Option<u32>,
}

/// Some of a ring was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aux {
    pub offset: u64,
    pub size: u64,
    pub flags: u64,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Mmap(Box<Mmap>),
    Comm {
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    Fork {
        pid: u32,
        parent: u32,
        tid: u32,
    },
    Exit {
        pid: u32,
        tid: u32,
    },
    Aux(Aux),
    ItraceStart {
        pid: u32,
        tid: u32,
    },
    Lost(u64),
    /// The CPU goes over to a thread.
    SwitchIn {
        pid: u32,
        tid: u32,
    },
    TextPoke {
        address: u64,
        code: Vec<u8>,
    },
    HardwareId(u64),
}

/// A file was mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mmap {
    pub pid: u32,
    pub address: u64,
    pub length: u64,
    pub offset: u64,
    pub executable: bool,
    pub build_id: Option<String>,
    pub name: String,
}

const CPU_MODE: u16 = 7;
const KERNEL: u16 = 1;
/// Of an MMAP: data, not code. Of a COMM: an exec. Of a SWITCH: away from the thread.
const MISC_13: u16 = 1 << 13;
const MMAP_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;

impl RawRecord<'_> {
    /// Was it the kernel's own code?
    pub fn is_kernel(&self) -> bool {
        self.misc & CPU_MODE == KERNEL
    }

    /// Reads it. `None` for kinds that do not matter, and for those that are cut off.
    pub fn parse(&self) -> Option<Record> {
        let mut fields = Fields::new(self.body, self.big_endian);
        Some(match self.kind {
            kind::MMAP | kind::MMAP2 => Record::Mmap(Box::new(self.mmap(fields)?)),
            kind::COMM => {
                let (pid, tid) = (fields.u32()?, fields.u32()?);
                Record::Comm { pid, tid, name: fields.text(), exec: self.misc & MISC_13 != 0 }
            }
            kind::FORK => {
                let (pid, parent, tid) = (fields.u32()?, fields.u32()?, fields.u32()?);
                Record::Fork { pid, parent, tid }
            }
            kind::EXIT => {
                let (pid, _parent, tid) = (fields.u32()?, fields.u32()?, fields.u32()?);
                Record::Exit { pid, tid }
            }
            kind::AUX => {
                Record::Aux(Aux { offset: fields.u64()?, size: fields.u64()?, flags: fields.u64()? })
            }
            kind::ITRACE_START => Record::ItraceStart { pid: fields.u32()?, tid: fields.u32()? },
            kind::LOST => {
                fields.u64()?;
                Record::Lost(fields.u64()?)
            }
            kind::SWITCH_CPU_WIDE if self.misc & MISC_13 == 0 => return None,
            kind::SWITCH_CPU_WIDE => Record::SwitchIn { pid: fields.u32()?, tid: fields.u32()? },
            kind::TEXT_POKE => {
                let (address, old, new) = (fields.u64()?, fields.u16()?, fields.u16()?);
                fields.bytes(old.into())?;
                Record::TextPoke { address, code: fields.bytes(new.into())?.to_vec() }
            }
            kind::AUX_OUTPUT_HW_ID => Record::HardwareId(fields.u64()?),
            _ => return None,
        })
    }

    fn mmap(&self, mut fields: Fields<'_>) -> Option<Mmap> {
        let (pid, _tid) = (fields.u32()?, fields.u32()?);
        let (address, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut mmap =
            Mmap { pid, address, length, offset, executable: self.misc & MISC_13 == 0, ..Mmap::default() };
        if self.kind == kind::MMAP2 {
            let mut file = Fields::new(fields.bytes(24)?, self.big_endian);
            if self.misc & MMAP_BUILD_ID != 0 {
                let size = file.u8()?;
                file.bytes(3)?;
                mmap.build_id = build_id(file.bytes(usize::from(size).min(20))?);
            }
            let (protection, _flags) = (fields.u32()?, fields.u32()?);
            // Writers that do not know the protection leave it 0.
            mmap.executable = protection == 0 || protection & PROT_EXEC != 0;
        }
        mmap.name = fields.text();
        Some(mmap)
    }

    /// The fields at its end, where its event asked for them.
    pub fn trailer(&self, attributes: &Attributes) -> Trailer {
        let Some(attribute) = self.attribute(attributes).filter(|attribute| attribute.sample_id_all) else {
            return Trailer::default();
        };
        let asked = |bit: u32| attribute.sample_type >> bit & 1 != 0;
        // Thread, time, ID, stream, CPU, identifier: each eight bytes.
        let bits = [1, 2, 6, 9, 7, 16];
        let count = bits.iter().filter(|&&bit| asked(bit)).count();
        let Some(start) = self.body.len().checked_sub(count * 8) else { return Trailer::default() };
        let mut fields = Fields::new(&self.body[start..], self.big_endian);
        let mut trailer = Trailer::default();
        for bit in bits.into_iter().filter(|&bit| asked(bit)) {
            match bit {
                1 => trailer.thread = fields.u32().zip(fields.u32()),
                2 => trailer.time = fields.u64(),
                7 => trailer.cpu = fields.u32().zip(fields.u32()).map(|(cpu, _)| cpu),
                _ => drop(fields.u64()),
            }
        }
        trailer
    }

    /// The event that it belongs to: with identifiers, the last word of the record says which.
    fn attribute<'a>(&self, attributes: &'a Attributes) -> Option<&'a Attribute> {
        let first = attributes.first()?;
        if first.sample_type >> 16 & 1 == 0 {
            return Some(first);
        }
        let last = self.body.len().checked_sub(8).map(|start| &self.body[start..])?;
        let id = Fields::new(last, self.big_endian).u64()?;
        attributes.with_id(id).or(Some(first))
    }
}
