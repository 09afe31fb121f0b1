//! Names that are near to one that there is not.

use std::collections::BTreeSet;

use backsight_core::Printable;
use backsight_image::Image;

use crate::Error;

/// Names that are given, at most.
const MOST: usize = 3;

/// Longest names that are compared letter by letter: to compare takes time by the product of their lengths.
const LONGEST: usize = 128;

/// An image has no function of a name.
pub(crate) fn no_function(name: &str, image: &Image) -> Error {
    let near = near_names(name, image.functions().map(|function| function.name));
    Error::Absent(format!("function {}: the image has no function of that name{near}", Printable(name)))
}

/// The names that are nearest to one, in words to be added to what says that it is not there; nothing if none is near.
fn near_names<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let mut nearest = BTreeSet::new();
    for other in names {
        if let Some(distance) = distance(name, other) {
            nearest.insert((distance, other));
            if nearest.len() > MOST {
                nearest.pop_last();
            }
        }
    }
    let words: Vec<_> = nearest.iter().map(|(_, name)| Printable(name).to_string()).collect();
    match words.is_empty() {
        true => String::new(),
        false => format!("; near to it: {}", words.join(", ")),
    }
}

/// How far a name is from another: letters to change, to add or to leave out, few of them; else how much longer it is, if the
/// other one is in it. `None` if it is not near.
fn distance(name: &str, other: &str) -> Option<(bool, usize)> {
    if name.is_empty() || other.is_empty() {
        return None;
    }
    let most = (name.len() / 4).max(1);
    let is_comparable = name.len() <= LONGEST && name.len().abs_diff(other.len()) <= most;
    let edits = if is_comparable { Some(edits(name.as_bytes(), other.as_bytes())) } else { None };
    match edits.filter(|&edits| edits <= most) {
        Some(edits) => Some((false, edits)),
        None => other.contains(name).then(|| (true, other.len() - name.len())),
    }
}

/// Letters to change, to add or to leave out; capitals count as small ones.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for (place, with) in other.iter().enumerate() {
            let changed = diagonal + usize::from(!letter.eq_ignore_ascii_case(with));
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_the_far_not_at_all() {
        let names = ["malloc", "calloc", "xmalloc", "free", "Malloc_trim", "malloc_usable_size", ""];
        assert_eq!(near_names("maloc", names.into_iter()), "; near to it: malloc");
        assert_eq!(near_names("mallocs", names.into_iter()), "; near to it: malloc");
        assert_eq!(near_names("malloc_", names.into_iter()), "; near to it: malloc, malloc_usable_size");
        assert_eq!(near_names("MALLOC", names.into_iter()), "; near to it: malloc, calloc, xmalloc");
        assert_eq!(near_names("printf", names.into_iter()), "");
        assert_eq!(near_names("", names.into_iter()), "");
    }

    #[test]
    fn letters_are_changed_added_and_left_out() {
        for (one, other, expected) in
            [("abc", "abc", 0), ("abc", "ABD", 1), ("abc", "bc", 1), ("", "xy", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(edits(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
            assert_eq!(edits(other.as_bytes(), one.as_bytes()), expected, "{other} {one}");
        }
    }

    #[test]
    fn names_of_a_program_are_not_printed_as_they_are() {
        assert!(!near_names("evil", ["ev\u{1b}il"].into_iter()).contains('\u{1b}'));
    }
}
