//! From packets of all sources to the bytes of a stream: the way back from [`Decoder`](super::Decoder).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::{Config, Content, DataOptions, Message, Options, Packet, Params, data, encode};
use crate::encap::{Encapsulated, FrameError, Framer, Framing, Kind};
use crate::per_source::PerSource;

/// Sources of a stream: what a number of 16 bits can distinguish.
const MOST_SOURCES: usize = 1 << 16;

/// Why a message has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The framing has no room for it.
    Frame(FrameError),
    /// The layout of data packets has none for the access, or none that is sent like this.
    Data,
    /// It is no packet: bad bytes, or a packet of another kind, of which only the length is known.
    NoPacket,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Data => f.write_str("there is no data packet for the access"),
            Self::NoPacket => f.write_str("what is no packet has no bytes of its own"),
        }
    }
}

impl core::error::Error for EncodeError {}

impl From<FrameError> for EncodeError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// Encodes a stream. Options that support packets announce hold from then on, for each source.
#[derive(Clone, Debug)]
pub struct Encoder {
    config: Config,
    framer: Framer,
    sources: PerSource<SourceEncoder>,
}

#[derive(Clone, Debug)]
struct SourceEncoder {
    params: Params,
    options: Options,
    data_options: DataOptions,
    /// There is one once the source sent data trace.
    data: Option<Box<data::Encoder>>,
}

impl Encoder {
    /// An encoder at the beginning of a stream.
    pub const fn new(config: &Config) -> Self {
        Self { config: *config, framer: Framer::new(config.framing), sources: PerSource::new(MOST_SOURCES) }
    }

    /// Appends the bytes of a message to `out`.
    ///
    /// # Errors
    /// If it has none; nothing is appended then.
    pub fn put(&mut self, message: &Message, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if message.content == Content::Null && self.config.framing != Framing::Pulp {
            out.push(0);
            return Ok(());
        }
        let Config { params, options, .. } = self.config;
        let fresh = || SourceEncoder { params, options, data_options: DataOptions::default(), data: None };
        let number = message.source.ok_or(EncodeError::NoPacket)?;
        let source = self.sources.of(number, fresh).ok_or(EncodeError::NoPacket)?;
        let (kind, payload) = match &message.content {
            Content::Instruction(packet) => (Kind::Instruction, source.instruction(packet)),
            Content::Data(traced) => (Kind::Data, source.data(traced).ok_or(EncodeError::Data)?),
            _ => return Err(EncodeError::NoPacket),
        };
        self.put_payload(number, kind, message.time, &payload, out)?;
        Ok(())
    }

    /// Appends a packet of which the payload is there already.
    ///
    /// # Errors
    /// If the framing has no room for it.
    #[inline]
    pub fn put_payload(
        &mut self,
        source: u16,
        kind: Kind,
        time: Option<u64>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        self.framer.frame(&Encapsulated { source, kind, flow: 0, time, payload }, out)
    }

    /// Appends what a decoder that begins in the middle of a stream looks for, where the framing has such a thing.
    pub fn synchronise(&self, out: &mut Vec<u8>) {
        self.framer.synchronise(out);
    }

    /// The stream ends. Every packet is complete by itself: nothing is appended.
    pub const fn finish(&mut self, _out: &mut Vec<u8>) {}
}

impl SourceEncoder {
    fn instruction(&mut self, packet: &Packet) -> super::Payload {
        let payload = encode(packet, &self.params, &self.options);
        match packet {
            Packet::Support(support) => {
                support.announce(&mut self.params, &mut self.options);
                self.data_options = support.data_options;
                if let Some(data) = &mut self.data {
                    data.configure(&self.params, &self.data_options);
                    if support.dloss {
                        data.synchronise();
                    }
                }
            }
            packet if packet.is_sync() => self.data.iter_mut().for_each(|data| data.synchronise()),
            _ => {}
        }
        payload
    }

    fn data(&mut self, traced: &data::Traced) -> Option<super::Payload> {
        let Self { params, data_options, data, .. } = self;
        data.get_or_insert_with(|| Box::new(data::Encoder::new(params, data_options))).put(traced)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, ImplicitReturn};
    use super::*;
    use crate::encap::Encapsulation;
    use backsight_core::Located;
    use proptest::prelude::*;

    /// Messages without their addresses: those are not known after something bad.
    fn decode(config: &Config, bytes: &[u8]) -> Vec<Message> {
        let (mut decoder, mut messages) = (Decoder::new(config), Vec::new());
        let mut sink = |found: Located<Message>| messages.push(Message { address: None, ..found.value });
        decoder.feed(bytes, &mut sink);
        decoder.finish(&mut sink);
        messages
    }

    fn is_packet(message: &Message) -> bool {
        matches!(message.content, Content::Instruction(_) | Content::Data(_) | Content::Null)
    }

    fn is_support(message: &Message) -> bool {
        matches!(message.content, Content::Instruction(Packet::Support(_)))
    }

    proptest! {
        #[test]
        fn what_a_decoder_finds_encodes_to_bytes_in_which_it_finds_the_same(
            frames in prop::collection::vec(
                (any::<u8>(), any::<bool>(), prop::collection::vec(any::<u8>(), 1..12)), 0..40),
            source_bits in 0u8..=8,
            time_bytes in 0u8..=8,
            data_split in 0u8..=1,
            reference: bool,
            standard_layout: bool,
        ) {
            let params = Params {
                iaddress_width: 40, f0s_width: 1, cache_size: 4, bpred_size: 4, return_stack_size: 2,
                data_width: 64, daddress_width: 40, dtype_width: 4, lrid_width: 4, data_split,
                implicit_return: ImplicitReturn::Returns,
                layout: if standard_layout { super::super::SupportLayout::Standard } else { Default::default() },
                ..Params::default()
            };
            let options = Options { jump_target_cache: true, branch_prediction: true, ..Options::default() };
            let framing = match reference {
                true => Framing::Reference { hart_bits: source_bits },
                false => Framing::Standard(Encapsulation { source_bits, time_bytes, type_bits: 2 }),
            };
            let config = Config { params, options, framing };
            let (mut framer, mut bytes) = (Framer::new(framing), Vec::new());
            for (number, is_data, payload) in &frames {
                let kind = if *is_data { Kind::Data } else { Kind::Instruction };
                let source = u16::from(number & 3) & ((1 << source_bits) - 1);
                let time = (number & 8 != 0 && (reference || time_bytes > 0)).then_some(u64::from(*number));
                framer.frame(&Encapsulated { source, kind, flow: 0, time, payload }, &mut bytes).unwrap();
            }
            // What is bad is left out, and then what refers to it, until nothing is bad any more. Options that a support packet
            // announces are doubted until a synchronisation confirms them, and what was bad no longer ends that: it may take
            // another round until all is the same.
            let mut found = decode(&config, &bytes);
            let has_support = found.iter().any(is_support);
            let (mut settled, mut rounds) = (false, 0);
            while !settled {
                let mut messages = found;
                messages.retain(is_packet);
                let (mut encoder, mut again) = (Encoder::new(&config), Vec::new());
                messages.retain(|message| encoder.put(message, &mut again).is_ok());
                encoder.finish(&mut again);
                found = decode(&config, &again);
                prop_assert_eq!(found.len(), messages.len());
                settled = found.iter().all(is_packet) && (!has_support || found == messages);
                if settled {
                    prop_assert_eq!(&found, &messages);
                }
                rounds += 1;
                prop_assert!(rounds < 100);
            }
        }
    }
}
