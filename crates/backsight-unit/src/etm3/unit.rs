//! What a decoder has to be sent of instructions, branches and data.

use backsight_arm::etm3::{Config, DataAddress, DataValue, ISync, Information, PHeader, Packet, Reason};
use backsight_core::{Access, Isa, Retired};
use backsight_isa::{Class, Instruction};

use super::atoms::Run;
use crate::etm::{Location, Pending, Protocol, Writer, state_of};

/// What waits, and what decoders know of data.
#[derive(Default)]
pub struct Progress {
    run: Run,
    /// Where the next word of the last instruction's accesses is, if it follows.
    next_data: Option<u32>,
    /// A data address was written since the last I-sync, so that decoders know what the next is compressed against.
    knows_data: bool,
    /// The cycle of the last atom.
    timed: u64,
}

impl Protocol for Config {
    type Progress = Progress;

    fn flush(writer: &mut Writer<Self>, out: &mut Vec<u8>) {
        if let Some(header) = writer.progress.run.take(writer.config().cycle_accurate()) {
            writer.write(Packet::PHeader(header), out);
        }
    }

    fn stop(writer: &mut Writer<Self>, out: &mut Vec<u8>) {
        Self::flush(writer, out);
    }

    fn i_sync(writer: &mut Writer<Self>, here: Location, reason: Reason) -> Packet {
        (writer.progress.next_data, writer.progress.knows_data) = (None, false);
        let is_data_only = writer.config().data_only();
        Packet::ISync(ISync {
            address: (!is_data_only).then_some(here.address),
            isa: if is_data_only { Isa::A32 } else { here.isa },
            reason,
            state: state_of(&writer.context),
            context_id: writer.identifiers().context_id,
            cycles: None,
            next: None,
        })
    }

    fn timestamp(writer: &mut Writer<Self>, value: u64, is_full: bool) -> Packet {
        let encoder = &writer.encoder;
        Packet::Timestamp(if is_full { encoder.full_timestamp(value) } else { encoder.timestamp(value) })
    }

    fn change_state(writer: &mut Writer<Self>, here: Location, out: &mut Vec<u8>) {
        if writer.config().data_only() {
            writer.i_sync(here, Reason::Periodic, out);
        } else {
            writer.branch(here, None, out);
        }
    }

    fn prepare(writer: &mut Writer<Self>, out: &mut Vec<u8>) {
        writer.timestamp_if_due(false, out);
    }

    fn retire(writer: &mut Writer<Self>, retired: &Retired, instruction: &Instruction, out: &mut Vec<u8>) {
        writer.progress.next_data = None;
        writer.atom(retired.taken, out);
        if instruction.class == Class::DirectBranch && retired.taken && !writer.config().data_only() {
            // The instruction set changes: decoders are told, though the code says it too.
            let changes = instruction.target_isa != retired.isa;
            if changes || writer.config().branch_broadcast() {
                let target = Location { address: instruction.target, isa: instruction.target_isa };
                writer.branch(target, None, out);
            }
        }
    }

    fn arrive(writer: &mut Writer<Self>, pending: Pending, here: Location, out: &mut Vec<u8>) {
        if writer.config().data_only() {
            return;
        }
        match pending {
            Pending::Branch { exception_return } => {
                if exception_return && writer.config().minor() >= 5 {
                    writer.put(Packet::ExceptionExit, out);
                }
                writer.branch(here, None, out);
            }
            Pending::Exception { number } => writer.branch(here, Some(number), out),
        }
    }

    /// A packet for each word.
    fn access(writer: &mut Writer<Self>, access: &Access, out: &mut Vec<u8>) {
        if !writer.config().data_trace() {
            return;
        }
        let mut address = access.address.0 as u32;
        let mut value = access.value;
        let mut left = access.size;
        writer.statistics.accesses += 1;
        while left > 0 {
            let size = left.min(4);
            let part = value & if size < 4 { (1 << (8 * size)) - 1 } else { 0xFFFF_FFFF };
            writer.transfer(address, size, access.known.then_some(part as u32), out);
            address = address.wrapping_add(size.into());
            value = value.checked_shr(32).unwrap_or(0);
            left -= size;
        }
    }
}

impl Writer<Config> {
    fn atom(&mut self, executed: bool, out: &mut Vec<u8>) {
        if self.config().data_only() {
            return;
        }
        let mut full: Vec<PHeader> = Vec::new();
        if self.config().cycle_accurate() {
            let cycles = self.clock.now.saturating_sub(self.progress.timed);
            let has_format_4 = self.config().minor() >= 3;
            self.progress.run.push_timed(executed, cycles, has_format_4, &mut |header| full.push(header));
            self.progress.timed = self.clock.now;
        } else {
            full.extend(self.progress.run.push(executed));
        }
        full.into_iter().for_each(|header| self.write(Packet::PHeader(header), out));
    }

    fn branch(&mut self, to: Location, exception: Option<u16>, out: &mut Vec<u8>) {
        let said = self.state_to_say(to, exception, out);
        let information = said.map(|(state, is_long)| Information {
            state,
            exception: exception.unwrap_or(0),
            cancels: false,
            is_long,
            resume: None,
        });
        let branch = self.encoder.branch_to(to.address, to.isa, information);
        self.write(Packet::Branch(branch), out);
    }

    fn transfer(&mut self, address: u32, size: u8, value: Option<u32>, out: &mut Vec<u8>) {
        Config::flush(self, out);
        let begins = self.progress.next_data != Some(address);
        let sent = (begins && self.config().data_addresses()).then(|| {
            // Decoders that know of no address can begin with a full one.
            match std::mem::replace(&mut self.progress.knows_data, true) {
                true => self.encoder.data_address(address, false),
                false => DataAddress::full(address, false),
            }
        });
        let packet = match value {
            Some(value) if self.config().data_values() => {
                Packet::NormalData { begins, address: sent, value: Some(DataValue::new(value)) }
            }
            None if self.config().data_values() => Packet::ValueNotTraced { begins, address: sent },
            _ => Packet::NormalData { begins, address: sent, value: None },
        };
        self.write(packet, out);
        self.progress.next_data = Some(address.wrapping_add(size.into()));
    }
}
