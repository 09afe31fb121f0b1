//! Messages to bytes.

use alloc::vec::Vec;

use super::config::Config;
use super::fields::FieldWriter;
use super::packet::{self, Packet};

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
    let mut writer = FieldWriter::new(out);
    if !packet::write(&packet.message, (packet.source, config.source_width()), &mut writer) {
        out.truncate(from);
        return false;
    }
    if let Some(timestamp) = packet.timestamp {
        writer.variable(timestamp);
    }
    writer.finish();
    true
}

#[cfg(test)]
mod tests {
    use super::super::testing::any_packet;
    use super::*;
    use crate::ntrace::{
        Bad, Decoder, History, INSTRUCTION_COUNT_BITS, Message, REPETITION_BITS, Resource, messages,
    };
    use backsight_core::Located;
    use proptest::prelude::*;

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
