//! Encapsulated packets on an AMBA Trace Bus.
//!
//! ATB carries words with the number of valid bytes and the source's ATID. Byte 0 of the stream is in the low lane;
//! every packet begins a new word.

use alloc::vec::Vec;

/// One transfer on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AtbBeat {
    /// Source.
    pub atid: u8,
    /// Valid bytes less one.
    pub atbytes: u8,
    /// The word, byte 0 in the low lane.
    pub atdata: u64,
}

/// Cuts one encapsulated packet into words of `width` bytes (1 to 8).
pub fn atb_beats(atid: u8, packet: &[u8], width: usize) -> impl Iterator<Item = AtbBeat> + '_ {
    packet.chunks(width.clamp(1, 8)).map(move |lanes| AtbBeat {
        atid,
        atbytes: (lanes.len() - 1) as u8,
        atdata: lanes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    })
}

/// The bytes of one source, in order.
pub fn atb_bytes(atid: u8, beats: impl IntoIterator<Item = AtbBeat>) -> Vec<u8> {
    beats
        .into_iter()
        .filter(|beat| beat.atid == atid)
        .flat_map(|beat| beat.atdata.to_le_bytes().into_iter().take(usize::from(beat.atbytes.min(7)) + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_examples_give_their_words() {
        let mut packet = std::vec![0x05];
        packet.extend([0x32, 0x04, 0x00, 0x00, 0x02]);
        let beats: Vec<_> = atb_beats(1, &packet, 4).collect();
        let word = |atbytes, atdata| AtbBeat { atid: 1, atbytes, atdata };
        assert_eq!(beats, [word(3, 0x0004_3205), word(1, 0x0200)]);
        assert_eq!(atb_bytes(1, beats), packet);
        assert!(atb_bytes(2, [word(3, 1)]).is_empty());
    }
}
