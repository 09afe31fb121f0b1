//! The tables and their columns: one list gives names, types, documentation and dispatch.

mod column;
mod list;

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

pub(crate) use column::Field;
pub use column::{Column, Kind};

/// A table over a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// The sources of trace: a row each.
    Sources,
    /// Packets.
    Packets,
    /// Instructions that were executed one after the other.
    Ranges,
    /// Branches, taken or not.
    Branches,
    /// Stays in functions, and what calls cost.
    Calls,
    /// What the trace reports besides ranges: exceptions, messages, data accesses, contexts, times.
    Events,
    /// What is missing, and why.
    Damage,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 7] =
        [Self::Sources, Self::Packets, Self::Ranges, Self::Branches, Self::Calls, Self::Events, Self::Damage];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Packets => "packets",
            Self::Ranges => "ranges",
            Self::Branches => "branches",
            Self::Calls => "calls",
            Self::Events => "events",
            Self::Damage => "damage",
        }
    }

    /// What it holds, in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Sources => "a row for each source of trace that a buffer holds bytes of",
            Self::Packets => "a row for each packet, bad ones included",
            Self::Ranges => "a row for each range of instructions that were executed one after the other",
            Self::Branches => "a row for each branch, taken or not, with where it went",
            Self::Calls => "a row for each stay in a function, with what it and its call cost",
            Self::Events => "a row for whatever `flow` lists besides ranges and damage",
            Self::Damage => "a row for whatever is missing or could not be decoded",
        }
    }

    /// Its columns, in their order.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Sources => list::SOURCES,
            Self::Packets => list::PACKETS,
            Self::Ranges => list::RANGES,
            Self::Branches => list::BRANCHES,
            Self::Calls => list::CALLS,
            Self::Events => list::EVENTS,
            Self::Damage => list::DAMAGE,
        }
    }

    /// The table of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The error about a name that no table has, where another name may be given beside those of tables.
    pub(crate) fn unknown(name: &str, beside: Option<&str>) -> Error {
        let names: Vec<_> = Self::ALL.iter().map(|table| table.name()).chain(beside).collect();
        Error::misuse(format!("table `{name}`: there are {}", names.join(", ")))
    }

    /// The column of that name.
    ///
    /// # Errors
    /// If it has none.
    pub fn column(self, name: &str) -> Result<&'static Column> {
        self.columns().iter().find(|column| column.name == name).ok_or_else(|| {
            let names: Vec<_> = self.columns().iter().map(|column| column.name).collect();
            Error::misuse(format!("column `{name}`: table {self} has {}", names.join(", ")))
        })
    }

    /// Can the rows of a source be read in pieces? What a row of `calls` says depends on all calls before it, and `damage`
    /// sums up a source at its end.
    pub const fn is_cut(self) -> bool {
        matches!(self, Self::Ranges | Self::Branches | Self::Events)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Table {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::named(name).ok_or_else(|| Self::unknown(name, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_table_is_found_by_its_name() {
        for table in Table::ALL {
            assert_eq!(table.name().parse::<Table>().expect("a table"), table);
            for (number, column) in table.columns().iter().enumerate() {
                let first = table.columns().iter().position(|other| other.name == column.name);
                assert_eq!(first, Some(number), "{table}.{}", column.name);
                assert!(!column.meaning.is_empty() && !column.meaning.ends_with('.'));
            }
        }
        assert!("range".parse::<Table>().unwrap_err().to_string().contains("ranges"));
    }

    /// Some engines add in the type of the column, and wrap around.
    #[test]
    fn numbers_that_people_add_up_are_64_bits_wide() {
        const IDENTIFIERS: [&str; 7] = ["source", "hart", "line", "level", "vmid", "master", "channel"];
        for table in Table::ALL {
            for column in table.columns() {
                let is_narrow = column.kind.is_number() && column.kind != Kind::U64;
                assert!(!is_narrow || IDENTIFIERS.contains(&column.name), "{table}.{}", column.name);
                assert!(!column.is_count || column.kind == Kind::U64, "{table}.{}", column.name);
            }
        }
        assert!(Table::Ranges.column("instructions").unwrap().is_count);
    }
}
