//! Messages to bytes.

use alloc::vec::Vec;

use super::message::{Config, MOST_SOURCE_BITS, Message, Packet, Resource, tcode};

/// Turns messages into bytes.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    config: Config,
}

impl Encoder {
    /// An encoder for messages that are laid out like this.
    pub const fn new(config: &Config) -> Self {
        Self { config: *config }
    }

    /// Appends the bytes of a message to `out`; see [`encode`] for what has none.
    #[inline]
    pub fn put(&mut self, packet: &Packet, out: &mut Vec<u8>) -> bool {
        encode(&self.config, packet, out)
    }

    /// The stream ends. Every message is complete by itself: nothing is appended.
    pub const fn finish(&mut self, _out: &mut Vec<u8>) {}
}

/// Appends the bytes of a message to `out`. Messages of other kinds and bad ones have no bytes of their own:
/// nothing is appended for them, and the result is `false`.
pub fn encode(config: &Config, packet: &Packet, out: &mut Vec<u8>) -> bool {
    let from = out.len();
    let mut writer = MessageWriter { out, pending: 0, bits: 0 };
    let source = (packet.source, u32::from(config.source_bits.min(MOST_SOURCE_BITS)));
    if !write(&packet.message, source, &mut writer) {
        out.truncate(from);
        return false;
    }
    if let Some(timestamp) = packet.timestamp {
        writer.variable(timestamp);
    }
    if let Some(last) = out.last_mut() {
        *last |= 0b11;
    }
    true
}

/// Packs fields into bytes of six bits of data.
struct MessageWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u128,
    bits: u32,
}

impl MessageWriter<'_> {
    fn fixed(&mut self, value: u64, width: u32) {
        let value = value & ((1 << width) - 1);
        self.pending |= u128::from(value) << self.bits;
        self.bits += width;
        while self.bits >= 6 {
            self.byte();
        }
    }

    /// A field of variable size: as many bytes as it needs, at least one of its own or shared with fixed fields.
    fn variable(&mut self, value: u64) {
        self.pending |= u128::from(value) << self.bits;
        self.bits += 64 - value.leading_zeros();
        let from = self.out.len();
        while self.bits > 0 || self.out.len() == from {
            self.byte();
        }
        if let Some(last) = self.out.last_mut() {
            *last |= 0b01;
        }
    }

    fn byte(&mut self) {
        self.out.push(((self.pending & 0x3F) as u8) << 2);
        self.pending >>= 6;
        self.bits = self.bits.saturating_sub(6);
    }
}

fn write(message: &Message, (source, source_bits): (u16, u32), to: &mut MessageWriter<'_>) -> bool {
    let begin = |to: &mut MessageWriter<'_>, code: u8| {
        to.fixed(u64::from(code), 6);
        to.fixed(u64::from(source), source_bits);
    };
    match *message {
        Message::Ownership { process } => {
            begin(to, tcode::OWNERSHIP);
            to.variable(process);
        }
        Message::DirectBranch { count } => {
            begin(to, tcode::DIRECT_BRANCH);
            to.variable(u64::from(count));
        }
        Message::IndirectBranch { kind, count, address } => {
            begin(to, tcode::INDIRECT_BRANCH);
            to.fixed(u64::from(kind.bits()), 2);
            to.variable(u64::from(count));
            to.variable(address);
        }
        Message::Error { kind, code } => {
            begin(to, tcode::ERROR);
            to.fixed(u64::from(kind), 4);
            to.variable(code);
        }
        Message::ProgramTraceSync { reason, count, address } => {
            begin(to, tcode::PROGRAM_TRACE_SYNC);
            to.fixed(u64::from(reason), 4);
            to.variable(u64::from(count));
            to.variable(address);
        }
        Message::DirectBranchSync { reason, count, address } => {
            begin(to, tcode::DIRECT_BRANCH_SYNC);
            to.fixed(u64::from(reason), 4);
            to.variable(u64::from(count));
            to.variable(address);
        }
        Message::IndirectBranchSync { reason, kind, count, address } => {
            begin(to, tcode::INDIRECT_BRANCH_SYNC);
            to.fixed(u64::from(reason), 4);
            to.fixed(u64::from(kind.bits()), 2);
            to.variable(u64::from(count));
            to.variable(address);
        }
        Message::ResourceFull(resource) => {
            begin(to, tcode::RESOURCE_FULL);
            return resource_full(resource, to);
        }
        Message::IndirectBranchHistory { kind, count, address, history } => {
            begin(to, tcode::INDIRECT_BRANCH_HISTORY);
            to.fixed(u64::from(kind.bits()), 2);
            to.variable(u64::from(count));
            to.variable(address);
            to.variable(history.0);
        }
        Message::IndirectBranchHistorySync { reason, kind, count, address, history } => {
            begin(to, tcode::INDIRECT_BRANCH_HISTORY_SYNC);
            to.fixed(u64::from(reason), 4);
            to.fixed(u64::from(kind.bits()), 2);
            to.variable(u64::from(count));
            to.variable(address);
            to.variable(history.0);
        }
        Message::RepeatBranch { count } => {
            begin(to, tcode::REPEAT_BRANCH);
            to.variable(u64::from(count));
        }
        Message::ProgramTraceCorrelation { reason, count, history } => {
            begin(to, tcode::PROGRAM_TRACE_CORRELATION);
            to.fixed(u64::from(reason), 4);
            to.fixed(u64::from(history.is_some()), 2);
            to.variable(u64::from(count));
            if let Some(history) = history {
                to.variable(history.0);
            }
        }
        Message::DataAcquisition { tag, data, old } => {
            begin(to, if old { tcode::AUX_ACCESS_WRITE } else { tcode::DATA_ACQUISITION });
            to.variable(u64::from(tag));
            to.variable(data);
        }
        Message::InCircuitTrace { event, is_sync, first, second } => {
            begin(to, if is_sync { tcode::IN_CIRCUIT_TRACE_SYNC } else { tcode::IN_CIRCUIT_TRACE });
            to.fixed(u64::from(event), 4);
            to.fixed(u64::from(second.is_some()), 2);
            to.variable(first);
            if let Some(second) = second {
                to.variable(second);
            }
        }
        Message::Other(_) | Message::Bad(_) => return false,
    }
    true
}

