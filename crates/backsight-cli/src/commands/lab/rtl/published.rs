//! Figures of the published decoder whose chain ours follows: its table II (Vivado, xczu5ev-2).

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Bytes a cycle.
    pub lanes: u8,
    /// LUTs.
    pub luts: u32,
    /// Flip-flops.
    pub flip_flops: u32,
    /// The clock in MHz.
    pub clock: u32,
}

const fn row(lanes: u8, luts: u32, flip_flops: u32, clock: u32) -> Row {
    Row { lanes, luts, flip_flops, clock }
}

/// The table. No block RAM is used.
pub const TABLE: [Row; 6] = [
    row(1, 521, 631, 550),
    row(2, 1701, 953, 400),
    row(3, 2375, 1324, 300),
    row(4, 3075, 1614, 250),
    row(5, 5702, 1965, 180),
    row(6, 5727, 2282, 130),
];

impl Row {
    /// The row for so many bytes a cycle.
    pub fn of(lanes: u8) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.lanes == lanes)
    }

    /// Millions of bytes a second.
    pub fn rate(&self) -> u32 {
        self.clock * u32::from(self.lanes)
    }
}
