//! Which instruction of a recording an instruction of the trace is.
//!
//! Both number instructions each for itself. Up to the first gap of the trace the numbers are the same. What comes after a gap is looked for
//! in the recording: a piece of the trace between two gaps is where all of its instructions are, one after the other, if that is at one
//! place only, between the places of the pieces around it. Pieces are compared by sums of their addresses, so that one pass over the
//! recording finds all of them.

use std::collections::{HashMap, VecDeque};

use backsight::core::Retired;

/// Instructions at the beginning of a piece that it is looked for by; shorter pieces are not.
const FIRST: usize = 64;
/// Pieces that are looked for.
const MOST_PIECES: usize = 1 << 12;
/// Places of a piece that are kept, and beginnings that are followed up at a time.
const MOST_PLACES: usize = 16;
const MOST_BEGUN: usize = 1 << 16;

/// A prime, and a number below it.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0C92_7A3B_51D6_E48F;

fn times(one: u64, other: u64) -> u64 {
    (u128::from(one) * u128::from(other) % u128::from(PRIME)) as u64
}

fn power(mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, BASE);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent /= 2;
    }
    result
}

/// The sum of a sequence of addresses, which depends on their order.
fn with(sum: u64, address: u64) -> u64 {
    ((u128::from(times(sum, BASE)) + u128::from(address % PRIME) + 1) % u128::from(PRIME)) as u64
}

/// The sum of the addresses after others, whose sum with them and without them is known.
fn between(before: u64, after: u64, power: u64) -> u64 {
    (after + PRIME - times(before, power)) % PRIME
}

/// Instructions of a source without a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// The number of the first.
    first: u64,
    length: u64,
    sum: u64,
    /// That of the beginning.
    beginning: u64,
}

/// Takes the instructions of a source.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    all: Vec<Piece>,
    last: Piece,
    /// There is no room for more.
    is_full: bool,
}

impl Pieces {
    /// The next instruction is executed.
    pub fn push(&mut self, address: u64) {
        let piece = &mut self.last;
        piece.sum = with(piece.sum, address);
        piece.length += 1;
        if piece.length == FIRST as u64 {
            piece.beginning = piece.sum;
        }
    }

    /// Something is missing.
    pub fn gap(&mut self) {
        let next = self.last.first + self.last.length;
        let piece = std::mem::replace(&mut self.last, Piece { first: next, ..Piece::default() });
        if piece.length >= FIRST as u64 {
            self.is_full |= self.all.len() >= MOST_PIECES;
            self.all.extend((!self.is_full).then_some(piece));
        }
    }

    /// Where the pieces are among the instructions of a thread.
    pub fn find(mut self, instructions: impl Iterator<Item = Retired>) -> Vec<Same> {
        self.gap();
        let mut by_beginning: HashMap<u64, Vec<usize>> = HashMap::new();
        for (number, piece) in self.all.iter().enumerate() {
            by_beginning.entry(piece.beginning).or_default().push(number);
        }
        let powers: Vec<u64> = self.all.iter().map(|piece| power(piece.length)).collect();
        let of_first = power(FIRST as u64);
        // Places of each piece; none of those that have too many.
        let mut places: Vec<Option<Vec<u64>>> = vec![Some(Vec::new()); self.all.len()];
        let mut sums = VecDeque::from([0_u64]);
        // The piece, where it begins, and the sum before it; by where they would end.
        let mut begun: HashMap<u64, Vec<(usize, u64, u64)>> = HashMap::new();
        let mut count = 0;
        for (now, retired) in (1_u64..).zip(instructions) {
            let sum = with(sums.back().copied().unwrap_or(0), retired.address.0);
            sums.push_back(sum);
            if sums.len() > FIRST
                && let Some(&before) = sums.get(sums.len() - 1 - FIRST)
            {
                let start = now - FIRST as u64;
                let met = by_beginning.get(&between(before, sum, of_first));
                for &number in met.into_iter().flatten() {
                    // A piece of which there are too many beginnings is in a loop: it has too many places.
                    match count < MOST_BEGUN {
                        true => {
                            count += 1;
                            let end = start + self.all[number].length;
                            begun.entry(end).or_default().push((number, start, before));
                        }
                        false => places[number] = None,
                    }
                }
                if sums.len() > FIRST + 1 {
                    sums.pop_front();
                }
            }
            for (number, start, before) in begun.remove(&now).unwrap_or_default() {
                count -= 1;
                let is_it = between(before, sum, powers[number]) == self.all[number].sum;
                let known = places[number].as_mut().filter(|_| is_it);
                if let Some(known) = known {
                    known.push(start);
                    if known.len() > MOST_PLACES {
                        places[number] = None;
                    }
                }
            }
        }
        in_order(&self.all, places)
    }
}

