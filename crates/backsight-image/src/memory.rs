//! Memory as each view and each process sees it.
//!
//! Most images look the same from everywhere, so views are kept together as long as nothing was added to some of them
//! only. What a process has of its own lies over what all processes see.

use std::collections::BTreeMap;

use backsight_core::AddressSpace;

use crate::Contents;
use crate::intervals::{Intervals, Value};

/// Bytes of a file, from `offset` on, and which of the modules they came from.
#[derive(Clone, Debug)]
pub struct Piece {
    pub contents: Contents,
    pub offset: usize,
    pub module: Option<u32>,
}

impl Value for Piece {
    fn advance(&mut self, distance: u64) {
        self.offset += distance as usize;
    }
}

/// A module, by its number.
impl Value for u32 {
    fn advance(&mut self, _: u64) {}
}

/// What one view of one process holds.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The bytes.
    pub pieces: Intervals<Piece>,
    /// From where to where each module reaches, gaps between its segments included: bytes that were patched into it
    /// have its names.
    pub modules: Intervals<u32>,
}

impl Layer {
    #[inline]
    fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        let (start, last, piece) = self.pieces.find(address)?;
        let offset = piece.offset + (address - start) as usize;
        piece.contents.get(offset..=offset + (last - address) as usize)
    }
}

/// The eight views of one process.
#[derive(Debug)]
struct Views {
    /// Views that look the same, one bit each, and what they hold; in the order of their lowest bits.
    layers: Vec<(u8, Layer)>,
}

impl Default for Views {
    fn default() -> Self {
        Self { layers: vec![(u8::MAX, Layer::default())] }
    }
}

impl Views {
    /// Changes what the views of `mask` hold.
    fn change(&mut self, mask: u8, mut change: impl FnMut(&mut Layer)) {
        for place in 0..self.layers.len() {
            let (views, layer) = &mut self.layers[place];
            let (inside, outside) = (*views & mask, *views & !mask);
            if inside != 0 && outside != 0 {
                let other = layer.clone();
                *views = inside;
                self.layers.push((outside, other));
            }
        }
        for (views, layer) in &mut self.layers {
            if *views & mask != 0 {
                change(layer);
            }
        }
        self.layers.sort_by_key(|(views, _)| views.trailing_zeros());
    }

    /// What the views of `mask` hold.
    #[inline]
    fn of(&self, mask: u8) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(move |(views, _)| views & mask != 0).map(|(_, layer)| layer)
    }
}

/// The memory of all processes.
#[derive(Debug, Default)]
pub struct Memory {
    common: Views,
    processes: BTreeMap<u32, Views>,
}

impl Memory {
    /// Changes what a space holds.
    pub fn change(&mut self, space: AddressSpace, change: impl FnMut(&mut Layer)) {
        let views = match space.process() {
            0 => &mut self.common,
            process => self.processes.entry(process).or_default(),
        };
        views.change(space.view(), change);
    }

    /// Forgets what a process has of its own.
    pub fn remove_process(&mut self, process: u32) -> bool {
        self.processes.remove(&process).is_some()
    }

    /// The layers that a space sees: those of its process, then those of all.
    #[inline]
    pub fn layers(&self, space: AddressSpace) -> impl Iterator<Item = &Layer> {
        let own = match space.process() {
            0 => None,
            process => self.processes.get(&process),
        };
        own.into_iter().chain([&self.common]).flat_map(move |views| views.of(space.view()))
    }

    /// What a process has of its own, as the first of the views of `space` sees it.
    pub fn own_layer(&self, space: AddressSpace) -> Option<&Layer> {
        self.processes.get(&space.process())?.of(space.view()).next()
    }

    /// The bytes from `address` on, as many as lie together.
    #[inline]
    pub fn bytes_at(&self, space: AddressSpace, address: u64) -> Option<&[u8]> {
        if space.process() != 0
            && let Some(own) = self.processes.get(&space.process())
        {
            // What all processes see ends where this one has something of its own.
            let mut room = u64::MAX;
            for layer in own.of(space.view()) {
                if let Some(bytes) = layer.bytes_at(address) {
                    return Some(bytes);
                }
                room = room.min(layer.pieces.next_start(address).map_or(u64::MAX, |start| start - address));
            }
            let bytes = self.common.of(space.view()).find_map(|layer| layer.bytes_at(address))?;
            return Some(&bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))]);
        }
        self.common.of(space.view()).find_map(|layer| layer.bytes_at(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(memory: &mut Memory, space: AddressSpace, start: u64, byte: u8, length: usize) {
        let contents: Contents = vec![byte; length].into();
        memory.change(space, |layer| {
            let piece = Piece { contents: contents.clone(), offset: 0, module: None };
            layer.pieces.insert(start, start + length as u64 - 1, piece);
        });
    }

    fn seen(memory: &Memory, space: AddressSpace, address: u64) -> (u8, usize) {
        memory.bytes_at(space, address).map_or((0, 0), |bytes| (bytes[0], bytes.len()))
    }

    const ANY: AddressSpace = AddressSpace::ANY;

    #[test]
    fn a_process_sees_its_own_over_what_all_see() {
        let mut memory = Memory::default();
        set(&mut memory, ANY.in_process(1), 0x1008, 1, 8);
        set(&mut memory, ANY, 0x1000, 9, 0x20);
        assert_eq!(seen(&memory, ANY.in_process(1), 0x1000), (9, 8), "up to its own");
        assert_eq!(seen(&memory, ANY.in_process(1), 0x1008), (1, 8), "whatever was added last");
        assert_eq!(seen(&memory, ANY.in_process(1), 0x1010), (9, 0x10));
        assert_eq!(seen(&memory, ANY.in_process(2), 0x1008), (9, 0x18));
        assert_eq!(seen(&memory, ANY, 0x1008), (9, 0x18));
        assert!(memory.remove_process(1) && !memory.remove_process(1));
        assert_eq!(seen(&memory, ANY.in_process(1), 0x1000), (9, 0x20));
    }

    #[test]
    fn views_are_split_only_where_they_differ() {
        let mut memory = Memory::default();
        set(&mut memory, ANY, 0, 1, 16);
        assert_eq!(memory.common.layers.len(), 1);
        set(&mut memory, AddressSpace::EL1N, 4, 2, 4);
        assert_eq!(memory.common.layers.len(), 2);
        set(&mut memory, AddressSpace::ANY_S, 8, 3, 4);
        assert_eq!(memory.common.layers.len(), 3);
        let views: u8 = memory.common.layers.iter().map(|(views, _)| views).fold(0, |all, views| all | views);
        assert_eq!(views, 0xFF);
        assert_eq!(seen(&memory, AddressSpace::EL1N, 4), (2, 4));
        assert_eq!(seen(&memory, AddressSpace::EL2N, 4), (1, 12));
        assert_eq!(seen(&memory, AddressSpace::EL3, 8), (3, 4));
    }
}
