//! Data transfers and the instructions that made them.
//!
//! An ETMv4 with data trace sends two streams. The instruction stream has P0 elements: atoms, exceptions, and loads and
//! stores. The data stream has P1 elements, the transfers with their addresses, and P2 elements, their values. Elements
//! name their parents by keys: a P2 has the key of its P1, a P1 that of its P0. Keys are few and repeat, so equality alone
//! is ambiguous: markers that the unit puts into both streams cut them into corresponding pieces, and a key is looked up
//! around the corresponding marker.
//!
//! What packets of the data stream say is not established, so nothing here reads bytes: a caller that knows the elements pushes
//! them in.

use std::collections::VecDeque;

use backsight_core::Address;

/// A point that both streams have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Without a number: the next one of the other stream.
    Unnumbered,
    /// With a number, 0 to 7.
    Numbered(u8),
}

/// Which element of the instruction stream: they are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct P0(pub u64);

/// A transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P1 {
    /// The key of its P0.
    pub left_key: u32,
    /// Its own key, which its value has.
    pub right_key: u32,
    /// The address; `None` if it was suppressed.
    pub address: Option<Address>,
}

/// A transfer with all that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The element that made it; `None` if none near the marker has its key.
    pub parent: Option<P0>,
    /// The address.
    pub address: Option<Address>,
    /// The value; `None` if none came.
    pub value: Option<u64>,
}

/// Pieces of the instruction stream that are remembered.
const MOST_PIECES: usize = 16;
/// Elements of a piece, and transfers that wait for their value.
const MOST_ELEMENTS: usize = 1 << 12;

/// Matches the elements of two streams.
#[derive(Clone, Debug)]
pub struct DataMatcher {
    keys: u32,
    /// The key of the next P0, and its number.
    next: (u32, u64),
    /// The newest last; each begins with a marker, but for the first.
    pieces: VecDeque<Piece>,
    /// The number of the first piece.
    first: u64,
    /// The piece that the data stream is in.
    current: u64,
    /// Transfers in the order of the data stream, the oldest first.
    waiting: VecDeque<(u32, Transfer)>,
}

#[derive(Clone, Debug, Default)]
struct Piece {
    marker: Option<Marker>,
    /// Keys and numbers.
    elements: VecDeque<(u32, P0)>,
}

impl DataMatcher {
    /// For a unit with so many keys of P0 elements (TRCIDR9; 0 means 1), from the key that trace info gives.
    pub fn new(keys: u32, first_key: u32) -> Self {
        let keys = keys.max(1);
        Self {
            keys,
            next: (first_key % keys, 0),
            pieces: VecDeque::from([Piece::default()]),
            first: 0,
            current: 0,
            waiting: VecDeque::new(),
        }
    }

    /// The instruction stream has an element. Its key is one more than that of the element before.
    pub fn p0(&mut self) -> P0 {
        let (key, number) = self.next;
        self.next = ((key + 1) % self.keys, number + 1);
        if let Some(piece) = self.pieces.back_mut() {
            if piece.elements.len() == MOST_ELEMENTS {
                piece.elements.pop_front();
            }
            piece.elements.push_back((key, P0(number)));
        }
        P0(number)
    }

