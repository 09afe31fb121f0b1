//! From the words of a filter to what it asks.

use super::lexer::{Token, tokens};
use super::{Comparison, Filter, Literal, Node, Operand};
use crate::table::{Column, Kind, Table};
use crate::{Error, Result};

/// Longest text of a filter.
const MOST_TEXT: usize = 1 << 16;

/// Deepest nesting.
const DEEPEST: usize = 64;

pub(super) fn parse(table: Table, text: &str) -> Result<Filter> {
    if text.len() > MOST_TEXT {
        return Err(Error::filter(format!("it is longer than {MOST_TEXT} bytes"), MOST_TEXT));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { table, tokens: &tokens, next: 0, depth: 0, columns: Vec::new() };
    let root = parser.or()?;
    match parser.peek() {
        (Token::End, _) => Ok(Filter { text: text.to_owned(), root, columns: parser.columns }),
        (other, at) => {
            Err(Error::filter(format!("expected `and`, `or` or the end, not {}", other.words()), at))
        }
    }
}

struct Parser<'t> {
    table: Table,
    tokens: &'t [(Token, usize)],
    next: usize,
    depth: usize,
    columns: Vec<&'static Column>,
}

/// What stands on a side of a comparison, before anybody knows what it is compared with.
enum Side {
    Column(usize, Kind),
    Literal(Literal),
}

impl Side {
    fn operand(self) -> Operand {
        match self {
            Self::Column(column, _) => Operand::Column(column),
            Self::Literal(literal) => Operand::Literal(literal),
        }
    }
}

impl<'t> Parser<'t> {
    fn peek(&self) -> (&'t Token, usize) {
        // The last one is the end, which is never passed.
        let last = self.tokens.len() - 1;
        let (token, at) = &self.tokens[self.next.min(last)];
        (token, *at)
    }

    fn take(&mut self) -> (&'t Token, usize) {
        let taken = self.peek();
        self.next += 1;
        taken
    }

    /// Takes a keyword, if it is the next word.
    fn keyword(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek().0, Token::Name(name) if name.eq_ignore_ascii_case(word));
        self.next += usize::from(is_it);
        is_it
    }

    fn or(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::filter(format!("it is nested more than {DEEPEST} deep"), self.peek().1));
        }
        let mut all = vec![self.and()?];
        while self.keyword("or") {
            all.push(self.and()?);
        }
        self.depth -= 1;
        Ok(one_or(all, Node::Or))
    }

    fn and(&mut self) -> Result<Node> {
        let mut all = vec![self.not()?];
        while self.keyword("and") {
            all.push(self.not()?);
        }
        Ok(one_or(all, Node::And))
    }

    fn not(&mut self) -> Result<Node> {
        let mut is_negated = false;
        while self.keyword("not") {
            is_negated = !is_negated;
        }
        let node = match self.peek().0 {
            Token::Open => {
                self.take();
                let inside = self.or()?;
                self.expect(&Token::Close)?;
                inside
            }
            _ => self.comparison()?,
        };
        Ok(if is_negated { Node::Not(Box::new(node)) } else { node })
    }

    fn expect(&mut self, expected: &Token) -> Result {
        let (token, at) = self.take();
        if token == expected {
            return Ok(());
        }
        Err(Error::filter(format!("expected {}, not {}", expected.words(), token.words()), at))
    }

    fn comparison(&mut self) -> Result<Node> {
        let (_, begin) = self.peek();
        let left = self.side()?;
        if let Token::Comparison(how) = *self.peek().0 {
            let (_, at) = self.take();
            let (_, right_at) = self.peek();
            let right = self.side()?;
            self.check(&left, &right, how, (at, right_at))?;
            return Ok(Node::Compare(left.operand(), how, right.operand()));
        }
        let Side::Column(column, kind) = left else {
            let what = format!("expected a comparison after it, not {}", self.peek().0.words());
            return Err(Error::filter(what, begin));
        };
        if self.keyword("is") {
            let is_negated = self.keyword("not");
            if !self.keyword("null") {
                let (token, at) = self.peek();
                return Err(Error::filter(format!("expected `null`, not {}", token.words()), at));
            }
            let node = Node::IsNull(column);
            return Ok(if is_negated { Node::Not(Box::new(node)) } else { node });
        }
        let is_negated = self.keyword("not");
        if self.keyword("in") {
            let node = Node::In(column, self.list(column, kind)?);
            return Ok(if is_negated { Node::Not(Box::new(node)) } else { node });
        }
        if kind == Kind::Bool && !is_negated {
            return Ok(Node::Flag(column));
        }
        let (token, at) = self.peek();
        Err(Error::filter(format!("expected a comparison, `in` or `is`, not {}", token.words()), at))
    }

    fn list(&mut self, column: usize, kind: Kind) -> Result<Vec<Literal>> {
        self.expect(&Token::Open)?;
        let mut all = Vec::new();
        loop {
            let (_, at) = self.peek();
            let Side::Literal(literal) = self.side()? else {
                return Err(Error::filter("expected a number or a text in the list", at));
            };
            self.fits(column, kind, &literal, at)?;
            all.push(literal);
            match self.take() {
                (Token::Comma, _) => {}
                (Token::Close, _) => return Ok(all),
                (token, at) => {
                    return Err(Error::filter(format!("expected `,` or `)`, not {}", token.words()), at));
                }
            }
        }
    }

    fn side(&mut self) -> Result<Side> {
        let (token, at) = self.take();
        Ok(match token {
            Token::Number(number) => Side::Literal(Literal::Number(*number)),
            Token::Text(text) => Side::Literal(Literal::Text(text.clone())),
            Token::Name(name) if name.eq_ignore_ascii_case("true") => Side::Literal(Literal::Flag(true)),
            Token::Name(name) if name.eq_ignore_ascii_case("false") => Side::Literal(Literal::Flag(false)),
            Token::Name(name) => {
                let column = self.table.column(name).map_err(|error| Error::filter(error.to_string(), at))?;
                if column.kind == Kind::Bytes {
                    return Err(Error::filter(format!("column `{name}` cannot be compared"), at));
                }
                Side::Column(self.number_of(column), column.kind)
            }
            other => {
                return Err(Error::filter(
                    format!("expected a column or a value, not {}", other.words()),
                    at,
                ));
            }
        })
    }

    fn number_of(&mut self, column: &'static Column) -> usize {
        let known = self.columns.iter().position(|other| other.name == column.name);
        known.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }

    /// Refuses comparisons of things that cannot be compared.
    fn check(&self, left: &Side, right: &Side, how: Comparison, (at, right_at): (usize, usize)) -> Result {
        let is_ordered = !matches!(how, Comparison::Equal | Comparison::NotEqual);
        match (left, right) {
            (Side::Column(column, kind), Side::Literal(literal))
            | (Side::Literal(literal), Side::Column(column, kind)) => {
                self.fits(*column, *kind, literal, right_at)?;
                if is_ordered && *kind == Kind::Bool {
                    return Err(Error::filter("true and false are equal or not, and have no order", at));
                }
                Ok(())
            }
            (Side::Column(_, one), Side::Column(_, other)) => {
                let is_same_sort = one.is_number() == other.is_number() && one.is_text() == other.is_text();
                match is_same_sort && !(is_ordered && *one == Kind::Bool) {
                    true => Ok(()),
                    false => Err(Error::filter("these columns cannot be compared", at)),
                }
            }
            (Side::Literal(_), Side::Literal(_)) => {
                Err(Error::filter("one side of a comparison has to be a column", at))
            }
        }
    }

    fn fits(&self, column: usize, kind: Kind, literal: &Literal, at: usize) -> Result {
        let (fits, what) = match literal {
            Literal::Number(_) => (kind.is_number(), "a number"),
            Literal::Text(_) => (kind.is_text(), "a text"),
            Literal::Flag(_) => (kind == Kind::Bool, "true or false"),
        };
        if fits {
            return Ok(());
        }
        let name = self.columns.get(column).map_or("?", |column| column.name);
        Err(Error::filter(format!("column `{name}` is {}, and is compared with {what}", kind.name()), at))
    }
}

