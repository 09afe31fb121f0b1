//! A map of edges as coverage-guided fuzzers keep it: 65,536 counters of a byte.
//!
//! Each block has a number made from its address; an edge counts at `(number of from >> 1) ^ number of to`. Counters stop
//! at 255. The same program gives the same map whenever it takes the same edges.

use std::io::Write;

use super::{ExportError, ExportOptions, Format};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "afl",
    title: "Map of edges, 64 KiB of counters",
    readers: "tools for AFL's trace_bits",
    needs: &[],
    write,
};

const SIZE: usize = 1 << 16;

fn write(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut map = vec![0u8; SIZE];
    let number = |block: u32| {
        let start = profile.blocks.get(block as usize).map_or(0, |block| block.start);
        (start.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
    };
    for edge in &profile.edges {
        let counter = &mut map[((number(edge.from) >> 1) ^ number(edge.to)) % SIZE];
        *counter = counter.saturating_add(edge.count.min(255) as u8);
    }
    Ok(out.write_all(&map)?)
}
