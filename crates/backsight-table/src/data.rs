//! The values of a column while a batch is put together.

#![cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only builds with Arrow look into batches"))]

use std::sync::Arc;

use crate::filter::Cell;
use crate::steps::Steps;
use crate::table::Kind;
use crate::texts::{Dictionary, TextId, Texts};

/// The values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
    /// Texts by number.
    Word(Vec<TextId>),
    /// Texts or bytes one after the other, and where each ends.
    Long {
        bytes: Vec<u8>,
        ends: Vec<i32>,
        is_text: bool,
    },
}

/// A column while it grows.
#[derive(Debug)]
pub(crate) struct ColumnData {
    pub values: Values,
    /// Which values there are; `None`: all.
    valid: Option<Vec<bool>>,
}

/// Which of the values of a column a row of a batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Its own.
    Rows,
    /// The same as all.
    Once,
    /// That of its block, by number.
    Blocks,
    /// That of the state that held then: time, context and the like.
    States,
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub(crate) struct FinishedColumn {
    pub values: FinishedValues,
    /// Which values there are; `None`: all.
    pub valid: Option<Vec<bool>>,
    /// Which of them each row has.
    pub layout: Layout,
}

/// The values of a column of a batch.
#[derive(Clone, Debug)]
pub(crate) enum FinishedValues {
    /// All but words.
    Plain(Values),
    /// Numbers of 64 bits that grow by little from row to row.
    Steps(Steps),
    /// Keys into a dictionary.
    Words { keys: Vec<i32>, values: Arc<[Arc<str>]> },
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Word(values) => values.len(),
            Self::Long { ends, .. } => ends.len(),
        }
    }

    /// One of several numbers; 0 where there is none.
    #[cfg(feature = "export")]
    #[inline]
    pub fn number(&self, at: usize) -> u64 {
        let number = match self {
            Self::U8(values) => values.get(at).map(|&value| value.into()),
            Self::U16(values) => values.get(at).map(|&value| value.into()),
            Self::U32(values) => values.get(at).map(|&value| value.into()),
            Self::U64(values) => values.get(at).copied(),
            Self::Bool(_) | Self::Word(_) | Self::Long { .. } => None,
        };
        number.unwrap_or(0)
    }

    /// Appends values of the same kind.
    fn append(&mut self, more: Self) {
        match (self, more) {
            (Self::U8(values), Self::U8(more)) => values.extend(more),
            (Self::U16(values), Self::U16(more)) => values.extend(more),
            (Self::U32(values), Self::U32(more)) => values.extend(more),
            (Self::U64(values), Self::U64(more)) => values.extend(more),
            (Self::Bool(values), Self::Bool(more)) => values.extend(more),
            (Self::Word(values), Self::Word(more)) => values.extend(more),
            (Self::Long { bytes, ends, .. }, Self::Long { bytes: more, ends: more_ends, .. }) => {
                let before = bytes.len() as i32;
                bytes.extend(more);
                ends.extend(more_ends.into_iter().map(|end| before + end));
            }
            _ => debug_assert!(false, "a column has values of one kind"),
        }
    }
}

impl FinishedColumn {
    /// Of numbers that grow by little from row to row.
    pub fn of_steps(steps: Steps) -> Self {
        Self { values: FinishedValues::Steps(steps), valid: None, layout: Layout::Rows }
    }

    /// How many values it has, whatever its layout makes of them.
    pub fn len(&self) -> usize {
        match &self.values {
            FinishedValues::Plain(values) => values.len(),
            FinishedValues::Steps(steps) => steps.len(),
            FinishedValues::Words { keys, .. } => keys.len(),
        }
    }

    /// Appends what the same column says of more.
    pub fn append(&mut self, more: Self) {
        let (before, length) = (self.len(), self.len() + more.len());
        if self.valid.is_some() || more.valid.is_some() {
            let valid = self.valid.get_or_insert_with(|| vec![true; before]);
            match more.valid {
                Some(more) => valid.extend(more),
                None => valid.resize(length, true),
            }
        }
        match (&mut self.values, more.values) {
            (FinishedValues::Plain(values), FinishedValues::Plain(more)) => values.append(more),
            (FinishedValues::Words { keys, values }, FinishedValues::Words { keys: more, values: all }) => {
                keys.extend(more);
                *values = all;
            }
            _ => debug_assert!(false, "a column has values of one kind"),
        }
    }

