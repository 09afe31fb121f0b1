//! Which value of a column each row of a batch has.

#![cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only builds with Arrow look into batches"))]

#[cfg(feature = "arrow")]
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "arrow")]
use crate::data::Layout;

/// Which value of a column each row of a batch has, where it does not have its own: see [`Layout`].
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The number of the block of each row.
    pub blocks: Vec<u32>,
    /// The first row of each state.
    pub states: Vec<u32>,
}

#[cfg(feature = "arrow")]
impl Shape {
    /// The numbers of the blocks of some rows.
    pub fn blocks_of(&self, rows: Range<usize>) -> &[u32] {
        self.blocks.get(rows).unwrap_or_default()
    }

    /// The runs of rows with the same value that some rows are in, of a column whose layout has runs: the number of the value of
    /// each, and how many of the rows it has. All rows are one where the layout has none.
    #[cfg(feature = "export")]
    pub fn runs_of(
        &self,
        layout: Layout,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let firsts = match layout {
            Layout::States => self.states.as_slice(),
            Layout::Once | Layout::Rows | Layout::Blocks => &[],
        };
        runs(firsts, rows)
    }

    /// The values that some rows of a batch have, of a column with this layout.
    pub fn spread<T: Copy + Default>(&self, values: &[T], layout: Layout, rows: Range<usize>) -> Vec<T> {
        self.spread_into(values, layout, rows, Vec::new())
    }

    /// The same in memory that was needed before.
    pub fn spread_into<T: Copy + Default>(
        &self,
        values: &[T],
        layout: Layout,
        rows: Range<usize>,
        mut out: Vec<T>,
    ) -> Vec<T> {
        out.clear();
        match layout {
            Layout::Rows => out.extend_from_slice(values.get(rows).unwrap_or_default()),
            Layout::Once => out.resize(rows.len(), values.first().copied().unwrap_or_default()),
            Layout::Blocks => out.extend(self.blocks_of(rows).iter().map(|&block| values[block as usize])),
            Layout::States => spread_runs(values, &self.states, rows, &mut out),
        }
        out
    }
}

/// The values that some rows have, of runs that begin with these rows.
#[cfg(feature = "arrow")]
fn spread_runs<T: Copy + Default>(values: &[T], firsts: &[u32], rows: Range<usize>, out: &mut Vec<T>) {
    for (number, length) in runs(firsts, rows) {
        out.resize(out.len() + length, values.get(number).copied().unwrap_or_default());
    }
}

/// The runs that some rows are in, of those that begin with these rows: the number of each, and how many of the rows it has.
#[cfg(feature = "arrow")]
fn runs(firsts: &[u32], rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<'_> {
    let first = firsts.partition_point(|&first| first as usize <= rows.start).saturating_sub(1);
    let mut at = rows.start;
    (first..).map_while(move |number| {
        if at >= rows.end {
            return None;
        }
        let end = firsts.get(number + 1).map_or(rows.end, |&next| (next as usize).clamp(at, rows.end));
        let length = end - at;
        at = end;
        Some((number, length))
    })
}

/// Memory that batches needed for the numbers of their blocks. It goes back to the decoder: to ask the system for it again
/// costs as much as to fill it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Vec<u32>>>>);

/// As many as are under way at a time.
const MOST_SPARE: usize = 4;

impl Spare {
    /// Room for so many numbers.
    pub fn take(&self, room: usize) -> Vec<u32> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Numbers that nobody needs any more.
    pub fn give(&self, mut numbers: Vec<u32>) {
        numbers.clear();
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if numbers.capacity() > 0 && spare.len() < MOST_SPARE {
            spare.push(numbers);
        }
    }
}
