//! Texts that come again and again, by number.

use std::collections::HashMap;
use std::sync::Arc;

/// A text that was put into [`Texts`], or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextId(u32);

impl TextId {
    /// No text.
    pub const NONE: Self = Self(u32::MAX);

    fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

/// Texts, each of which is kept once. There are as many as the code has functions and files.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Texts {
    /// The number of a text.
    pub fn id(&mut self, text: &str) -> TextId {
        if let Some(&number) = self.numbers.get(text) {
            return TextId(number);
        }
        let (text, number): (Arc<str>, _) = (text.into(), self.texts.len() as u32);
        self.numbers.insert(text.clone(), number);
        self.texts.push(text);
        TextId(number)
    }

    /// The same for a text that may be missing.
    pub fn optional(&mut self, text: Option<&str>) -> TextId {
        text.map_or(TextId::NONE, |text| self.id(text))
    }

    /// The text of a number.
    pub fn get(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.index()?).map(|text| &**text)
    }
}

/// The texts of one column: a dictionary that grows from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// The key of each text, by its number; -1: it is not here yet.
    keys: Vec<i32>,
    values: Vec<Arc<str>>,
    /// All values when they were asked for last.
    shared: Arc<[Arc<str>]>,
}

impl Dictionary {
    /// The key of a text; `None` if there is no text.
    #[inline]
    pub fn key(&mut self, id: TextId, texts: &Texts) -> Option<i32> {
        let index = id.index()?;
        match self.keys.get(index) {
            Some(&key) if key >= 0 => Some(key),
            _ => self.add(index, texts),
        }
    }

    #[cold]
    fn add(&mut self, index: usize, texts: &Texts) -> Option<i32> {
        let text = texts.texts.get(index)?.clone();
        if self.keys.len() <= index {
            self.keys.resize(texts.texts.len(), -1);
        }
        let key = self.values.len() as i32;
        self.values.push(text);
        self.keys[index] = key;
        Some(key)
    }

    /// Its texts, by key.
    pub fn values(&mut self) -> Arc<[Arc<str>]> {
        if self.shared.len() != self.values.len() {
            self.shared = self.values.as_slice().into();
        }
        self.shared.clone()
    }
}
