//! The words of a filter.

use super::Comparison;
use crate::{Error, Result};

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A column or a keyword.
    Name(String),
    Number(u64),
    Text(String),
    Comparison(Comparison),
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// As messages show it.
    pub fn words(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(text) => format!("'{text}'"),
            Self::Comparison(_) => "a comparison".to_owned(),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The words of a text, each with where it begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, at));
            return Ok(tokens);
        };
        let (token, length) = token(rest, first).map_err(|what| Error::filter(what, at))?;
        tokens.push((token, at));
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn token(rest: &str, first: char) -> std::result::Result<(Token, usize), String> {
    const SIGNS: [(&str, Token); 13] = [
        ("==", Token::Comparison(Comparison::Equal)),
        ("!=", Token::Comparison(Comparison::NotEqual)),
        ("<>", Token::Comparison(Comparison::NotEqual)),
        ("<=", Token::Comparison(Comparison::LessOrEqual)),
        (">=", Token::Comparison(Comparison::GreaterOrEqual)),
        ("=", Token::Comparison(Comparison::Equal)),
        ("<", Token::Comparison(Comparison::Less)),
        (">", Token::Comparison(Comparison::Greater)),
        ("(", Token::Open),
        (")", Token::Close),
        ("[", Token::Open),
        ("]", Token::Close),
        (",", Token::Comma),
    ];
    if let Some((sign, token)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
        return Ok((token.clone(), sign.len()));
    }
    if let Some((sign, word)) = [("&&", "and"), ("||", "or")].iter().find(|(sign, _)| rest.starts_with(sign))
    {
        return Ok((Token::Name((*word).to_owned()), sign.len()));
    }
    match first {
        '\'' | '"' => quoted(rest, first),
        '0'..='9' => number(rest),
        _ if first.is_alphabetic() || first == '_' => {
            let name = word(rest);
            Ok((Token::Name(name.to_owned()), name.len()))
        }
        '-' => Err("numbers are not negative here".to_owned()),
        _ => Err(format!("`{}` is not expected", first.escape_default())),
    }
}

fn word(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

fn number(rest: &str) -> std::result::Result<(Token, usize), String> {
    let text = word(rest);
    let digits = text.replace('_', "");
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    match value {
        Ok(value) => Ok((Token::Number(value), text.len())),
        Err(_) => Err(format!("`{text}` is no number of up to 64 bits, decimal or 0x hexadecimal")),
    }
}

/// A text between quotation marks; two of them in it stand for one.
fn quoted(rest: &str, mark: char) -> std::result::Result<(Token, usize), String> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != mark {
            text.push(character);
        } else if characters.peek().is_some_and(|(_, next)| *next == mark) {
            text.push(mark);
            characters.next();
        } else {
            return Ok((Token::Text(text), at + mark.len_utf8()));
        }
    }
    Err("the text has no closing quotation mark".to_owned())
}
