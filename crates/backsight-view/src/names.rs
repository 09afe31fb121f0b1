//! Names of functions by number, the same for all answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use backsight::calls::FunctionName;
use backsight::core::Printable;
use serde_json::{Value, json};

/// Names that are kept. Functions beyond that share one.
const MOST: usize = 1 << 20;

/// Characters of a name that are shown.
const MOST_CHARACTERS: usize = 1_000;

/// A text of a capture, as a page may have it.
pub(crate) fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(MOST_CHARACTERS).map(|(end, _)| end);
    let printable = Printable(&text[..cut.unwrap_or(text.len())]).to_string();
    if cut.is_some() { printable + "…" } else { printable }
}

#[derive(Default)]
struct Known {
    /// The name, and where the function begins.
    list: Vec<(String, u64)>,
    numbers: HashMap<(String, u64), u32>,
}

/// All names so far.
#[derive(Default)]
pub(crate) struct Names(Mutex<Known>);

impl Names {
    fn number(&self, function: &FunctionName<'_>) -> u32 {
        let address =
            function.address.0 - function.symbol.map_or(0, |symbol| symbol.offset).min(function.address.0);
        let name = shown(&function.to_string());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { list, numbers } = &mut *known;
        if list.is_empty() {
            list.push(("functions that are too many to be named".to_owned(), 0));
        }
        if list.len() > MOST {
            return 0;
        }
        *numbers.entry((name.clone(), address)).or_insert_with(|| {
            list.push((name, address));
            list.len() as u32 - 1
        })
    }

    /// The names of some numbers, for an answer.
    pub fn of(&self, numbers: impl Iterator<Item = u32>) -> Value {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named: BTreeMap<String, Value> = numbers
            .filter_map(|number| {
                let (name, address) = known.list.get(number as usize)?;
                Some((number.to_string(), json!([name, format!("{address:#x}")])))
            })
            .collect();
        json!(named)
    }
}

/// The numbers that somebody has asked for, so that nobody waits for the others.
pub(crate) struct NameCache<'v> {
    names: &'v Names,
    numbers: HashMap<(u64, usize), u32>,
}

impl<'v> NameCache<'v> {
    pub fn new(names: &'v Names) -> Self {
        Self { names, numbers: HashMap::new() }
    }

    pub fn of(&mut self, function: &FunctionName<'_>) -> u32 {
        let text = function.symbol.map_or(0, |symbol| symbol.name.as_ptr() as usize);
        let names = self.names;
        *self.numbers.entry((function.address.0, text)).or_insert_with(|| names.number(function))
    }
}
