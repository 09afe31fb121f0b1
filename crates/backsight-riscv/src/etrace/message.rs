//! What is found in a stream, and whose it is.

use backsight_core::{Address, Located};

use super::{BadPacket, BranchMap, Packet, PacketLayout, Reported, data};
use crate::encap::{FramingFault, Kind};

/// One packet of a stream with the source that sent it, or bytes that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The hart or other source, 0 where the framing has no numbers. `None` where nobody knows: null packets and bytes
    /// that are no frame.
    pub source: Option<u16>,
    /// The time in the frame, where the framing has one.
    pub time: Option<u64>,
    /// The whole address that a packet of instruction trace reports. `None` where it reports none, or a difference to an
    /// address that is not known: that comes from the jump target cache, or packets before were lost.
    pub address: Option<Address>,
    /// How the packet's fields are laid out, for who lists them.
    pub layout: PacketLayout,
    /// What was found.
    pub content: Content,
}

/// What is found in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet of instruction trace.
    Instruction(Packet),
    /// A packet of data trace.
    Data(data::Traced),
    /// A packet of another kind: how many bytes its payload has.
    Other(Kind, u16),
    /// A null packet: idle or alignment.
    Null,
    /// A payload that is no packet of instruction trace.
    BadPacket(BadPacket),
    /// A payload that is no packet of data trace, or one that refers to packets that were not seen.
    BadData(data::BadData),
    /// Bytes that are no frame.
    BadFrame(FramingFault),
}

const _: () = assert!(size_of::<Message>() <= 120);

impl Message {
    /// What nobody is known to have sent.
    pub(super) const fn of_nobody(content: Content) -> Self {
        Self { source: None, time: None, address: None, layout: PacketLayout::NONE, content }
    }
}

impl From<Packet> for Message {
    /// A packet of instruction trace of source 0, without a time; what its fields look like is not known.
    #[inline]
    fn from(packet: Packet) -> Self {
        Self { source: Some(0), ..Self::of_nobody(Content::Instruction(packet)) }
    }
}

impl From<Result<Packet, BadPacket>> for Message {
    /// A payload of instruction trace of source 0, without a time; what its fields look like is not known.
    #[inline]
    fn from(decoded: Result<Packet, BadPacket>) -> Self {
        let content = match decoded {
            Ok(packet) => Content::Instruction(packet),
            Err(why) => Content::BadPacket(why),
        };
        Self { source: Some(0), ..Self::of_nobody(content) }
    }
}

/// Takes the messages of a stream. Every closure that takes a message is one.
pub trait MessageSink {
    /// Takes a message.
    fn take(&mut self, message: Located<Message>);

    /// Takes a packet of format 1 or 2. A long trace consists of little else: a sink that has a way of its own for them gets
    /// their fields in registers; everybody else gets a message.
    #[inline(always)]
    fn take_branches(&mut self, packet: Located<BranchPacket>) {
        self.take(packet.map(Message::from));
    }
}

impl<F: FnMut(Located<Message>)> MessageSink for F {
    #[inline(always)]
    fn take(&mut self, message: Located<Message>) {
        self(message);
    }
}

/// A packet of format 1 or 2, with what a [`Message`] says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchPacket {
    /// The hart or other source.
    pub source: u16,
    /// The time in the frame, where the framing has one.
    pub time: Option<u64>,
    /// The whole address that it reports, as in a [`Message`].
    pub address: Option<Address>,
    /// How its fields are laid out, for who lists them.
    pub layout: PacketLayout,
    /// Outcomes of branches.
    pub map: BranchMap,
    /// The address and its flags.
    pub reported: Option<Reported>,
}

impl From<BranchPacket> for Message {
    #[inline(always)]
    fn from(packet: BranchPacket) -> Self {
        let BranchPacket { source, time, address, layout, map, reported } = packet;
        let content = Content::Instruction(Packet::Branches { map, address: reported });
        Self { source: Some(source), time, address, layout, content }
    }
}
