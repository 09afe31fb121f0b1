//! What the testbench of the decoder printed, as packets of the software.

use backsight_arm::etm4::{
    AddressForm, AddressPacket, Atoms, Bad, ConditionalResult, Config, Context, CycleCount, CycleCountFormat,
    Exception, Is, Kind, Packet, Q, ROWS, Timestamp, TraceInfo,
};
use backsight_core::{Address, Security};

/// What comes out of a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// A packet, and the position of its end.
    Packet(u64, Packet),
    /// Bytes are missing; did that cut off a packet?
    Gap(bool),
}

/// One line of packets.
struct Line<'a> {
    config: &'a Config,
    kind: Kind,
    header: u8,
    raw: [u8; 9],
    wrote: u32,
    number: u32,
    count: u32,
    info: u8,
    vmid: u32,
    cid: u32,
    address: u64,
    is: u64,
    timestamp: u64,
    threshold: u32,
}

/// The packets and gaps of an output.
pub fn items(output: &str, config: &Config) -> Vec<Item> {
    output.lines().filter_map(|line| item(line, config)).collect()
}

/// The lines of an output that are records.
pub fn records(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.starts_with('R') || *line == "G").collect()
}

fn item(line: &str, config: &Config) -> Option<Item> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match *words.first()? {
        "X" => Some(Item::Gap(words[1] == "1")),
        "P" => {
            let decimal = |index: usize| words[index].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
            let hexadecimal =
                |index: usize| u128::from_str_radix(words[index], 16).unwrap_or_else(|_| panic!("{line}"));
            let row = ROWS.iter().find(|row| u64::from(row.kind as u8) == decimal(2)).expect("a kind");
            let raw = hexadecimal(5).to_le_bytes();
            let line = Line {
                config,
                kind: row.kind,
                header: hexadecimal(4) as u8,
                raw: raw[..9].try_into().unwrap(),
                wrote: hexadecimal(6) as u32,
                number: hexadecimal(7) as u32,
                count: hexadecimal(8) as u32,
                info: hexadecimal(9) as u8,
                vmid: hexadecimal(10) as u32,
                cid: hexadecimal(11) as u32,
                address: hexadecimal(12) as u64,
                is: decimal(13),
                timestamp: hexadecimal(14) as u64,
                threshold: hexadecimal(15) as u32,
            };
            let packet = match decimal(3) {
                0 => line.packet(),
                why => Packet::Bad(BAD[why as usize - 1]),
            };
            Some(Item::Packet(decimal(1), packet))
        }
        _ => None,
    }
}

/// The reasons by their numbers.
const BAD: [Bad; 6] = [
    Bad::Reserved,
    Bad::ReservedByConfiguration,
    Bad::NotImplemented,
    Bad::Extension,
    Bad::AsyncLength,
    Bad::FieldTooLong,
];

