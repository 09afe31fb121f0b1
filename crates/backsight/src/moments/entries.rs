//! Where functions are, and what counts as one entered: for searches and for the sums of an index alike.

use std::collections::HashMap;
use std::ops::Range as Addresses;

use backsight_flow::{Event, Range};
use backsight_image::Image;

/// Addresses of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    from: u64,
    to: u64,
    /// Where the function begins.
    function: u64,
}

/// Where functions are: of several that begin at one address, the longest counts.
#[derive(Debug, Default)]
pub(super) struct FunctionPlaces {
    /// Where they end, by where they begin.
    starts: HashMap<u64, u64>,
    /// Apart from each other, by address: what two functions have belongs to the one that begins later.
    pieces: Vec<Piece>,
}

impl FunctionPlaces {
    /// Of all functions of an image, whenever they were there.
    pub fn of(image: &Image) -> Self {
        let all = image.functions().map(|function| (function.start.0, function.size));
        Self::new(all.map(|(start, size)| start..start.saturating_add(size.max(1))))
    }

    fn new(functions: impl Iterator<Item = Addresses<u64>>) -> Self {
        let mut starts = HashMap::new();
        for Addresses { start, end } in functions {
            starts.entry(start).and_modify(|known: &mut u64| *known = end.max(*known)).or_insert(end);
        }
        let mut sorted: Vec<(u64, u64)> = starts.iter().map(|(&start, &end)| (start, end)).collect();
        sorted.sort_unstable();
        let (mut pieces, mut open, mut at) = (Vec::new(), Vec::<(u64, u64)>::new(), 0);
        let mut pass = |open: &mut Vec<(u64, u64)>, address: u64| {
            while let Some(&(function, end)) = open.last() {
                let to = end.min(address);
                if at < to {
                    pieces.push(Piece { from: at, to, function });
                    at = to;
                }
                if end > address {
                    break;
                }
                open.pop();
            }
            at = at.max(address);
        };
        for (start, end) in sorted {
            pass(&mut open, start);
            open.push((start, end));
        }
        pass(&mut open, u64::MAX);
        Self { starts, pieces }
    }

    /// The function that begins at an address.
    pub fn at(&self, start: u64) -> Option<Addresses<u64>> {
        self.starts.get(&start).map(|&end| start..end)
    }

    /// The function that has an address, by where it begins, or [nowhere](NOWHERE); and up to where that is so.
    pub fn around(&self, address: u64) -> (u64, u64) {
        let next = self.pieces.partition_point(|piece| piece.to <= address);
        match self.pieces.get(next) {
            Some(piece) if piece.from <= address => (piece.function, piece.to),
            Some(piece) => (NOWHERE, piece.from),
            None => (NOWHERE, u64::MAX),
        }
    }
}

/// In place of where a function begins: what is in no function that has a name.
pub(super) const NOWHERE: u64 = u64::MAX;

/// How a range of execution ended.
#[derive(Clone, Copy, Debug)]
pub struct RangeEnd {
    /// With a call.
    is_call: bool,
    /// The last byte of its last instruction.
    last: u64,
}

impl RangeEnd {
    pub fn of(range: &Range) -> Self {
        let is_call = range.executed && range.ends_in_branch() && range.flags.link;
        Self { is_call, last: range.end.0.wrapping_sub(1) }
    }
}

/// Is this function entered by a range that begins at its first instruction? `before`: how the range before that ended on the
/// hart, where nothing came between them.
#[inline]
pub(super) fn is_entered(function: &Addresses<u64>, before: Option<RangeEnd>) -> bool {
    before.is_none_or(|before| before.is_call || !function.contains(&before.last))
}

/// Does execution not go on after this event from where it was?
pub(super) const fn interrupts(event: &Event) -> bool {
    event.is_loss() || event.is_break() || matches!(event, Event::Exception { .. } | Event::ExceptionReturn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_last_before_it() {
        // One within another, two that overlap, one that begins where another does.
        let functions = [0x10..0x50, 0x20..0x30, 0x60..0x80, 0x70..0x90, 0x20..0x24, 0x90..0x91];
        let places = FunctionPlaces::new(functions.clone().into_iter());
        for address in 0..0xA0 {
            let has = |function: &&Addresses<u64>| function.contains(&address);
            let expected = functions.iter().filter(has).map(|function| function.start).max();
            let (found, to) = places.around(address);
            assert_eq!(found, expected.unwrap_or(NOWHERE), "{address:#x}");
            assert!(to > address && (address..to.min(0xA0)).all(|next| places.around(next).0 == found));
        }
        assert_eq!((places.at(0x20), places.at(0x21)), (Some(0x20..0x30), None));
        assert_eq!(FunctionPlaces::new(std::iter::empty()).around(7), (NOWHERE, u64::MAX));
    }
}