fn one_or(mut all: Vec<Node>, join: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match all.len() {
        1 => all.remove(0),
        _ => join(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse(Table::Ranges, text).expect_err(text).to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_where_it_is() {
        let cases = [
            ("", "character 1: expected a column or a value, not the end"),
            ("start ==", "character 9: expected a column or a value"),
            ("strat == 5", "character 1: column `strat`: table ranges has"),
            ("start == 'main'", "character 10: column `start` is uint64, and is compared with a text"),
            ("function == 5", "column `function` is dictionary<string>, and is compared with a number"),
            ("taken > true", "no order"),
            ("5 == 5", "one side of a comparison has to be a column"),
            ("start == 0xZZ", "character 10: `0xZZ` is no number"),
            ("start == 99999999999999999999", "is no number of up to 64 bits"),
            ("start == -1", "not negative"),
            ("function == 'main", "no closing quotation mark"),
            ("(start == 5", "expected `)`, not the end"),
            ("start == 5 6", "expected `and`, `or` or the end, not `6`"),
            ("start in (1, 'a')", "compared with a text"),
            ("start in ()", "expected a column or a value"),
            ("start", "expected a comparison, `in` or `is`, not the end"),
            ("start is 5", "expected `null`, not `5`"),
            ("start == function", "cannot be compared"),
            ("start ; 5", "`;` is not expected"),
        ];
        for (text, expected) in cases {
            assert!(error(text).contains(expected), "{text}: {}", error(text));
        }
        assert!(error(&"(".repeat(100)).contains("nested"));
        assert!(error(&" ".repeat(1 << 17)).contains("longer"));
    }

    #[test]
    fn every_column_is_looked_up_once() {
        let filter =
            parse(Table::Ranges, "start > 5 and (start < 9 or not end in (1, 2)) and taken").unwrap();
        let names: Vec<_> = filter.columns.iter().map(|column| column.name).collect();
        assert_eq!(names, ["start", "end", "taken"]);
    }

    proptest! {
        #[test]
        fn any_text_is_understood_or_refused(text in "[a-z=<>!()', 0-9x\"_&|\\[\\]é-]{0,60}") {
            let _ = parse(Table::Events, &text);
        }

        #[test]
        fn any_words_are_understood_or_refused(words in proptest::collection::vec(0_usize..20, 0..20)) {
            const WORDS: [&str; 20] = ["start", "function", "taken", "==", "<", "(", ")", "and", "or", "not", "in",
                "is", "null", "5", "'a'", ",", "true", "0x10", "end", "!="];
            let text: Vec<_> = words.iter().map(|&word| WORDS[word]).collect();
            let _ = parse(Table::Ranges, &text.join(" "));
        }
    }
}
