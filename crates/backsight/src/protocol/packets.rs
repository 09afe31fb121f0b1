//! Bytes to packets, for protocols whose decoder gives packets one by one.

use std::fmt::Debug;

use backsight_core::{Accounting, Describe, Located, Resume};

use super::stream::{Kinds, Notes, PacketStream, Resumable, SavedState, Stream, StreamSink};

/// Turns bytes into packets.
pub trait PacketDecoder: Resume + Debug + Send + Sync + 'static {
    /// A packet.
    type Packet: Copy + Describe;

    /// What a user should know about the result, in words.
    const NOTE: Option<&'static str> = None;

    /// Takes the next bytes.
    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Self::Packet>));

    /// Bytes are missing here, or there are no more.
    fn reset(&mut self, sink: &mut impl FnMut(Located<Self::Packet>));

    /// There are no more bytes.
    fn finish(&mut self, sink: &mut impl FnMut(Located<Self::Packet>)) {
        self.reset(sink);
    }

    /// What became of the bytes.
    fn accounting(&self) -> Accounting;

    /// Are these bytes that were passed over, and no packet?
    fn is_skipped(_packet: &Self::Packet) -> bool {
        false
    }

    /// The hart that a packet is of, where several share one stream; else 0.
    fn sub_source(_packet: &Self::Packet) -> u16 {
        0
    }
}

/// Bytes to packets.
pub struct Packets<D> {
    decoder: D,
    packets: u64,
    /// What became of bytes before the decoder went on elsewhere.
    before: Accounting,
}

impl<D> Packets<D> {
    pub(super) fn new(decoder: D) -> Self {
        Self { decoder, packets: 0, before: Accounting::default() }
    }
}

/// Counts packets, and gives them on.
fn given<'s, D: PacketDecoder>(
    packets: &'s mut u64,
    sink: &'s mut impl StreamSink<D::Packet>,
) -> impl FnMut(Located<D::Packet>) {
    |packet| {
        *packets += u64::from(!D::is_skipped(&packet.value));
        sink.take(D::sub_source(&packet.value), packet);
    }
}

impl<D: PacketDecoder> Stream for Packets<D> {
    type Value = D::Packet;

    fn feed<S: StreamSink<D::Packet>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.decoder.feed(bytes, &mut given::<D>(&mut self.packets, sink));
    }

    fn finish<S: StreamSink<D::Packet>>(&mut self, sink: &mut S) {
        self.decoder.finish(&mut given::<D>(&mut self.packets, sink));
    }

    fn reset<S: StreamSink<D::Packet>>(&mut self, sink: &mut S) {
        self.decoder.reset(&mut given::<D>(&mut self.packets, sink));
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        if self.decoder.synchronises() { Some(self) } else { None }
    }

    fn accounting(&self) -> Accounting {
        let mut sum = self.before;
        sum += self.decoder.accounting();
        sum
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn notes(&self) -> Notes {
        Notes::of(D::NOTE.map(str::to_owned))
    }
}

impl<D: PacketDecoder> PacketStream for Packets<D> {
    fn count(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes, &mut |packet| {
            // Who measures wants the packets to be made.
            self.packets += u64::from(!D::is_skipped(&std::hint::black_box(packet).value));
        });
    }

    fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds) {
        self.decoder.feed(bytes, &mut |packet| {
            if !D::is_skipped(&packet.value) {
                self.packets += 1;
                kinds.add(packet.value.name(), 1, packet.length.into());
            }
        });
    }
}

impl<D: PacketDecoder> Resumable for Packets<D> {
    fn state(&self) -> SavedState {
        SavedState::new(self.decoder.state())
    }

    fn restore(&mut self, state: &SavedState) {
        if let Some(state) = state.get::<D>() {
            self.before = self.accounting();
            self.decoder = state.clone();
        }
    }

    fn starting_at(&self, offset: u64, earlier: Option<&SavedState>) -> SavedState {
        let earlier = earlier.and_then(SavedState::get::<D>);
        SavedState::new(
            earlier
                .map_or_else(|| self.decoder.starting_at(offset), |earlier| earlier.starting_later(offset)),
        )
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.decoder.last_sync(bytes, from)
    }
}
