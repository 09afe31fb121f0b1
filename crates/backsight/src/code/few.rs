//! A list that mostly has one element.

use std::ops::{Deref, DerefMut};

/// A list that mostly has one element, which is in it and not in memory of its own: there may be as many of these lists as
/// lines of a log.
#[derive(Clone, Debug, Default)]
pub(super) enum Few<T> {
    #[default]
    None,
    One(T),
    #[expect(clippy::box_collection, reason = "the list takes no more memory than its one element")]
    More(Box<Vec<T>>),
}

impl<T> Few<T> {
    pub fn push(&mut self, element: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(element),
            Self::One(first) => Self::More(Box::new(vec![first, element])),
            Self::More(mut all) => {
                all.push(element);
                Self::More(all)
            }
        }
    }

    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::None => Vec::new(),
            Self::One(element) => vec![element],
            Self::More(all) => *all,
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(element) => std::slice::from_ref(element),
            Self::More(all) => all,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(element) => std::slice::from_mut(element),
            Self::More(all) => all,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut few = Self::None;
        elements.into_iter().for_each(|element| few.push(element));
        few
    }
}
