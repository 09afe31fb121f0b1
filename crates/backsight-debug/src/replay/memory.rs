//! Memory that does not change: code and constants.

use std::ops::Range;

use backsight::SourceCode;
use backsight::core::{Address, AddressSpace};
use backsight::image::{Code as _, Elf, Module};

/// Puts the bytes from an address on into `bytes`, and sets `known` for those that are code or constants. What a program may write to is
/// not known: what was there at the beginning need not be there at that moment.
pub(super) fn constant(
    code: &SourceCode<'_>,
    space: AddressSpace,
    address: u64,
    bytes: &mut [u8],
    known: &mut [bool],
) {
    let mut at = 0;
    while at < bytes.len() {
        let Some(here) = address.checked_add(at as u64).map(Address) else { return };
        let Some(found) = code.bytes_at(space, here) else {
            at += 1;
            continue;
        };
        let mut length = found.len().min(bytes.len() - at);
        let module = code.names_at(space, here).module_at(space, here).map(|(module, _)| module);
        if let Some(module) = module {
            match writable(module, here, length as u64) {
                Some(none) if none.is_empty() => {}
                Some(part) if part.start == 0 => {
                    at += (part.end as usize).max(1);
                    continue;
                }
                Some(part) => length = part.start as usize,
                None => {}
            }
        }
        bytes[at..at + length].copy_from_slice(&found[..length]);
        known[at..at + length].fill(true);
        at += length;
    }
}

/// The first bytes of so many that the segments of a file say may be written to, counted from an address; `None` if it has no segments.
fn writable(module: &Module, address: Address, length: u64) -> Option<Range<u64>> {
    let (elf, contents) = (module.elf()?, module.contents()?);
    let start = module.file_address(address);
    let end = start.saturating_add(length);
    let parts = segments(elf, contents).filter(|segment| segment.is_writable);
    let overlaps = parts.filter(|part| part.addresses.start < end && start < part.addresses.end);
    let first = overlaps.min_by_key(|part| part.addresses.start);
    let part = first
        .map_or(0..0, |part| part.addresses.start.saturating_sub(start)..part.addresses.end.min(end) - start);
    Some(part)
}

/// A loadable segment, whether it has bytes in the file or not.
pub(crate) struct Segment {
    /// In the numbering of the file.
    pub addresses: Range<u64>,
    pub is_writable: bool,
    /// Where its contents are in the file, and how many bytes of it.
    pub offset: u64,
    pub in_file: u64,
}

/// The loadable segments of a file. What makes no sense is left out.
pub(crate) fn segments<'f>(elf: &Elf, file: &'f [u8]) -> impl Iterator<Item = Segment> + 'f {
    let (wide, is_big) = (elf.wide, file.get(5) == Some(&2));
    let number = move |at: usize, size: usize| -> Option<u64> {
        let bytes = file.get(at..at.checked_add(size)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match is_big {
            true => bytes.iter().fold(0, add),
            false => bytes.iter().rev().fold(0, add),
        })
    };
    // Offsets in the header: of the table, of the size of an entry, of their number; in an entry: flags, offset, address, size in the
    // file, size in memory.
    let (table, size, count) = match wide {
        true => (number(32, 8), number(54, 2), number(56, 2)),
        false => (number(28, 4), number(42, 2), number(44, 2)),
    };
    let ([flags_at, offset_at, address_at, contents_at, size_at], word) =
        if wide { ([4, 8, 16, 32, 40], 8) } else { ([24, 4, 8, 16, 20], 4) };
    let (table, size) = (table.unwrap_or(0), size.unwrap_or(0));
    (0..count.unwrap_or(0)).filter_map(move |index| {
        let at = usize::try_from(table.checked_add(index * size)?).ok()?;
        let is_load = number(at, 4)? == 1;
        let (flags, address) = (number(at.checked_add(flags_at)?, 4)?, number(at + address_at, word)?);
        let end = address.saturating_add(number(at.checked_add(size_at)?, word)?);
        let (offset, in_file) = (number(at + offset_at, word)?, number(at + contents_at, word)?);
        is_load.then_some(Segment { addresses: address..end, is_writable: flags & 2 != 0, offset, in_file })
    })
}