    /// The instruction stream has a marker.
    pub fn instruction_marker(&mut self, marker: Marker) {
        self.pieces.push_back(Piece { marker: Some(marker), elements: VecDeque::new() });
        if self.pieces.len() > MOST_PIECES {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// The data stream has a marker: it goes on where the instruction stream has the same one. One with a number may be
    /// further on, if markers were lost; false if there is none.
    pub fn data_marker(&mut self, marker: Marker) -> bool {
        let from = (self.current + 1).saturating_sub(self.first) as usize;
        let mut later = self.pieces.iter().enumerate().skip(from);
        let found = match marker {
            // Those with a number are not passed over.
            Marker::Unnumbered => later.next().filter(|(_, piece)| piece.marker == Some(marker)),
            Marker::Numbered(_) => later.find(|(_, piece)| piece.marker == Some(marker)),
        };
        match found {
            Some((index, _)) => {
                self.current = self.first + index as u64;
                true
            }
            None => false,
        }
    }

    /// The data stream has a transfer.
    pub fn p1(&mut self, p1: P1, sink: &mut impl FnMut(Transfer)) {
        if self.waiting.len() == MOST_ELEMENTS
            && let Some((_, transfer)) = self.waiting.pop_front()
        {
            sink(transfer);
        }
        let parent = self.parent(p1.left_key);
        self.waiting.push_back((p1.right_key, Transfer { parent, address: p1.address, value: None }));
    }

    /// The data stream has a value: that of the oldest transfer with the key. False if there is none.
    pub fn p2(&mut self, key: u32, value: u64, sink: &mut impl FnMut(Transfer)) -> bool {
        let found = self.waiting.iter().position(|(other, _)| *other == key);
        match found.and_then(|index| self.waiting.remove(index)) {
            Some((_, transfer)) => {
                sink(Transfer { value: Some(value), ..transfer });
                true
            }
            None => false,
        }
    }

    /// Gives the transfers whose values never came.
    pub fn finish(&mut self, sink: &mut impl FnMut(Transfer)) {
        self.waiting.drain(..).for_each(|(_, transfer)| sink(transfer));
    }

    /// The nearest element with a key: after the marker, then before it, then in the piece after.
    fn parent(&self, key: u32) -> Option<P0> {
        let index = usize::try_from(self.current.checked_sub(self.first)?).ok()?;
        let has_key = |element: &&(u32, P0)| element.0 == key;
        let piece = |index: usize| self.pieces.get(index).map(|piece| &piece.elements);
        let forwards = |index| piece(index).and_then(|elements| elements.iter().find(has_key));
        let backwards = |index| piece(index).and_then(|elements| elements.iter().rev().find(has_key));
        let before = || index.checked_sub(1).and_then(backwards);
        let found = forwards(index).or_else(before).or_else(|| forwards(index + 1));
        found.map(|(_, element)| *element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p1(left_key: u32, right_key: u32) -> P1 {
        P1 { left_key, right_key, address: Some(Address(0x1000)) }
    }

    fn transfers(
        matcher: &mut DataMatcher,
        each: impl FnOnce(&mut DataMatcher, &mut dyn FnMut(Transfer)),
    ) -> Vec<Transfer> {
        let mut found = Vec::new();
        each(matcher, &mut |transfer| found.push(transfer));
        matcher.finish(&mut |transfer| found.push(transfer));
        found
    }

    #[test]
    fn several_transfers_belong_to_one_instruction_and_each_has_its_value() {
        let mut matcher = DataMatcher::new(4, 2);
        let elements: Vec<P0> = (0..3).map(|_| matcher.p0()).collect();
        let found = transfers(&mut matcher, |matcher, mut sink| {
            matcher.p1(p1(3, 0), &mut sink);
            matcher.p1(p1(3, 1), &mut sink);
            matcher.p1(p1(0, 2), &mut sink);
            assert!(matcher.p2(1, 11, &mut sink));
            assert!(matcher.p2(0, 10, &mut sink));
            assert!(!matcher.p2(7, 0, &mut sink));
        });
        let values: Vec<_> = found.iter().map(|transfer| (transfer.parent, transfer.value)).collect();
        let (second, third) = (Some(elements[1]), Some(elements[2]));
        assert_eq!(values, [(second, Some(11)), (second, Some(10)), (third, None)]);
    }

    #[test]
    fn markers_decide_between_elements_of_the_same_key() {
        let mut matcher = DataMatcher::new(1, 0);
        let mut elements = Vec::new();
        for number in 0..3 {
            elements.push(matcher.p0());
            matcher.instruction_marker(Marker::Numbered(number));
        }
        let found = transfers(&mut matcher, |matcher, mut sink| {
            matcher.p1(p1(0, 0), &mut sink);
            for number in 0..2 {
                assert!(matcher.data_marker(Marker::Numbered(number)));
                matcher.p1(p1(0, 0), &mut sink);
            }
        });
        let parents: Vec<_> = found.iter().filter_map(|transfer| transfer.parent).collect();
        assert_eq!(parents, elements);
    }

    #[test]
    fn a_key_is_looked_for_before_the_marker_and_after_the_next() {
        let mut matcher = DataMatcher::new(8, 0);
        let elements: Vec<P0> = (0..2).map(|_| matcher.p0()).collect();
        matcher.instruction_marker(Marker::Unnumbered);
        matcher.instruction_marker(Marker::Unnumbered);
        let late = matcher.p0();
        assert!(matcher.data_marker(Marker::Unnumbered));
        let found = transfers(&mut matcher, |matcher, mut sink| {
            [1, 2, 5].into_iter().for_each(|key| matcher.p1(p1(key, 0), &mut sink));
        });
        let parents: Vec<_> = found.iter().map(|transfer| transfer.parent).collect();
        assert_eq!(parents, [Some(elements[1]), Some(late), None]);
    }

    #[test]
    fn a_lost_marker_is_passed_over_by_the_number_of_the_next() {
        let mut matcher = DataMatcher::new(1, 0);
        matcher.instruction_marker(Marker::Numbered(1));
        matcher.instruction_marker(Marker::Numbered(2));
        let wanted = matcher.p0();
        assert!(!matcher.data_marker(Marker::Unnumbered));
        assert!(matcher.data_marker(Marker::Numbered(2)));
        assert!(!matcher.data_marker(Marker::Numbered(1)));
        let found = transfers(&mut matcher, |matcher, mut sink| matcher.p1(p1(0, 0), &mut sink));
        assert_eq!(found[0].parent, Some(wanted));
    }

    #[test]
    fn memory_is_bounded_whatever_never_comes() {
        let mut matcher = DataMatcher::new(4, 0);
        let mut given = 0;
        for number in 0..100_000u32 {
            matcher.p0();
            matcher.p1(p1(0, number), &mut |_| given += 1);
            if number % 10 == 0 {
                matcher.instruction_marker(Marker::Unnumbered);
            }
        }
        assert_eq!(given, 100_000 - MOST_ELEMENTS);
        assert!(matcher.pieces.len() <= MOST_PIECES && matcher.waiting.len() <= MOST_ELEMENTS);
    }
}
