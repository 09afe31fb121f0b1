//! What functions cost with all that they called.

use crate::{CallNode, Profile};

impl Profile {
    /// Instructions of each function with all that it called, by its number. What a function that calls itself does is
    /// counted once.
    pub fn inclusive_instructions(&self) -> Vec<u64> {
        self.inclusive(|node| node.instructions)
    }

    /// The same in cycles, where the trace counts them.
    pub fn inclusive_cycles(&self) -> Vec<u64> {
        self.inclusive(|node| node.cycles)
    }

    fn inclusive(&self, cost: impl Fn(&CallNode) -> u64) -> Vec<u64> {
        let mut totals: Vec<u64> = self.calls.iter().map(cost).collect();
        let mut callees: Vec<Vec<u32>> = vec![Vec::new(); self.calls.len()];
        let mut open: Vec<(u32, bool)> = Vec::new();
        // Callees come after their callers.
        for (number, node) in self.calls.iter().enumerate().rev() {
            match node.parent.map(|parent| parent as usize).filter(|&parent| parent < number) {
                Some(parent) => {
                    totals[parent] = totals[parent].saturating_add(totals[number]);
                    callees[parent].push(number as u32);
                }
                None => open.push((number as u32, false)),
            }
        }
        let mut sums = vec![0_u64; self.functions.len()];
        // How many calls of each function are around the node that is looked at.
        let mut around = vec![0_u32; self.functions.len()];
        while let Some((number, is_left)) = open.pop() {
            let function = self.calls.get(number as usize).and_then(|node| node.function);
            let function = function.map(|function| function as usize).filter(|&one| one < sums.len());
            if is_left {
                function.into_iter().for_each(|function| around[function] -= 1);
                continue;
            }
            if let Some(function) = function {
                if around[function] == 0 {
                    sums[function] = sums[function].saturating_add(totals[number as usize]);
                }
                around[function] += 1;
            }
            open.push((number, true));
            open.extend(callees[number as usize].iter().map(|&callee| (callee, false)));
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;

    fn function(name: &str) -> Function {
        Function {
            module: 0,
            start: None,
            size: 0,
            name: name.to_owned(),
            mangled: String::new(),
            entries: 0,
            instructions: 0,
            cycles: 0,
            certain_cycles: 0,
        }
    }

    #[test]
    fn a_function_that_calls_itself_through_another_is_counted_once() {
        let node =
            |function, parent, instructions| CallNode { function, parent, calls: 1, instructions, cycles: 0 };
        // A thread: main 1, f 10, g 100, f 1000; main calls g 5.
        let calls = vec![
            node(None, None, 0),
            node(Some(0), Some(0), 1),
            node(Some(1), Some(1), 10),
            node(Some(2), Some(2), 100),
            node(Some(1), Some(3), 1000),
            node(Some(2), Some(1), 5),
        ];
        let functions = ["main", "f", "g"].map(function).to_vec();
        let profile = Profile { calls, functions, ..Profile::default() };
        assert_eq!(profile.inclusive_instructions(), [1116, 1110, 1105]);
    }
}
