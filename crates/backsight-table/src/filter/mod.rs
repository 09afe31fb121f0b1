//! Filters: `source == 0x10 and time >= 5 and function == 'main'`.
//!
//! ```text
//! filter     = and { "or" and }
//! and        = not { "and" not }
//! not        = "not" not | "(" filter ")" | comparison
//! comparison = column                                        a column of true and false
//!            | operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
//!            | column [ "not" ] "in" "(" literal { "," literal } ")"
//!            | column "is" [ "not" ] "null"
//! operand    = column | literal
//! literal    = 123 | 0x7b | 'text' | "text" | true | false
//! ```
//!
//! As in SQL, a comparison with a value that is missing is neither true nor false, and a row is kept where the filter is
//! true.

mod evaluate;
mod lexer;
mod parse;

use crate::Result;
use crate::table::{Column, Table};

pub(crate) use evaluate::{Cell, Cells};

/// A filter over the rows of a table.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(crate) text: String,
    root: Node,
    /// The columns that it looks at.
    pub(crate) columns: Vec<&'static Column>,
}

/// A part of a filter. Columns are given by their numbers among those that it looks at.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Flag(usize),
    Compare(Operand, Comparison, Operand),
    In(usize, Vec<Literal>),
    IsNull(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Column(usize),
    Literal(Literal),
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Number(u64),
    Text(String),
    Flag(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Filter {
    /// Understands a filter over a table.
    ///
    /// # Errors
    /// If it cannot be understood: with what is wrong and where.
    pub fn parse(table: Table, text: &str) -> Result<Self> {
        parse::parse(table, text)
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }
}