fn resource_full(resource: Resource, to: &mut MessageWriter<'_>) -> bool {
    match resource {
        Resource::Count(count) => {
            to.fixed(0, 4);
            to.variable(u64::from(count));
        }
        Resource::History(history) => {
            to.fixed(1, 4);
            to.variable(history.0);
        }
        Resource::HistoryRepeat { history, times } => {
            to.fixed(2, 4);
            to.variable(history.0);
            to.variable(u64::from(times));
        }
        Resource::Run { taken, branches } => {
            to.fixed(if taken { 9 } else { 8 }, 4);
            to.variable(u64::from(branches));
        }
        Resource::Other(_) => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntrace::{
        Bad, BranchKind, Decoder, History, INSTRUCTION_COUNT_BITS, REPETITION_BITS, messages,
    };
    use alloc::vec;
    use backsight_core::Located;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
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
            (nibble(), count(), any::<u64>())
                .prop_map(|(reason, count, address)| Message::ProgramTraceSync { reason, count, address }),
            (nibble(), count(), any::<u64>())
                .prop_map(|(reason, count, address)| Message::DirectBranchSync { reason, count, address }),
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
            (any::<u32>(), any::<u64>(), any::<bool>())
                .prop_map(|(tag, data, old)| Message::DataAcquisition { tag, data, old }),
            (nibble(), any::<bool>(), any::<u64>(), any::<Option<u64>>()).prop_map(
                |(event, is_sync, first, second)| Message::InCircuitTrace { event, is_sync, first, second }
            ),
            (nibble(), count(), proptest::option::of(history())).prop_map(|(reason, count, history)| {
                Message::ProgramTraceCorrelation { reason, count, history }
            }),
        ]
    }

    fn any_packet(config: Config) -> impl Strategy<Value = Packet> {
        let sources = 1u16 << config.source_bits;
        (0..sources, any::<Option<u64>>(), any_message())
            .prop_map(|(source, timestamp, message)| Packet::new(source, timestamp, message))
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            (config, packets) in (0..=12u8).prop_flat_map(|source_bits| {
                let config = Config::with_source_bits(source_bits);
                (Just(config), proptest::collection::vec(any_packet(config), 0..20))
            }),
            split in any::<usize>(),
        ) {
            let mut bytes = Vec::new();
            for packet in &packets {
                prop_assert!(encode(&config, packet, &mut bytes));
                bytes.push(0xFF);
            }
            let mut decoded = Vec::new();
            let mut decoder = Decoder::new(&config);
            let (head, tail) = bytes.split_at(split % (bytes.len() + 1));
            let mut sink = |packet: Located<Packet>| decoded.push(Packet { address: None, ..packet.value });
            decoder.feed(head, &mut sink);
            decoder.feed(tail, &mut sink);
            decoder.finish(&mut sink);
            prop_assert_eq!(&decoded, &packets);
            prop_assert_eq!(decoder.accounting().decoded, bytes.len() as u64);
        }

        #[test]
        fn every_byte_of_anything_is_accounted_for(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::new(&Config::default());
            let mut end = 0;
            decoder.feed(&bytes, &mut |packet: Located<Packet>| end = packet.end());
            decoder.finish(&mut |packet: Located<Packet>| end = packet.end());
            prop_assert!(end <= bytes.len() as u64);
            prop_assert_eq!(decoder.accounting().total(), bytes.len() as u64);
        }
    }

    #[test]
    fn a_reserved_marker_spoils_only_its_own_message() {
        let bytes = [0x24, 0x06, 0x43, 0x0C, 0x17];
        let found: Vec<_> =
            messages(&Config::default(), &bytes).iter().map(|packet| packet.value.message).collect();
        assert_eq!(found, [Message::Bad(Bad::Marker), Message::DirectBranch { count: 5 }]);
    }

    #[test]
    fn a_message_that_is_cut_off_is_bad() {
        let found = messages(&Config::default(), &[0x24, 0x05]);
        assert!(matches!(
            found[..],
            [Located { value: Packet { message: Message::Bad(Bad::Incomplete), .. }, .. }]
        ));
    }

    #[test]
    fn counts_beyond_their_fields_are_damage() {
        let most = (1 << INSTRUCTION_COUNT_BITS) - 1;
        let found = |message| {
            let mut bytes = Vec::new();
            assert!(encode(&Config::default(), &Packet::new(0, None, message), &mut bytes));
            messages(&Config::default(), &bytes).first().map(|packet| packet.value.message)
        };
        let good = Message::DirectBranch { count: most };
        assert_eq!(found(good), Some(good));
        let bad = Some(Message::Bad(Bad::TooLong));
        assert_eq!(found(Message::DirectBranch { count: most + 1 }), bad);
        assert_eq!(found(Message::RepeatBranch { count: 1 << REPETITION_BITS }), bad);
        let resource = Resource::HistoryRepeat { history: History(2), times: 1_431_743_824 };
        assert_eq!(found(Message::ResourceFull(resource)), bad);
    }
}
