//! What a decode can go for.

use std::marker::PhantomData;

use backsight_core::{Accounting, Located};
use backsight_flow::etm4::Record;
use backsight_flow::{Event, Statistics};

use super::Decode;
use super::consumer::AnyConsumer;
use super::execute::{Executed, Spreading};
use super::summary::{About, Summary};
use super::timed::TimedStream;
use crate::code::Code;
use crate::protocol::{
    self, Act, AnySink, AnyStream, Following, Kinds, Landmark, Packet, PacketStream, Resumable, Stream,
    StreamSink,
};
use crate::{Error, Result, Source};

/// What a decode goes for: [`Packets`], [`Execution`] or [`Branches`].
pub trait Kind: Clone + Send + Sync + 'static {
    /// What comes out.
    type Value: Copy + Send + 'static;
    /// What it comes out of.
    #[doc(hidden)]
    type Stream<'c>: AnyStream<Value = Self::Value> + Send;

    /// The items are looked up in code.
    #[doc(hidden)]
    const NEEDS_CODE: bool;
    /// The items have bytes of their own.
    #[doc(hidden)]
    const HAS_BYTES: bool;
    /// The items of several sources come in the order of the capture.
    #[doc(hidden)]
    const IN_ORDER: bool;
    #[doc(hidden)]
    const ABOUT: Purpose;

    /// The stream of a source; `None` if its protocol is not decoded.
    #[doc(hidden)]
    fn stream<'c>(&self, source: &Source, code: Option<&'c Code>) -> Result<Option<Self::Stream<'c>>>;

    /// Decodes for a consumer. To be written as `decode.run_any(consumer)` in each type, and so is the next one: a default would be
    /// compiled in each crate that uses it.
    #[doc(hidden)]
    fn run(decode: &Decode<'_, Self>, consumer: &mut dyn AnyConsumer<Self::Value>) -> Result<Summary>;

    /// Decodes for consumers of sources, or of parts of them: `decode.spread_out(spreading)`.
    #[doc(hidden)]
    fn spread<'c>(decode: &Decode<'c, Self>, spreading: Spreading<'c, '_, '_, Self>) -> Result<Executed>;

    /// The item became known only with the one after it.
    #[doc(hidden)]
    fn is_late(_value: &Self::Value) -> bool {
        false
    }
}

/// What a summary is about.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Purpose(pub(crate) About);

/// Packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets(());

impl Kind for Packets {
    type Value = Packet;
    type Stream<'c> = protocol::Packets;

    const NEEDS_CODE: bool = false;
    const HAS_BYTES: bool = true;
    const IN_ORDER: bool = true;
    const ABOUT: Purpose = Purpose(About::Packets);

    fn run(decode: &Decode<'_, Self>, consumer: &mut dyn AnyConsumer<Self::Value>) -> Result<Summary> {
        decode.run_any(consumer)
    }

    fn spread<'c>(decode: &Decode<'c, Self>, spreading: Spreading<'c, '_, '_, Self>) -> Result<Executed> {
        decode.spread_out(spreading)
    }

    fn stream(&self, source: &Source, _code: Option<&Code>) -> Result<Option<protocol::Packets>> {
        Ok(source.decoding().packets())
    }

    fn is_late(packet: &Packet) -> bool {
        packet.landmark(None) == Landmark::Unsynchronised
    }
}

/// Execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execution {
    pub(super) following: Following,
}

impl Kind for Execution {
    type Value = Event;
    type Stream<'c> = TimedStream<'c>;

    const NEEDS_CODE: bool = true;
    const HAS_BYTES: bool = false;
    const IN_ORDER: bool = false;
    const ABOUT: Purpose = Purpose(About::Execution);

    fn run(decode: &Decode<'_, Self>, consumer: &mut dyn AnyConsumer<Self::Value>) -> Result<Summary> {
        decode.run_any(consumer)
    }

    fn spread<'c>(decode: &Decode<'c, Self>, spreading: Spreading<'c, '_, '_, Self>) -> Result<Executed> {
        decode.spread_out(spreading)
    }

    fn stream<'c>(&self, source: &Source, code: Option<&'c Code>) -> Result<Option<TimedStream<'c>>> {
        let Some(code) = code else { return Ok(None) };
        let stream = source.decoding().execution(code.seen_by(source), &self.following);
        let stream = stream.map_err(|why| refusal(source, why))?;
        Ok(stream.map(|stream| TimedStream::new(stream, source, code)))
    }
}

/// Branches, from packets alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Branches(());

impl Kind for Branches {
    type Value = Record;
    type Stream<'c> = protocol::Branches;

