//! What a decoder knows between two bytes, to leave it and to take it up again.
//!
//! Two decoders of one stream that know the same at the same byte give the same packets from there on, wherever they
//! began. That is how pieces of one stream can be decoded apart and put together.

use super::{Decoder, Search};
use crate::etm4::MAX_PACKET;
use crate::etm4::packet::ASYNC_ZEROS;
use crate::etm4::state::StreamState;
use crate::sync;

/// All that decides which packets a [`Decoder`] gives for the bytes that follow. What it has counted is no part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderState {
    state: StreamState,
    offset: u64,
    search: Option<Search>,
    carry: [u8; MAX_PACKET],
    carried: usize,
}

impl DecoderState {
    /// That of a decoder that begins with the byte at `offset` of a stream.
    pub const fn starting_at(offset: u64) -> Self {
        let (state, search) = (StreamState::START, Some(Search::new(offset)));
        Self { state, offset, search, carry: [0; MAX_PACKET], carried: 0 }
    }
}

impl Decoder {
    /// What it knows now.
    pub fn state(&self) -> DecoderState {
        let Self { reader, search, carry, carried, .. } = self;
        let mut kept = [0; MAX_PACKET];
        kept.iter_mut().zip(carry).take(*carried).for_each(|(kept, byte)| *kept = *byte);
        DecoderState {
            state: reader.state,
            offset: reader.offset,
            search: *search,
            carry: kept,
            carried: *carried,
        }
    }

    /// Goes on as a decoder of the same configuration that knows this. Counts go on.
    pub fn restore(&mut self, saved: &DecoderState) {
        self.reader.restore(saved.state, saved.offset);
        (self.search, self.carry, self.carried) = (saved.search, saved.carry, saved.carried);
    }
}

/// Where the last Async in `bytes` begins. No other packet has so many zeros in it, so decoding can begin there.
pub fn find_async(bytes: &[u8]) -> Option<usize> {
    sync::find_last(bytes, 0, ASYNC_ZEROS)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use backsight_core::Located;
    use proptest::prelude::*;

    use super::*;
    use crate::etm4::Packet;
    use crate::etm4::synthetic::WorstCase;
    use crate::etm4::testing::{configuration, draws, encode};

    fn feed(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Located<Packet>> {
        let mut packets = Vec::new();
        decoder.feed(bytes, &mut |packet| packets.push(packet));
        packets
    }

    proptest! {
        #[test]
        fn a_decoder_goes_on_where_another_one_was_left(
            config in configuration(),
            draws in draws(200),
            noise in prop::collection::vec(any::<u8>(), 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let (_, mut bytes) = encode(&config, &draws);
            bytes.extend(noise);
            let (before, after) = bytes.split_at(at.index(bytes.len()));
            let mut left = Decoder::new(&config);
            feed(&mut left, before);
            let mut taken_up = Decoder::new(&config);
            feed(&mut taken_up, after);
            taken_up.restore(&left.state());
            prop_assert_eq!(taken_up.state(), left.state());
            prop_assert_eq!(feed(&mut taken_up, after), feed(&mut left, after));
            prop_assert_eq!(taken_up.state(), left.state());
        }
    }

    #[test]
    fn decoders_that_began_elsewhere_know_the_same_after_a_while() {
        for case in WorstCase::ALL {
            let mut bytes = Vec::new();
            case.write(20_000, 3, &mut |packet| bytes.extend_from_slice(packet));
            let from = find_async(&bytes).expect("it is repeated");
            assert!(from > 0);
            let (mut all, mut late) = (Decoder::new(&case.config()), Decoder::new(&case.config()));
            late.restore(&DecoderState::starting_at(from as u64));
            feed(&mut all, &bytes[..from]);
            assert_ne!(all.state(), late.state());
            feed(&mut all, &bytes[from..]);
            feed(&mut late, &bytes[from..]);
            assert_eq!(all.state(), late.state());
        }
    }

    #[test]
    fn the_last_async_is_found_whatever_comes_before_it() {
        let mut bytes = std::vec![0x80; 30];
        assert_eq!(find_async(&bytes), None);
        bytes.extend([0; 12]);
        bytes.extend([0x80, 0, 0x80, 7]);
        assert_eq!(find_async(&bytes), Some(31));
        assert_eq!(find_async(&bytes[..42]), None);
        assert_eq!(find_async(&[]), None);
    }
}
