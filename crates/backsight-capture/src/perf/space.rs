//! What a process has mapped: each address once, as the kernel has it.

use std::collections::BTreeMap;

use crate::events::{Mapping, Pid};

/// A mapping, or what others left of it.
#[derive(Clone, Debug)]
struct Piece {
    mapping: Mapping,
    /// It begins where the mapping began.
    is_beginning: bool,
}

/// The address space of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// By first address.
    pieces: BTreeMap<u64, Piece>,
    /// What was mapped first.
    main: Option<Mapping>,
}

impl Space {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Maps a file over what is there.
    pub fn map(&mut self, mapping: Mapping) {
        let (start, last) = range(&mapping);
        let before = self.pieces.range(..start).next_back().map(|(&first, _)| first);
        let inside = self.pieces.range(start..=last).map(|(&first, _)| first);
        let covered: Vec<u64> = before.into_iter().chain(inside).collect();
        for first in covered {
            let Some(piece) = self.pieces.remove(&first) else { continue };
            let (_, end) = range(&piece.mapping);
            if first < start {
                let mut head = piece.clone();
                head.mapping.size = Some((end - first).min(start - 1 - first) + 1);
                self.pieces.insert(first, head);
            }
            if end > last {
                let (mut tail, cut) = (piece.mapping, last + 1 - first);
                tail.base.0 = last + 1;
                tail.offset = tail.offset.saturating_add(cut);
                tail.size = Some((end - last - 1).saturating_add(1));
                self.pieces.insert(last + 1, Piece { mapping: tail, is_beginning: false });
            }
        }
        self.main.get_or_insert_with(|| mapping.clone());
        self.pieces.insert(start, Piece { mapping, is_beginning: true });
    }

    /// The same for a child, which has it all from its beginning on.
    pub fn forked(&self, child: u64) -> Self {
        let own = |mapping: &Mapping| Mapping { pid: Pid::Process(child), ..mapping.clone() };
        let piece = |(&first, piece): (&u64, &Piece)| {
            (first, Piece { mapping: own(&piece.mapping), is_beginning: true })
        };
        Self { pieces: self.pieces.iter().map(piece).collect(), main: self.main.as_ref().map(own) }
    }

    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.pieces.values().map(|piece| &piece.mapping)
    }

    /// A mapping that stands for the process when it ends: the first one, unless another took its place.
    pub fn into_main(self) -> Option<Mapping> {
        let main = self.main.as_ref();
        let is_there = |main: &&Mapping| {
            self.pieces
                .get(&main.base.0)
                .is_some_and(|piece| piece.is_beginning && piece.mapping.image == main.image)
        };
        let any = || self.pieces.values().find(|piece| piece.is_beginning).map(|piece| &piece.mapping);
        main.filter(is_there).or_else(any).or(main).cloned()
    }
}

/// First and last address.
fn range(mapping: &Mapping) -> (u64, u64) {
    let size = mapping.size.unwrap_or(0).max(1);
    (mapping.base.0, mapping.base.0.saturating_add(size - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Address;

    fn mapping(base: u64, size: u64, name: &str) -> Mapping {
        Mapping {
            main: false,
            pid: Pid::Process(1),
            base: Address(base),
            image: Some(name.into()),
            build_id: None,
            size: Some(size),
            offset: 0x100,
            relocated: false,
            name: None,
            cpu: None,
        }
    }

    fn shown(space: &Space) -> Vec<(u64, u64, u64, String)> {
        let show = |mapping: &Mapping| {
            let image = mapping.image.as_deref().unwrap_or_default().to_owned();
            (mapping.base.0, mapping.size.unwrap_or(0), mapping.offset, image)
        };
        space.mappings().map(show).collect()
    }

    #[test]
    fn a_mapping_cuts_those_below_it() {
        let mut space = Space::default();
        space.map(mapping(0x1000, 0x3000, "a"));
        space.map(mapping(0x2000, 0x1000, "b"));
        let text = |pieces: &[(u64, u64, u64, &str)]| -> Vec<(u64, u64, u64, String)> {
            pieces.iter().map(|&(base, size, offset, name)| (base, size, offset, name.to_owned())).collect()
        };
        let expected =
            [(0x1000, 0x1000, 0x100, "a"), (0x2000, 0x1000, 0x100, "b"), (0x3000, 0x1000, 0x2100, "a")];
        assert_eq!(shown(&space), text(&expected));
        space.map(mapping(0x1800, 0x2800, "c"));
        assert_eq!(shown(&space), text(&[(0x1000, 0x800, 0x100, "a"), (0x1800, 0x2800, 0x100, "c")]));
        assert_eq!(space.into_main().and_then(|main| main.image).as_deref(), Some("a"));
    }

    #[test]
    fn mappings_inside_of_each_other_are_kept_as_often_as_they_were_made() {
        let mut space = Space::default();
        for number in 0..1000 {
            space.map(mapping(0x10_0000 - number * 0x10, 0x20 * number + 0x10, "nested"));
        }
        assert_eq!(space.len(), 1);
        for number in 0..1000 {
            space.map(mapping(0x8_0000 + number * 0x10, 0x10_0000 - 0x20 * number, "inside"));
        }
        assert!(space.len() <= 2001, "{}", space.len());
    }

    #[test]
    fn a_mapping_reaches_to_the_end_of_memory() {
        let mut space = Space::default();
        space.map(mapping(u64::MAX - 0xFFF, 0x1000, "top"));
        space.map(mapping(u64::MAX - 0xFF, 0x100, "over"));
        assert_eq!(space.len(), 2);
        space.map(mapping(0, u64::MAX, "all"));
        assert_eq!(space.len(), 2, "one byte is above");
    }
}
