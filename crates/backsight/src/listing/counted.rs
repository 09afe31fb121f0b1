//! Numbers of things, in words.

/// A number of things: `1 buffer`, `2 buffers`, `3 accesses`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = match (count, thing) {
        (1, _) => "",
        (_, thing) if ["ch", "sh", "ss"].iter().any(|end| thing.ends_with(end)) => "es",
        _ => "s",
    };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let all = [(0, "gap"), (1, "branch"), (2, "branch"), (1, "byte"), (3, "flush")];
        let words = all.map(|(count, thing)| counted(count, thing));
        assert_eq!(words, ["0 gaps", "1 branch", "2 branches", "1 byte", "3 flushes"]);
    }
}