    const NEEDS_CODE: bool = false;
    const HAS_BYTES: bool = false;
    const IN_ORDER: bool = false;
    const ABOUT: Purpose = Purpose(About::Execution);

    fn run(decode: &Decode<'_, Self>, consumer: &mut dyn AnyConsumer<Self::Value>) -> Result<Summary> {
        decode.run_any(consumer)
    }

    fn spread<'c>(decode: &Decode<'c, Self>, spreading: Spreading<'c, '_, '_, Self>) -> Result<Executed> {
        decode.spread_out(spreading)
    }

    fn stream(&self, source: &Source, _code: Option<&Code>) -> Result<Option<protocol::Branches>> {
        source.decoding().branches().map_err(|why| refusal(source, why))
    }
}

fn refusal(source: &Source, why: &str) -> Error {
    Error::misuse(format!("source {}: {why}", source.name()))
}

/// Packets that are counted, not looked at.
#[derive(Clone, Copy, Debug)]
pub struct Counts<M>(PhantomData<fn() -> M>);

/// How packets are counted.
pub trait Counting: 'static {
    /// Counts the packets of some bytes.
    #[doc(hidden)]
    fn count(stream: &mut protocol::Packets, bytes: &[u8], kinds: &mut Kinds);
}

/// Their number.
#[derive(Clone, Copy, Debug)]
pub enum Number {}

impl Counting for Number {
    fn count(stream: &mut protocol::Packets, bytes: &[u8], _kinds: &mut Kinds) {
        stream.count(bytes);
    }
}

/// Their number and bytes, by kind.
#[derive(Clone, Copy, Debug)]
pub enum ByKind {}

impl Counting for ByKind {
    fn count(stream: &mut protocol::Packets, bytes: &[u8], kinds: &mut Kinds) {
        stream.tally(bytes, kinds);
    }
}

impl<M> Default for Counts<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A stream of packets that are counted: nothing comes out.
#[doc(hidden)]
pub struct CountedStream<M> {
    stream: protocol::Packets,
    kinds: Kinds,
    how: PhantomData<fn() -> M>,
}

impl<M: Counting> AnyStream for CountedStream<M> {
    fn act(&mut self, act: Act<'_>, sink: &mut dyn AnySink<()>) {
        act.on(self, sink);
    }
}

impl<M: Counting> Stream for CountedStream<M> {
    type Value = ();

    fn feed<S: StreamSink<()>>(&mut self, bytes: &[u8], _sink: &mut S) {
        M::count(&mut self.stream, bytes, &mut self.kinds);
    }

    fn finish<S: StreamSink<()>>(&mut self, _sink: &mut S) {
        let Self { stream, kinds, .. } = self;
        stream.finish(&mut |_, packet: Located<Packet>| {
            kinds.add(packet.value.name(), 1, packet.length.into())
        });
    }

    fn reset<S: StreamSink<()>>(&mut self, _sink: &mut S) {
        let Self { stream, kinds, .. } = self;
        stream
            .reset(&mut |_, packet: Located<Packet>| kinds.add(packet.value.name(), 1, packet.length.into()));
    }

    fn accounting(&self) -> Accounting {
        self.stream.accounting()
    }

    fn packets(&self) -> u64 {
        self.stream.packets()
    }

    fn statistics(&self) -> Statistics {
        self.stream.statistics()
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        self.stream.resumable()
    }

    fn kinds(&mut self) -> Kinds {
        self.stream.settle(&mut self.kinds);
        self.kinds.clone()
    }

    fn notes(&self) -> protocol::Notes {
        self.stream.notes()
    }
}

impl<M: Counting> Kind for Counts<M>
where
    Self: Clone,
{
    type Value = ();
    type Stream<'c> = CountedStream<M>;

    const NEEDS_CODE: bool = false;
    const HAS_BYTES: bool = false;
    const IN_ORDER: bool = false;
    const ABOUT: Purpose = Purpose(About::Packets);

    fn run(decode: &Decode<'_, Self>, consumer: &mut dyn AnyConsumer<Self::Value>) -> Result<Summary> {
        decode.run_any(consumer)
    }

    fn spread<'c>(decode: &Decode<'c, Self>, spreading: Spreading<'c, '_, '_, Self>) -> Result<Executed> {
        decode.spread_out(spreading)
    }

    fn stream(&self, source: &Source, _code: Option<&Code>) -> Result<Option<CountedStream<M>>> {
        let stream = source.decoding().packets();
        Ok(stream.map(|stream| CountedStream { stream, kinds: Kinds::default(), how: PhantomData }))
    }
}
