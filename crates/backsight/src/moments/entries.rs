//! What counts as a function entered: for searches and for the sums of an index alike.

use std::collections::HashMap;
use std::ops::Range as Addresses;

use backsight_flow::{Event, Range};
use backsight_image::Image;

/// Where functions begin, and where they end: of several that begin at one address, the longest counts.
#[derive(Debug, Default)]
pub(super) struct FunctionStarts(HashMap<u64, u64>);

impl FunctionStarts {
    /// All functions of an image, whenever they were there.
    pub fn of(image: &Image) -> Self {
        let mut starts = HashMap::new();
        for function in image.functions() {
            let start = function.start.0;
            let end = start.saturating_add(function.size.max(1));
            starts.entry(start).and_modify(|known: &mut u64| *known = end.max(*known)).or_insert(end);
        }
        Self(starts)
    }

    /// The function that begins at an address.
    pub fn at(&self, start: u64) -> Option<Addresses<u64>> {
        self.0.get(&start).map(|&end| start..end)
    }
}

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
