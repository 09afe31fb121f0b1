//! Loops and paths are what the execution says.

use std::collections::BTreeMap;

use backsight::isa::Class;
use backsight::{Capture, Event};
use backsight_profile::{CountOptions, PathElement, count};

use super::{capture, profile_of};

const WINDOW: usize = 3;

/// Address of a branch and whether it was taken, or the address that an indirect branch went to.
type Element = (u64, Option<bool>);

#[test]
fn outcomes_by_path_are_those_of_the_execution() {
    for name in ["calls-aarch64", "calls-riscv64"] {
        let capture = Capture::open(capture(name)).expect("a capture");
        let mut expected: BTreeMap<(u64, Vec<Element>), [u64; 2]> = BTreeMap::new();
        let (mut history, mut was_indirect): (Vec<Element>, bool) = (Vec::new(), false);
        let each = |item: backsight::Item<'_, Event>| match item.value {
            Event::Range(range) if range.instructions > 0 => {
                if std::mem::take(&mut was_indirect) {
                    history.insert(0, (range.start.0, None));
                }
                let last = range.end.0 - u64::from(range.last_size);
                if range.class == Class::DirectBranch && range.flags.conditional {
                    if history.len() >= WINDOW {
                        let outcomes = expected.entry((last, history[..WINDOW].to_vec())).or_default();
                        outcomes[usize::from(range.executed)] += 1;
                    }
                    history.insert(0, (last, Some(range.executed)));
                }
                was_indirect = range.class == Class::IndirectBranch && range.executed;
                history.truncate(WINDOW);
            }
            Event::TraceOn(_) | Event::NoSync(_) => {
                history.clear();
                was_indirect = false;
            }
            _ => {}
        };
        capture.execution().run(each).expect("execution");
        let options = CountOptions { paths: WINDOW, ..CountOptions::default() };
        let (profile, _) = count(&capture, capture.execution(), &options).expect("a profile");
        let mut counted: BTreeMap<(u64, Vec<Element>), [u64; 2]> = BTreeMap::new();
        let paths = profile.paths.as_ref().expect("paths");
        assert_eq!(paths.left_out, 0);
        for context in &paths.contexts {
            let block = |number: u32| &profile.blocks[number as usize];
            let path = context.path.iter().map(|element| match *element {
                PathElement::Conditional { block: number, taken } => (block(number).last(), Some(taken)),
                PathElement::Target { block: number } => (block(number).start, None),
            });
            let outcomes = counted.entry((block(context.block).last(), path.collect())).or_default();
            outcomes[0] += context.not_taken;
            outcomes[1] += context.taken;
        }
        assert_eq!(counted, expected, "{name}");
        let branches = profile.path_branches();
        assert!(branches.len() >= 3 && branches.is_sorted_by(|one, other| one.gain >= other.gain));
        assert!(branches.iter().all(|branch| branch.conditional_entropy <= branch.entropy + 1e-9));
    }
}

#[test]
fn loops_of_a_program_are_inside_of_each_other_and_go_around() {
    let profile = profile_of(&capture("calls-riscv64"));
    let loops = profile.loops();
    assert!(!loops.is_empty());
    for (number, found) in loops.iter().enumerate() {
        assert!(found.blocks.contains(&found.header));
        assert!(found.parent.is_none_or(|parent| parent < number));
        assert!(found.entries <= found.iterations, "{found:?}");
        let around = found.parent.map(|parent| &loops[parent]);
        assert!(around.is_none_or(|around| found.blocks.iter().all(|block| around.blocks.contains(block))));
        // Every block of a loop is of its function.
        assert!(found.blocks.iter().all(|&block| profile.blocks[block as usize].function == found.function));
    }
    assert!(loops.iter().any(|found| found.iterations > found.entries), "{loops:?}");
}