/// Pieces whose place is certain: there is one between those of their neighbours.
fn in_order(pieces: &[Piece], mut places: Vec<Option<Vec<u64>>>) -> Vec<Same> {
    loop {
        let before: usize = places.iter().flatten().map(Vec::len).sum();
        let mut from = 0;
        for (piece, places) in pieces.iter().zip(&mut places) {
            let Some(places) = places else { continue };
            places.retain(|&place| place >= from);
            if let [place] = places[..] {
                from = place + piece.length;
            }
        }
        let mut to = u64::MAX;
        for (piece, places) in pieces.iter().zip(&mut places).rev() {
            let Some(places) = places else { continue };
            places.retain(|&place| place + piece.length <= to);
            if let [place] = places[..] {
                to = place;
            }
        }
        if places.iter().flatten().map(Vec::len).sum::<usize>() == before {
            break;
        }
    }
    let certain = pieces.iter().zip(places).filter_map(|(piece, places)| match places.as_deref() {
        Some(&[there]) => Some(Same { first: piece.first, end: piece.first + piece.length, there }),
        _ => None,
    });
    certain.collect()
}

/// Instructions of a source that are in the recording, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Same {
    /// The number of the first in the source, and of the one after the last.
    pub first: u64,
    pub end: u64,
    /// The number of the first in its thread of the recording.
    pub there: u64,
}

/// All of those of a source, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbering(pub Vec<Same>);

impl Numbering {
    /// The number in the recording.
    pub fn there(&self, here: u64) -> Option<u64> {
        let same = self.0.get(self.0.partition_point(|same| same.end <= here))?;
        Some(same.there + here.checked_sub(same.first)?)
    }

    /// The number in the source.
    pub fn here(&self, there: u64) -> Option<u64> {
        let next = self.0.partition_point(|same| same.there + (same.end - same.first) <= there);
        let same = self.0.get(next)?;
        Some(same.first + there.checked_sub(same.there)?)
    }

    /// The number in the recording of the last instruction before this one that is in both, and one more.
    pub fn there_before(&self, here: u64) -> Option<u64> {
        let before = self.0.partition_point(|same| same.first <= here).checked_sub(1)?;
        self.0.get(before).map(|same| same.there + here.min(same.end) - same.first)
    }

    /// The number in the source of this instruction of the recording, or of the next one that it has; at its end, that of the end.
    pub fn here_from(&self, there: u64) -> Option<u64> {
        let length = |same: &Same| same.end - same.first;
        let next = self.0.partition_point(|same| same.there + length(same) <= there);
        match (self.0.get(next), self.0.last()) {
            (Some(same), _) => Some(same.first + there.saturating_sub(same.there)),
            (None, Some(last)) if last.there + length(last) == there => Some(last.end),
            _ => None,
        }
    }

    /// The number after the last instruction that is in both.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |same| same.end)
    }
}

#[cfg(test)]
mod tests {
    use backsight::core::{Address, Isa};
    use backsight_testing::Random;

    use super::*;

    fn retired(address: u64) -> Retired {
        let (address, next) = (Address(address), Address(address + 4));
        Retired { address, next, cycle: 0, opcode: 0, size: 4, isa: Isa::Rv64, taken: false }
    }

    #[test]
    fn pieces_between_gaps_are_found_where_they_are_and_nowhere_else() {
        let mut random = Random(41);
        let mut found = 0;
        for _ in 0..60 {
            // Loops of different lengths, some of which come again.
            let mut all = Vec::new();
            while all.len() < 6_000 {
                let (start, length) = (0x1000 * random.below(12), 5 + random.below(40));
                for _ in 0..1 + random.below(30) {
                    all.extend((0..length).map(|number| start + 4 * number));
                }
            }
            let (mut pieces, mut truth, mut at, mut here) = (Pieces::default(), Vec::new(), 0, 0);
            while at < all.len() {
                let length = (20 + random.below(1_500) as usize).min(all.len() - at);
                all[at..at + length].iter().for_each(|&address| pieces.push(address));
                truth.push(Same { first: here, end: here + length as u64, there: at as u64 });
                here += length as u64;
                at += length + 1 + random.below(90) as usize;
                pieces.gap();
            }
            let sames = pieces.find(all.iter().map(|&address| retired(address)));
            assert!(sames.iter().all(|same| truth.contains(same)), "{sames:?}\n{truth:?}");
            found += sames.len();
            let numbering = Numbering(sames);
            for same in &numbering.0 {
                for number in [same.first, same.end - 1] {
                    let there = numbering.there(number).expect("it is there");
                    assert_eq!(numbering.here(there), Some(number));
                    assert_eq!(numbering.here_from(there), Some(number));
                    assert_eq!(numbering.there_before(number), Some(there));
                }
            }
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn what_is_executed_twice_has_no_place() {
        let once: Vec<u64> = (0..200).map(|number| 4 * number).collect();
        let mut pieces = Pieces::default();
        once.iter().for_each(|&address| pieces.push(address));
        let twice = [once.clone(), once].concat();
        assert_eq!(pieces.find(twice.into_iter().map(retired)), []);
    }
}
