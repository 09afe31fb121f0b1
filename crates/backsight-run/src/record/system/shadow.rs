//! What a process ran from memory of no file: so that the log has it once, and again when it is other code.

use std::collections::HashMap;

const PAGE: u64 = 4096;

/// The bytes that were logged.
#[derive(Debug, Default)]
pub struct Shadow {
    pages: HashMap<u64, Box<[Option<u8>; PAGE as usize]>>,
}

impl Shadow {
    /// Are these the bytes that were logged? Remembers them.
    pub fn replace(&mut self, address: u64, bytes: &[u8]) -> bool {
        let mut same = true;
        for (address, &byte) in (address..).zip(bytes) {
            let page = self.pages.entry(address / PAGE).or_insert_with(|| Box::new([None; PAGE as usize]));
            let known = &mut page[(address % PAGE) as usize];
            same &= known.replace(byte) == Some(byte);
        }
        same
    }

    /// Memory is gone.
    pub fn forget(&mut self, address: u64, length: u64) {
        let end = address.saturating_add(length);
        self.pages.retain(|page, bytes| {
            let start = page * PAGE;
            if end <= start || start.saturating_add(PAGE) <= address {
                return true;
            }
            for (at, byte) in (start..).zip(bytes.iter_mut()) {
                if (address..end).contains(&at) {
                    *byte = None;
                }
            }
            bytes.iter().any(Option::is_some)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_new_once_and_again_when_it_changed_or_was_unmapped() {
        let mut shadow = Shadow::default();
        let at = PAGE - 2;
        assert!(!shadow.replace(at, &[1, 2, 3, 4]));
        assert!(shadow.replace(at, &[1, 2, 3, 4]));
        assert!(!shadow.replace(at, &[1, 2, 3, 5]));
        shadow.forget(PAGE, PAGE);
        assert!(shadow.replace(at, &[1, 2]));
        assert!(!shadow.replace(at, &[1, 2, 3, 5]));
    }
}
