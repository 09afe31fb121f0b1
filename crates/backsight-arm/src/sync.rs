//! Zeros and 0x80: where decoding can begin in the middle of a stream of an ETM or ITM.

/// The byte after the zeros.
const END: u8 = 0x80;

/// Where the last synchronisation of so many zeros and 0x80 in `bytes` begins, if that is `from` or later. A packet may look like
/// one: a decoder that begins there has to be compared with one that has read what came before.
pub(crate) fn find_last(bytes: &[u8], from: usize, zeros: usize) -> Option<usize> {
    let mut end = bytes.len();
    while end > from + zeros {
        let found = from + bytes.get(from..end)?.iter().rposition(|&byte| byte == END)?;
        let begin = found.checked_sub(zeros).filter(|&begin| begin >= from)?;
        if bytes.get(begin..found)?.iter().all(|&byte| byte == 0) {
            return Some(begin);
        }
        end = found;
    }
    None
}