impl Line<'_> {
    fn packet(&self) -> Packet {
        let field = self.kind.field(self.header);
        match self.kind {
            Kind::Reserved => panic!("a reserved header has a reason"),
            Kind::Extension => match self.raw[0] {
                0 => Packet::Async,
                3 => Packet::Discard,
                5 => Packet::Overflow,
                other => panic!("extension {other:#x}"),
            },
            Kind::TraceInfo => {
                Packet::TraceInfo(TraceInfo { threshold: self.number, ..TraceInfo::default() })
            }
            Kind::Timestamp | Kind::TimestampCycles => Packet::Timestamp(Timestamp {
                value: self.timestamp,
                bytes: self.wrote.count_ones() as u8,
                cycles: (self.kind == Kind::TimestampCycles)
                    .then_some(self.count & self.config.cycle_counter_mask()),
            }),
            Kind::TraceOn => Packet::TraceOn,
            Kind::FunctionReturn => Packet::FunctionReturn,
            Kind::Exception => self.exception(),
            Kind::ExceptionReturn => Packet::ExceptionReturn,
            Kind::Instrumentation => Packet::Instrumentation {
                level: self.raw[0] & 3,
                value: u64::from_le_bytes(self.raw[1..].try_into().unwrap()),
            },
            Kind::TransactionStart => Packet::TransactionStart,
            Kind::TransactionCommit => Packet::TransactionCommit,
            Kind::CycleCountF1 | Kind::CycleCountF2 | Kind::CycleCountF3 => {
                Packet::CycleCount(self.cycle_count(field))
            }
            Kind::NumberedDataSync => Packet::NumberedDataSync(field),
            Kind::UnnumberedDataSync => Packet::UnnumberedDataSync(field),
            Kind::Commit => Packet::Commit { count: self.number },
            Kind::CancelF1 => Packet::CancelF1 { count: self.number, mispredict: false },
            Kind::CancelF1Mispredict => Packet::CancelF1 { count: self.number, mispredict: true },
            Kind::Mispredict => Packet::Mispredict(cancelled(field)),
            Kind::CancelF2 => Packet::CancelF2(cancelled(field)),
            Kind::CancelF3 => Packet::CancelF3 { atom: field & 1 == 1, count: (field >> 1) + 2 },
            Kind::ConditionalInstructionF1 => Packet::ConditionalInstructionF1 { key: self.number },
            Kind::ConditionalInstructionF2 => Packet::ConditionalInstructionF2(field),
            Kind::ConditionalInstructionF3 => Packet::ConditionalInstructionF3 {
                count: self.raw[0] >> 1 & 0x3F,
                repeat: self.raw[0] & 1 == 1,
            },
            Kind::ConditionalFlush => Packet::ConditionalFlush,
            Kind::ConditionalResultF1 => Packet::ConditionalResultF1 {
                first: result(self.raw[0], self.number, field & 1 != 0),
                second: (field & 6 != 6).then(|| result(self.raw[1], self.count, field & 2 != 0)),
            },
            Kind::ConditionalResultF2 => {
                Packet::ConditionalResultF2 { skip: field & 4 != 0, token: field & 3 }
            }
            Kind::ConditionalResultF3 => {
                Packet::ConditionalResultF3(u16::from(field) << 8 | u16::from(self.raw[0]))
            }
            Kind::ConditionalResultF4 => Packet::ConditionalResultF4(field),
            Kind::Ignore => Packet::Ignore,
            Kind::Event => Packet::Event(field + 1),
            Kind::Context => Packet::Context((field == 1).then(|| self.context())),
            Kind::AddressContext32Is0
            | Kind::AddressContext32Is1
            | Kind::AddressContext64Is0
            | Kind::AddressContext64Is1 => Packet::AddressContext(self.address_packet(field), self.context()),
            Kind::TimestampMarker => Packet::TimestampMarker,
            Kind::Q => Packet::Q(Q {
                count: (field != 0xF).then_some(self.number),
                address: (field < 0xC).then(|| self.address_packet(field)),
            }),
            Kind::SourceExact
            | Kind::SourceShortIs0
            | Kind::SourceShortIs1
            | Kind::Source32Is0
            | Kind::Source32Is1
            | Kind::Source64Is0
            | Kind::Source64Is1 => Packet::SourceAddress(self.address_packet(field)),
            Kind::AddressExact
            | Kind::AddressShortIs0
            | Kind::AddressShortIs1
            | Kind::Address32Is0
            | Kind::Address32Is1
            | Kind::Address64Is0
            | Kind::Address64Is1 => Packet::Address(self.address_packet(field)),
            Kind::AtomF1 | Kind::AtomF2 | Kind::AtomF3 | Kind::AtomF4 | Kind::AtomF5 | Kind::AtomF6 => {
                // The atoms are in the header, which is all that the hardware gives.
                let stream = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, self.header];
                backsight_arm::etm4::packets(self.config, &stream).last().expect("atoms").value
            }
        }
    }

    fn exception(&self) -> Packet {
        let [first, second, ..] = self.raw;
        match (first & 0x80 != 0, first >> 1 & 0x1F) {
            (false, 0x00) if self.config.is_ete() => Packet::PeReset,
            (false, 0x18) if self.config.is_ete() => Packet::TransactionFailure,
            (_, low) => Packet::Exception(Exception {
                number: u16::from(second & 0x1F) << 5 | u16::from(low),
                address: first >> 5 & 2 | first & 1,
                fault_pending: second & 0x20 != 0,
            }),
        }
    }

    fn cycle_count(&self, field: u8) -> CycleCount {
        let (format, commit, count) = match self.kind {
            Kind::CycleCountF1 => (CycleCountFormat::F1, self.number, (field == 0).then_some(self.count)),
            Kind::CycleCountF2 => {
                let (commit, count) = (u32::from(self.raw[0] >> 4), u32::from(self.raw[0] & 0xF));
                match field {
                    0 => (CycleCountFormat::F2, commit + 1, Some(count)),
                    _ => {
                        let commit = self.config.max_speculation().saturating_sub(15 - commit);
                        (CycleCountFormat::F2FromMaximum, commit, Some(count))
                    }
                }
            }
            _ => (CycleCountFormat::F3, u32::from(field >> 2) + 1, Some(u32::from(field & 3))),
        };
        let commit = if self.config.commit_mode1() { 0 } else { commit };
        CycleCount { format, commit, cycles: count.map(|count| self.threshold.wrapping_add(count)) }
    }

    fn context(&self) -> Context {
        let bit = |bit: u8| self.info >> bit & 1 == 1;
        Context {
            level: self.info & 3,
            security: match (bit(3), bit(5)) {
                (false, false) => Security::Secure,
                (false, true) => Security::NonSecure,
                (true, false) => Security::Root,
                (true, true) => Security::Realm,
            },
            wide: bit(4),
            // Identifiers that have no bytes in this trace unit are 0 there.
            vmid: bit(6).then_some(if self.config.vmid_bytes() == 0 { 0 } else { self.vmid }),
            context_id: bit(7).then_some(if self.config.context_id_bytes() == 0 { 0 } else { self.cid }),
        }
    }

    fn address_packet(&self, field: u8) -> AddressPacket {
        let form = match self.wrote.count_ones() {
            0 => AddressForm::Exact(field),
            1 => AddressForm::Short1,
            2 => AddressForm::Short2,
            4 => AddressForm::Long32,
            8 => AddressForm::Long64,
            other => panic!("an address of {other} bytes"),
        };
        AddressPacket {
            address: Address(self.address),
            is: if self.is == 1 { Is::Is1 } else { Is::Is0 },
            form,
        }
    }
}

fn result(first: u8, key: u32, implied: bool) -> ConditionalResult {
    ConditionalResult { key: key << 3 | u32::from(first >> 4 & 7), result: first & 0xF, implied }
}

/// The atoms of a Mispredict or Cancel: none, E, EE, N.
fn cancelled(field: u8) -> Atoms {
    let [bits, count] = [[0, 0], [1, 1], [3, 2], [0, 1]][usize::from(field & 3)];
    Atoms { bits: bits.into(), count }
}
