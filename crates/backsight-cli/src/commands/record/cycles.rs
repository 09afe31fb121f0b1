//! What the cycles of a hart cost, in words.

use backsight_riscv::retire::Figures;

/// One line for the figures of a hart.
pub fn in_words(figures: &Figures) -> String {
    let mut words = format!(
        "{} cycles: {:.3} instructions, {:.3} blocks (most {}), {:.4} packets (most {}) a cycle",
        figures.cycles,
        figures.instructions_per_cycle(),
        figures.blocks_per_cycle(),
        figures.most_blocks(),
        figures.packets_per_cycle(),
        figures.most_packets(),
    );
    let costs = [
        (figures.held, "ended early for the interface"),
        (figures.stalls, "stalled by the connector"),
        (figures.waits, "waited for packets to leave"),
    ];
    for (count, what) in costs.into_iter().filter(|(count, _)| *count > 0) {
        words += &format!("; {count} {what}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cost_something_is_said() {
        let figures = Figures { cycles: 10, instructions: 15, blocks: 5, packets: 1, ..Figures::default() };
        let plain = in_words(&figures);
        assert!(plain.starts_with("10 cycles: 1.500 instructions, 0.500 blocks"), "{plain}");
        assert!(!plain.contains(';'), "{plain}");
        let held = in_words(&Figures { held: 3, ..figures });
        assert!(held.ends_with("; 3 ended early for the interface"), "{held}");
    }
}
