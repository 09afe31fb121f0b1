//! What units counted, in words: the cycles of a hart, a buffer of limited size.

use backsight_run::units::UnitFigures;
use backsight_unit::etrace::Losses;
use backsight_unit::riscv::retire::Figures;

/// The lines for the units of some threads.
pub fn in_words(figures: &[(u32, UnitFigures)]) -> Vec<String> {
    let several = figures.len() > 1;
    let mut lines = Vec::new();
    for (thread, UnitFigures { cycles, losses }) in figures {
        let thread = if several { format!("thread {thread}: ") } else { String::new() };
        let words = cycles.iter().map(cycles_in_words).chain(losses.iter().map(losses_in_words));
        lines.extend(words.map(|line| thread.clone() + &line));
    }
    lines
}

/// One line for the figures of a hart.
fn cycles_in_words(figures: &Figures) -> String {
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

/// One line for what a buffer cost.
fn losses_in_words(losses: &Losses) -> String {
    let Losses { gaps, stalls, fullest } = losses;
    match (gaps, stalls) {
        (0, 0) => format!("the buffer was large enough: at most {fullest} bytes were in it"),
        (0, stalls) => format!("the buffer was full: the hart waited {stalls} cycles"),
        (gaps, _) => format!("the buffer was full: trace was lost {gaps} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_lost_trace_or_made_the_hart_wait_or_was_large_enough() {
        let words = |gaps, stalls| losses_in_words(&Losses { gaps, stalls, fullest: 17 });
        assert!(words(0, 0).ends_with("at most 17 bytes were in it"));
        assert!(words(0, 5).ends_with("the hart waited 5 cycles"));
        assert!(words(3, 0).ends_with("trace was lost 3 times"));
    }

    #[test]
    fn only_what_cost_something_is_said() {
        let figures = Figures { cycles: 10, instructions: 15, blocks: 5, packets: 1, ..Figures::default() };
        let plain = cycles_in_words(&figures);
        assert!(plain.starts_with("10 cycles: 1.500 instructions, 0.500 blocks"), "{plain}");
        assert!(!plain.contains(';'), "{plain}");
        let held = cycles_in_words(&Figures { held: 3, ..figures });
        assert!(held.ends_with("; 3 ended early for the interface"), "{held}");
    }
}
