//! Packets that are all in their header byte.
//!
//! Most bytes of a trace are such packets. They depend on nothing but the header, the configuration and (cycle
//! counts) the threshold, so they are made once, and looked up.

use super::super::{Atoms, Config, CycleCount, CycleCountFormat, Kind, Packet, Q, lookup};

/// The packet that a valid header says without any payload, with a threshold of 0; `None` if there is a payload or
/// the address history is needed.
pub(super) fn whole(header: u8, config: &Config) -> Option<Packet> {
    Some(match lookup(header).kind {
        Kind::TraceOn => Packet::TraceOn,
        Kind::FunctionReturn => Packet::FunctionReturn,
        Kind::ExceptionReturn => Packet::ExceptionReturn,
        Kind::TransactionStart => Packet::TransactionStart,
        Kind::TransactionCommit => Packet::TransactionCommit,
        Kind::CycleCountF1 if header & 1 == 1 && config.commit_mode1() => {
            Packet::CycleCount(CycleCount { format: CycleCountFormat::F1, commit: 0, cycles: None })
        }
        Kind::CycleCountF3 => Packet::CycleCount(CycleCount {
            format: CycleCountFormat::F3,
            commit: if config.commit_mode1() { 0 } else { u32::from(header >> 2 & 3) + 1 },
            cycles: Some(u32::from(header & 3)),
        }),
        Kind::NumberedDataSync => Packet::NumberedDataSync(header & 7),
        Kind::UnnumberedDataSync => Packet::UnnumberedDataSync(header & 7),
        Kind::Mispredict => Packet::Mispredict(Atoms::of_cancel(header)),
        Kind::CancelF2 => Packet::CancelF2(Atoms::of_cancel(header)),
        Kind::CancelF3 => Packet::CancelF3 { atom: header & 1 == 1, count: (header >> 1 & 3) + 2 },
        Kind::ConditionalInstructionF2 => Packet::ConditionalInstructionF2(header & 3),
        Kind::ConditionalFlush => Packet::ConditionalFlush,
        Kind::ConditionalResultF4 => Packet::ConditionalResultF4(header & 3),
        Kind::ConditionalResultF2 => Packet::ConditionalResultF2 { skip: header & 4 != 0, token: header & 3 },
        Kind::Ignore => Packet::Ignore,
        Kind::Event => Packet::Event(header & 0xF),
        Kind::Context if header & 1 == 0 => Packet::Context(None),
        Kind::TimestampMarker => Packet::TimestampMarker,
        Kind::Q if header & 0xF == 0xF => Packet::Q(Q { count: None, address: None }),
        Kind::AtomF1 | Kind::AtomF2 | Kind::AtomF3 | Kind::AtomF4 | Kind::AtomF5 | Kind::AtomF6 => {
            Packet::Atoms(Atoms::from_header(header))
        }
        _ => return None,
    })
}
