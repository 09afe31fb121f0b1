//! Messages for tests.

use alloc::vec;
use proptest::prelude::*;

use super::{
    BranchKind, Config, History, INSTRUCTION_COUNT_BITS, Message, Packet, REPETITION_BITS, Resource,
};

/// A message that has bytes.
pub(super) fn any_message() -> impl Strategy<Value = Message> {
    let kind = || (0..4u8).prop_map(BranchKind::from_bits);
    let nibble = || 0..16u8;
    let count = || 0..1u32 << INSTRUCTION_COUNT_BITS;
    let times = || 0..1u32 << REPETITION_BITS;
    let history = || any::<u64>().prop_map(|bits| History(bits | 1 << (bits % 32)));
    prop_oneof![
        any::<u64>().prop_map(|process| Message::Ownership { process }),
        count().prop_map(|count| Message::DirectBranch { count }),
        (kind(), count(), any::<u64>()).prop_map(|(kind, count, address)| Message::IndirectBranch {
            kind,
            count,
            address
        }),
        (nibble(), any::<u64>()).prop_map(|(kind, code)| Message::Error { kind, code }),
        (nibble(), count(), any::<u64>()).prop_map(|(reason, count, address)| Message::ProgramTraceSync {
            reason,
            count,
            address
        }),
        (nibble(), count(), any::<u64>()).prop_map(|(reason, count, address)| Message::DirectBranchSync {
            reason,
            count,
            address
        }),
        (nibble(), kind(), count(), any::<u64>()).prop_map(|(reason, kind, count, address)| {
            Message::IndirectBranchSync { reason, kind, count, address }
        }),
        count().prop_map(|count| Message::ResourceFull(Resource::Count(count))),
        history().prop_map(|history| Message::ResourceFull(Resource::History(history))),
        (history(), times()).prop_map(|(history, times)| {
            Message::ResourceFull(Resource::HistoryRepeat { history, times })
        }),
        (kind(), count(), any::<u64>(), history()).prop_map(|(kind, count, address, history)| {
            Message::IndirectBranchHistory { kind, count, address, history }
        }),
        (nibble(), kind(), count(), any::<u64>(), history()).prop_map(
            |(reason, kind, count, address, history)| {
                Message::IndirectBranchHistorySync { reason, kind, count, address, history }
            }
        ),
        times().prop_map(|count| Message::RepeatBranch { count }),
        (any::<bool>(), count())
            .prop_map(|(taken, branches)| Message::ResourceFull(Resource::Run { taken, branches })),
        (any::<u32>(), any::<u64>(), any::<bool>()).prop_map(|(tag, data, old)| Message::DataAcquisition {
            tag,
            data,
            old
        }),
        (nibble(), any::<bool>(), any::<u64>(), any::<Option<u64>>()).prop_map(
            |(event, is_sync, first, second)| Message::InCircuitTrace { event, is_sync, first, second }
        ),
        (nibble(), count(), proptest::option::of(history())).prop_map(|(reason, count, history)| {
            Message::ProgramTraceCorrelation { reason, count, history }
        }),
    ]
}

/// A message with what any message can carry.
pub(super) fn any_packet(config: Config) -> impl Strategy<Value = Packet> {
    let sources = 1u16 << config.source_bits;
    (0..sources, any::<Option<u64>>(), any_message())
        .prop_map(|(source, timestamp, message)| Packet::new(source, timestamp, message))
}
