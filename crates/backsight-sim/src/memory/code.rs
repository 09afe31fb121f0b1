//! Which memory holds code that was decoded, and which code those who observe the program know.
//!
//! RISC-V lets a processor see changed code only after FENCE.I; here a store to decoded code is noticed when it happens,
//! as instruction caches that snoop do. Half-words are the unit: data may share a page with code.

use super::{Change, PAGE};
use std::collections::HashMap;

const WORDS: usize = (PAGE / 2 / 64) as usize;

/// One bit for each half-word of a page.
type HalfWords = [u64; WORDS];

/// What is known of a page's code.
struct KnownPage {
    half_words: HalfWords,
    bytes: [u8; PAGE as usize],
}

/// The code in memory.
#[derive(Default)]
pub struct CodePages {
    decoded: HashMap<u64, HalfWords>,
    stale: Vec<u64>,
    known: HashMap<u64, Box<KnownPage>>,
    /// Code that was decoded and not known.
    new: Vec<(u64, Vec<u8>)>,
}

fn bit(address: u64) -> (usize, u64) {
    let half_word = (address % PAGE / 2) as usize;
    (half_word / 64, 1 << (half_word % 64))
}

impl CodePages {
    /// Is there decoded code in this page?
    pub fn has_page(&self, page: u64) -> bool {
        self.decoded.contains_key(&page)
    }

    /// Was some of these bytes, all in one page, decoded?
    pub fn is_decoded(&self, address: u64, size: u64) -> bool {
        let Some(half_words) = self.decoded.get(&(address & !(PAGE - 1))) else {
            return false;
        };
        (address & !1..address.saturating_add(size)).step_by(2).any(|address| {
            let (word, bit) = bit(address);
            half_words[word] & bit != 0
        })
    }

    /// These bytes, all in one page, were decoded.
    pub fn mark(&mut self, address: u64, bytes: &[u8]) {
        let page = address & !(PAGE - 1);
        let half_words = self.decoded.entry(page).or_insert([0; WORDS]);
        for at in (address..address + bytes.len() as u64).step_by(2) {
            let (word, bit) = bit(at);
            half_words[word] |= bit;
        }
        if !self.is_known(address, bytes) {
            self.know(address, bytes);
            match self.new.last_mut() {
                // The same block, beyond the end of a page.
                Some((start, code)) if *start + code.len() as u64 == address => code.extend(bytes),
                _ => self.new.push((address, bytes.to_vec())),
            }
        }
    }

    /// Every page that has a part in `start..end` holds no decoded code any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        let first = start & !(PAGE - 1);
        if end.saturating_sub(first) / PAGE < self.decoded.len() as u64 {
            for page in (first..end).step_by(PAGE as usize) {
                if self.decoded.remove(&page).is_some() {
                    self.stale.push(page);
                }
            }
        } else {
            let pages = self.decoded.extract_if(|page, _| (first..end).contains(page));
            self.stale.extend(pages.map(|(page, _)| page));
        }
    }

    /// A page whose decoded code is no longer valid.
    pub fn next_stale(&mut self) -> Option<u64> {
        self.stale.pop()
    }

    /// Code that was decoded and not known before.
    pub fn take_new(&mut self) -> impl Iterator<Item = Change> + use<'_> {
        self.new.drain(..).map(|(address, bytes)| Change::Code(address, bytes))
    }

    fn is_known(&self, address: u64, bytes: &[u8]) -> bool {
        let Some(known) = self.known.get(&(address & !(PAGE - 1))) else {
            return false;
        };
        let at = (address % PAGE) as usize;
        known.bytes.get(at..at + bytes.len()) == Some(bytes)
            && (address..address + bytes.len() as u64).step_by(2).all(|at| {
                let (word, bit) = bit(at);
                known.half_words[word] & bit != 0
            })
    }

    /// This code is known to be at this address.
    pub fn know(&mut self, address: u64, bytes: &[u8]) {
        let (mut address, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let at = (address % PAGE) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE as usize - at));
            let known = self
                .known
                .entry(address & !(PAGE - 1))
                .or_insert_with(|| Box::new(KnownPage { half_words: [0; WORDS], bytes: [0; PAGE as usize] }));
            known.bytes[at..at + part.len()].copy_from_slice(part);
            // Half of a half-word is no code.
            for address in (address.next_multiple_of(2)..(address + part.len() as u64) & !1).step_by(2) {
                let (word, bit) = bit(address);
                known.half_words[word] |= bit;
            }
            address += part.len() as u64;
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(code: &mut CodePages) -> Vec<Change> {
        code.take_new().collect()
    }

    #[test]
    fn code_is_new_once_and_again_when_it_differs() {
        let mut code = CodePages::default();
        code.know(0x1000, &[1, 2, 3, 4]);
        code.mark(0x1000, &[1, 2, 3, 4]);
        assert_eq!(new(&mut code), []);
        code.mark(0x1002, &[3, 4, 5, 6]);
        assert_eq!(new(&mut code), [Change::Code(0x1002, vec![3, 4, 5, 6])]);
        code.mark(0x1000, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(new(&mut code), []);
        code.mark(0x1000, &[9, 2]);
        assert_eq!(new(&mut code), [Change::Code(0x1000, vec![9, 2])]);
    }

    #[test]
    fn a_block_over_the_end_of_a_page_is_new_in_one_piece() {
        let mut code = CodePages::default();
        code.mark(0x1FFE, &[1, 2]);
        code.mark(0x2000, &[3, 4]);
        assert_eq!(new(&mut code), [Change::Code(0x1FFE, vec![1, 2, 3, 4])]);
    }

    #[test]
    fn only_decoded_half_words_count_and_whole_pages_become_stale() {
        let mut code = CodePages::default();
        code.mark(0x1010, &[0; 4]);
        assert!(code.is_decoded(0x100F, 2) && code.is_decoded(0x1013, 1) && code.is_decoded(0x1008, 16));
        assert!(!code.is_decoded(0x1014, 8) && !code.is_decoded(0x1008, 8));
        code.mark(0x5000, &[0; 2]);
        code.forget(0x1800, 0x1801);
        assert_eq!((code.next_stale(), code.next_stale()), (Some(0x1000), None));
        code.forget(0, u64::MAX);
        assert_eq!((code.next_stale(), code.next_stale()), (Some(0x5000), None));
    }
}
