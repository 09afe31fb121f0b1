//! Any bytes as a recording with data that is executed again: every moment is the same from wherever one comes to it, and nothing is
//! known of memory that nobody touched.

#![no_main]

use backsight_core::Budget;
use backsight_run::history::{History, HistoryBuilder, InitialMemory, Wanted};
use backsight_run::retired::RetiredReader;

const MOST: usize = 150_000;

/// Registers and some memory at a moment.
fn seen(history: &mut History, moment: u64) -> (Vec<Option<u64>>, Vec<Option<u8>>) {
    let at = history.at(moment);
    assert_eq!(at.instructions(), moment);
    let registers: Vec<_> = (0..64).chain(4096..4100).map(|number| at.register(number)).collect();
    let stack = registers.get(2).copied().flatten().unwrap_or(0);
    let mut memory = vec![None; 256];
    at.memory(0x1000, &mut memory[..128]);
    at.memory(stack.wrapping_sub(64), &mut memory[128..]);
    (registers, memory)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(reader) = RetiredReader::new(data) else { return };
    let part = InitialMemory { address: 0x1000, bytes: &[1, 2, 3], length: 64 };
    let budget = Budget::new(64 << 20);
    let Ok(mut builder) = HistoryBuilder::new(reader.isa(), &[part], &budget) else { return };
    for item in reader.map_while(Result::ok).take(MOST) {
        if builder.push(&item).is_err() {
            return;
        }
    }
    let Ok(mut history) = builder.finish() else { return };
    let end = history.instructions();
    let moments: Vec<u64> = (0..=6).map(|part| end / 6 * part).map(|moment| moment.min(end)).collect();
    let forwards: Vec<_> = moments.iter().map(|&moment| seen(&mut history, moment)).collect();
    let backwards: Vec<_> = moments.iter().rev().map(|&moment| seen(&mut history, moment)).collect();
    assert!(forwards.iter().eq(backwards.iter().rev()));
    for address in [0x1000, u64::MAX, 0] {
        let wanted = Wanted { address, length: 8, reads: true, writes: true, thread: None };
        let last = history.last_access(end, &wanted);
        assert!(last.is_none_or(|hit| hit.instruction < end));
        // What is found from one end is found from the other one, too.
        assert_eq!(history.next_access(0, &wanted).is_some(), last.is_some());
        if let Some(hit) = last {
            assert_eq!(
                history.next_access(hit.instruction, &wanted).map(|next| next.instruction),
                Some(hit.instruction)
            );
        }
    }
    let threads: Vec<_> = history.threads().iter().map(|(&thread, &count)| (thread, count)).take(4).collect();
    for (thread, count) in threads {
        let number = history.number_of(thread, count - 1).expect("an instruction of the thread");
        assert_eq!(history.at(number).thread(), thread);
    }
});
