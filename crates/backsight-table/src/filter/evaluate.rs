//! Is a filter true of a row?

use std::cmp::Ordering;

use super::{Comparison, Filter, Literal, Node, Operand};

/// The value of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// Missing.
    Null,
    /// Not known yet: whatever depends on it is neither true nor false.
    Unknown,
    Number(u64),
    Text(&'a str),
    Flag(bool),
}

/// The values of the columns of a filter in a row.
pub(crate) trait Cells {
    /// The value of the column of this number.
    fn cell(&self, column: usize) -> Cell<'_>;
}

impl Filter {
    /// True, false, or neither.
    pub(crate) fn holds(&self, cells: &impl Cells) -> Option<bool> {
        self.root.holds(cells)
    }
}

impl Node {
    fn holds(&self, cells: &impl Cells) -> Option<bool> {
        match self {
            Self::And(all) => all_hold(all, cells, false),
            Self::Or(all) => all_hold(all, cells, true),
            Self::Not(node) => node.holds(cells).map(|holds| !holds),
            Self::Flag(column) => match cells.cell(*column) {
                Cell::Flag(flag) => Some(flag),
                _ => None,
            },
            Self::Compare(left, how, right) => {
                let order = order(left.cell(cells), right.cell(cells))?;
                Some(how.is(order))
            }
            Self::In(column, list) => {
                let cell = cells.cell(*column);
                if matches!(cell, Cell::Null | Cell::Unknown) {
                    return None;
                }
                Some(list.iter().any(|literal| order(cell, literal.cell()) == Some(Ordering::Equal)))
            }
            Self::IsNull(column) => match cells.cell(*column) {
                Cell::Unknown => None,
                cell => Some(cell == Cell::Null),
            },
        }
    }
}

/// `and` is decided by a part that is false, `or` by one that is true.
fn all_hold(all: &[Node], cells: &impl Cells, deciding: bool) -> Option<bool> {
    let mut outcome = Some(!deciding);
    for node in all {
        match node.holds(cells) {
            Some(holds) if holds == deciding => return Some(deciding),
            Some(_) => {}
            None => outcome = None,
        }
    }
    outcome
}

impl Operand {
    fn cell<'a>(&'a self, cells: &'a impl Cells) -> Cell<'a> {
        match self {
            Self::Column(column) => cells.cell(*column),
            Self::Literal(literal) => literal.cell(),
        }
    }
}

impl Literal {
    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Number(number) => Cell::Number(*number),
            Self::Text(text) => Cell::Text(text),
            Self::Flag(flag) => Cell::Flag(*flag),
        }
    }
}

impl Comparison {
    fn is(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn order(left: Cell<'_>, right: Cell<'_>) -> Option<Ordering> {
    match (left, right) {
        (Cell::Number(left), Cell::Number(right)) => Some(left.cmp(&right)),
        (Cell::Text(left), Cell::Text(right)) => Some(left.cmp(right)),
        (Cell::Flag(left), Cell::Flag(right)) => Some(left.cmp(&right)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    struct Row(Vec<(&'static str, Cell<'static>)>);

    fn holds(text: &str, row: &Row) -> Option<bool> {
        let filter = Filter::parse(Table::Ranges, text).expect(text);
        struct Named<'r>(&'r Row, Vec<&'static str>);
        impl Cells for Named<'_> {
            fn cell(&self, column: usize) -> Cell<'_> {
                let name = self.1[column];
                self.0.0.iter().find(|(other, _)| *other == name).map_or(Cell::Null, |(_, cell)| *cell)
            }
        }
        filter.holds(&Named(row, filter.columns.iter().map(|column| column.name).collect()))
    }

    #[test]
    fn filters_hold_as_in_sql() {
        let row = Row(vec![
            ("source", Cell::Number(0x10)),
            ("start", Cell::Number(100)),
            ("function", Cell::Text("it's")),
            ("taken", Cell::Flag(true)),
        ]);
        let cases = [
            ("source == 0x10 and start >= 100 and function == 'it''s'", Some(true)),
            ("source = 16 && start < 100", Some(false)),
            ("start < 100 || taken", Some(true)),
            ("not taken", Some(false)),
            ("taken == false", Some(false)),
            ("100 <= start", Some(true)),
            ("start in (1, 100)", Some(true)),
            ("start not in (1, 100)", Some(false)),
            ("function in ['a', \"it's\"]", Some(true)),
            ("time > 5", None),
            ("not time > 5", None),
            ("time > 5 or taken", Some(true)),
            ("time > 5 and taken", None),
            ("time > 5 and not taken", Some(false)),
            ("time is null", Some(true)),
            ("start is not null", Some(true)),
            ("time in (1)", None),
            ("start != source", Some(true)),
            ("function > 'a'", Some(true)),
            ("not (not (taken))", Some(true)),
        ];
        for (text, expected) in cases {
            assert_eq!(holds(text, &row), expected, "{text}");
        }
    }
}