    /// Are these the texts that its keys stand for? Other columns than those of texts need none.
    pub fn has_texts(&self, texts: &Arc<[Arc<str>]>) -> bool {
        match &self.values {
            FinishedValues::Words { values, .. } => Arc::ptr_eq(values, texts),
            FinishedValues::Plain(_) | FinishedValues::Steps(_) => true,
        }
    }

    /// Keys stand for these texts: the same, and more.
    pub fn set_texts(&mut self, texts: Arc<[Arc<str>]>) {
        if let FinishedValues::Words { values, .. } = &mut self.values {
            *values = texts;
        }
    }

    /// Is the value with this number there?
    #[cfg(feature = "export")]
    #[inline]
    pub fn has(&self, number: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.get(number) == Some(&true))
    }
}

impl ColumnData {
    pub fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::U8 => Values::U8(Vec::new()),
            Kind::U16 => Values::U16(Vec::new()),
            Kind::U32 => Values::U32(Vec::new()),
            Kind::U64 => Values::U64(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Word => Values::Word(Vec::new()),
            Kind::Text => Values::Long { bytes: Vec::new(), ends: Vec::new(), is_text: true },
            Kind::Bytes => Values::Long { bytes: Vec::new(), ends: Vec::new(), is_text: false },
        };
        Self { values, valid: None }
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of texts that it holds.
    pub fn long_bytes(&self) -> usize {
        match &self.values {
            Values::Long { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    pub fn clear(&mut self) {
        match &mut self.values {
            Values::U8(values) => values.clear(),
            Values::U16(values) => values.clear(),
            Values::U32(values) => values.clear(),
            Values::U64(values) => values.clear(),
            Values::Bool(values) => values.clear(),
            Values::Word(values) => values.clear(),
            Values::Long { bytes, ends, .. } => {
                bytes.clear();
                ends.clear();
            }
        }
        self.valid = None;
    }

    /// Appends numbers. Those that are too large for the column are cut: every field fits its column.
    #[inline]
    pub fn numbers(&mut self, numbers: impl Iterator<Item = u64>) {
        let before = self.len();
        match &mut self.values {
            Values::U8(values) => values.extend(numbers.map(|number| number as u8)),
            Values::U16(values) => values.extend(numbers.map(|number| number as u16)),
            Values::U32(values) => values.extend(numbers.map(|number| number as u32)),
            Values::U64(values) => values.extend(numbers),
            Values::Bool(_) | Values::Word(_) | Values::Long { .. } => {}
        }
        self.all_valid_since(before);
    }

    /// Appends numbers that may be missing.
    pub fn optional_numbers(&mut self, numbers: impl Iterator<Item = Option<u64>>) {
        let mut missing = Vec::new();
        let before = self.len();
        let mut at = before;
        self.numbers(numbers.map(|number| {
            if number.is_none() {
                missing.push(at);
            }
            at += 1;
            number.unwrap_or(0)
        }));
        self.set_missing(&missing);
    }

    /// Appends true and false.
    pub fn flags(&mut self, flags: impl Iterator<Item = bool>) {
        let before = self.len();
        if let Values::Bool(values) = &mut self.values {
            values.extend(flags);
        }
        self.all_valid_since(before);
    }

    /// Appends texts by number.
    pub fn words(&mut self, ids: impl Iterator<Item = TextId>) {
        if let Values::Word(values) = &mut self.values {
            values.extend(ids);
        }
    }

    /// Appends a text or bytes.
    pub fn long(&mut self, value: &[u8]) {
        let before = self.len();
        if let Values::Long { bytes, ends, .. } = &mut self.values {
            bytes.extend_from_slice(value);
            ends.push(bytes.len() as i32);
        }
        self.all_valid_since(before);
    }

    /// Appends values that are missing.
    pub fn nulls(&mut self, count: usize) {
        match &self.values {
            Values::Word(_) => self.words(std::iter::repeat_n(TextId::NONE, count)),
            Values::Long { .. } => {
                let before = self.len();
                (0..count).for_each(|_| self.long(&[]));
                self.set_missing(&(before..before + count).collect::<Vec<_>>());
            }
            Values::Bool(_) => {
                let before = self.len();
                self.flags(std::iter::repeat_n(false, count));
                self.set_missing(&(before..before + count).collect::<Vec<_>>());
            }
            _ => self.optional_numbers(std::iter::repeat_n(None, count)),
        }
    }

    fn all_valid_since(&mut self, before: usize) {
        let length = self.len();
        if let Some(valid) = &mut self.valid {
            debug_assert_eq!(valid.len(), before);
            valid.resize(length, true);
        }
    }

    fn set_missing(&mut self, missing: &[usize]) {
        if missing.is_empty() {
            return;
        }
        let length = self.len();
        let valid = self.valid.get_or_insert_with(|| vec![true; length]);
        missing.iter().for_each(|&at| valid[at] = false);
    }

    /// A value.
    pub fn cell<'t>(&'t self, row: usize, texts: &'t Texts) -> Cell<'t> {
        if self.valid.as_ref().is_some_and(|valid| valid.get(row) == Some(&false)) {
            return Cell::Null;
        }
        let number = |number: Option<u64>| number.map_or(Cell::Null, Cell::Number);
        match &self.values {
            Values::U8(values) => number(values.get(row).map(|&value| value.into())),
            Values::U16(values) => number(values.get(row).map(|&value| value.into())),
            Values::U32(values) => number(values.get(row).map(|&value| value.into())),
            Values::U64(values) => number(values.get(row).copied()),
            Values::Bool(values) => values.get(row).map_or(Cell::Null, |&flag| Cell::Flag(flag)),
            Values::Word(ids) => {
                let text = ids.get(row).and_then(|&id| texts.get(id));
                text.map_or(Cell::Null, Cell::Text)
            }
            Values::Long { bytes, ends, .. } => {
                let start =
                    row.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |&end| end as usize);
                let end = ends.get(row).map_or(start, |&end| end as usize);
                let text = bytes.get(start..end).and_then(|text| std::str::from_utf8(text).ok());
                text.map_or(Cell::Null, Cell::Text)
            }
        }
    }

    /// What it holds; it is empty afterwards.
    pub fn finish(&mut self, layout: Layout, dictionary: &mut Dictionary, texts: &Texts) -> FinishedColumn {
        let valid = self.valid.take();
        let capacity = self.len();
        let values = match &mut self.values {
            Values::U8(values) => Values::U8(replaced(values, capacity)),
            Values::U16(values) => Values::U16(replaced(values, capacity)),
            Values::U32(values) => Values::U32(replaced(values, capacity)),
            Values::U64(values) => Values::U64(replaced(values, capacity)),
            Values::Bool(values) => Values::Bool(replaced(values, capacity)),
            Values::Long { bytes, ends, is_text } => {
                let (bytes, ends) = (std::mem::take(bytes), std::mem::take(ends));
                Values::Long { bytes, ends, is_text: *is_text }
            }
            Values::Word(ids) => {
                let mut valid = None;
                let mut keys = Vec::with_capacity(ids.len());
                for (row, &id) in ids.iter().enumerate() {
                    let key = dictionary.key(id, texts);
                    if key.is_none() {
                        valid.get_or_insert_with(|| vec![true; ids.len()])[row] = false;
                    }
                    keys.push(key.unwrap_or(0));
                }
                ids.clear();
                return FinishedColumn {
                    values: FinishedValues::Words { keys, values: dictionary.values() },
                    valid,
                    layout,
                };
            }
        };
        FinishedColumn { values: FinishedValues::Plain(values), valid, layout }
    }
}

/// Takes the values, and leaves room for as many.
fn replaced<T>(values: &mut Vec<T>, capacity: usize) -> Vec<T> {
    std::mem::replace(values, Vec::with_capacity(capacity))
}
