//! What is found in a stream, and whose it is.

use super::{BadPacket, Packet, data};
use crate::encap::{FramingFault, Kind};
use crate::ingress::DataRecord;

/// One packet of a stream with the source that sent it, or bytes that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The hart or other source, 0 where the framing has no numbers. `None` where nobody knows: null packets and bytes
    /// that are no frame.
    pub source: Option<u16>,
    /// The time in the frame, where the framing has one.
    pub time: Option<u64>,
    /// What was found.
    pub content: Content,
}

/// What is found in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet of instruction trace.
    Instruction(Packet),
    /// A packet of data trace.
    Data {
        /// The packet as it was sent.
        packet: data::Packet,
        /// The access that it means after the packets before.
        record: Result<DataRecord, data::BadData>,
    },
    /// A packet of another kind: how many bytes its payload has.
    Other(Kind, u16),
    /// A null packet: idle or alignment.
    Null,
    /// A payload that is no packet of instruction trace.
    BadPacket(BadPacket),
    /// A payload that is no packet of data trace.
    BadData(data::BadData),
    /// Bytes that are no frame.
    BadFrame(FramingFault),
}

const _: () = assert!(size_of::<Message>() <= 256);

impl From<Packet> for Message {
    /// A packet of instruction trace of source 0, without a time.
    #[inline]
    fn from(packet: Packet) -> Self {
        Self { source: Some(0), time: None, content: Content::Instruction(packet) }
    }
}

impl From<Result<Packet, BadPacket>> for Message {
    /// A payload of instruction trace of source 0, without a time.
    #[inline]
    fn from(decoded: Result<Packet, BadPacket>) -> Self {
        let content = match decoded {
            Ok(packet) => Content::Instruction(packet),
            Err(why) => Content::BadPacket(why),
        };
        Self { source: Some(0), time: None, content }
    }
}
