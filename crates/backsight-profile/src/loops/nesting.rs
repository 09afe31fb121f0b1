//! The nesting of loops, by the algorithm of Havlak ("Nesting of reducible and irreducible loops", 1997).
//!
//! Nodes are numbered as a depth-first search meets them. Going through them from the last to the first, each that a
//! later one leads back to is the header of a loop; what reaches those back edges without passing the header is its body,
//! and is joined to it, so that loops around it see it as one node. A node that reaches the body from outside of what
//! the header leads to makes the loop irreducible.

use std::collections::HashSet;

/// A graph whose nodes are numbers.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    successors: Vec<Vec<usize>>,
    /// A node may have as many successors as there are nodes: what no symbol names is one function.
    edges: HashSet<(usize, usize)>,
}

/// What kind of loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    /// Entered at its header only.
    Reducible,
    /// Entered elsewhere too.
    Irreducible,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundLoop {
    pub header: usize,
    pub kind: LoopKind,
    /// All nodes, those of inner loops included.
    pub nodes: Vec<usize>,
    /// The loop around it, by its number in the list; it comes before this one.
    pub parent: Option<usize>,
}

/// Numbers of the depth-first search.
struct Numbering {
    /// Node of a number.
    node: Vec<usize>,
    /// Number of a node.
    number: Vec<Option<usize>>,
    /// The last number below a number in the tree of the search.
    last: Vec<usize>,
}

impl Graph {
    pub fn new(nodes: usize) -> Self {
        Self { successors: vec![Vec::new(); nodes], edges: HashSet::new() }
    }

    pub fn add(&mut self, from: usize, to: usize) {
        if let Some(list) = self.successors.get_mut(from)
            && self.edges.insert((from, to))
        {
            list.push(to);
        }
    }

    /// Lets node 0 lead to these nodes, as far as it does not reach them yet.
    pub fn reach_all(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut is_reached: Vec<bool> = self.numbered().number.iter().map(Option::is_some).collect();
        for start in nodes {
            if is_reached[start] {
                continue;
            }
            self.add(0, start);
            let mut open = vec![start];
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut is_reached[node], true) {
                    open.extend(&self.successors[node]);
                }
            }
        }
    }

    /// A depth-first search from node 0, without recursion: functions may have very many blocks.
    fn numbered(&self) -> Numbering {
        let count = self.successors.len();
        let mut numbering = Numbering { node: Vec::new(), number: vec![None; count], last: vec![0; count] };
        if count == 0 {
            return numbering;
        }
        let mut open: Vec<(usize, usize)> = vec![(0, 0)];
        numbering.number[0] = Some(0);
        numbering.node.push(0);
        while let Some((node, next)) = open.last_mut() {
            let node = *node;
            match self.successors[node].get(*next) {
                Some(&to) => {
                    *next += 1;
                    if numbering.number[to].is_none() {
                        numbering.number[to] = Some(numbering.node.len());
                        numbering.node.push(to);
                        open.push((to, 0));
                    }
                }
                None => {
                    if let Some(number) = numbering.number[node] {
                        numbering.last[number] = numbering.node.len() - 1;
                    }
                    open.pop();
                }
            }
        }
        numbering
    }

    /// The loops; every loop comes after the one around it.
    pub fn nesting(&self) -> Vec<FoundLoop> {
        let Numbering { node, number, last } = self.numbered();
        let count = node.len();
        let is_ancestor = |one: usize, other: usize| one <= other && other <= last[one];
        let (mut back, mut others) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (from, &left) in node.iter().enumerate() {
            for to in self.successors[left].iter().filter_map(|&to| number[to]) {
                if is_ancestor(to, from) { back[to].push(from) } else { others[to].push(from) }
            }
        }
        let mut sets = Sets((0..count).collect());
        // The header of the innermost loop around each node that is not the header itself.
        let mut header: Vec<Option<usize>> = vec![None; count];
        let mut kind: Vec<Option<LoopKind>> = vec![None; count];
        // The last header whose body, or whose ways in from elsewhere, each node was put into.
        let (mut in_body, mut in_others) = (vec![None; count], vec![None; count]);
        for this in (0..count).rev() {
            let mut body: Vec<usize> = Vec::new();
            others[this].iter().for_each(|&from| in_others[from] = Some(this));
            for from in std::mem::take(&mut back[this]) {
                match from == this {
                    true => kind[this] = Some(LoopKind::Reducible),
                    false => {
                        let found = sets.find(from);
                        if found != this && in_body[found].replace(this) != Some(this) {
                            body.push(found);
                        }
                    }
                }
            }
            if !body.is_empty() {
                kind[this] = Some(LoopKind::Reducible);
            }
            let mut next = 0;
            while let Some(&inner) = body.get(next) {
                next += 1;
                for from in others[inner].clone() {
                    let found = sets.find(from);
                    if !is_ancestor(this, found) {
                        kind[this] = Some(LoopKind::Irreducible);
                        if in_others[found].replace(this) != Some(this) {
                            others[this].push(found);
                        }
                    } else if found != this && in_body[found].replace(this) != Some(this) {
                        body.push(found);
                    }
                }
            }
            for inner in body {
                header[inner] = Some(this);
                sets.join(inner, this);
            }
        }
        gathered(&node, &header, &kind)
    }
}

/// From headers to loops.
fn gathered(node: &[usize], header: &[Option<usize>], kind: &[Option<LoopKind>]) -> Vec<FoundLoop> {
    let mut loops: Vec<FoundLoop> = Vec::new();
    let mut position: Vec<Option<usize>> = vec![None; node.len()];
    // A loop around another has a header with a lower number.
    for (number, kind) in kind.iter().enumerate() {
        if let Some(kind) = *kind {
            let parent = header[number].and_then(|around| position[around]);
            position[number] = Some(loops.len());
            loops.push(FoundLoop { header: node[number], kind, nodes: Vec::new(), parent });
        }
    }
    for (number, &of) in node.iter().enumerate() {
        let mut around = position[number].or_else(|| header[number].and_then(|header| position[header]));
        while let Some(index) = around {
            loops[index].nodes.push(of);
            around = loops[index].parent;
        }
    }
    loops
}

/// Sets that are joined, with a representative each.
struct Sets(Vec<usize>);

impl Sets {
    fn find(&mut self, mut one: usize) -> usize {
        while self.0[one] != one {
            self.0[one] = self.0[self.0[one]];
            one = self.0[one];
        }
        one
    }

    fn join(&mut self, one: usize, into: usize) {
        self.0[one] = into;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use backsight_testing::Random;

    use super::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new(nodes);
        edges.iter().for_each(|&(from, to)| graph.add(from, to));
        graph
    }

    fn sorted(found: &FoundLoop) -> Vec<usize> {
        let mut nodes = found.nodes.clone();
        nodes.sort_unstable();
        nodes
    }

    #[test]
    fn a_loop_in_a_loop_is_inside_of_it() {
        let loops = graph(6, &[(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)]).nesting();
        assert_eq!(loops.len(), 2);
        assert_eq!((loops[0].header, sorted(&loops[0])), (1, vec![1, 2, 3, 4]));
        assert_eq!((loops[1].header, sorted(&loops[1]), loops[1].parent), (2, vec![2, 3], Some(0)));
        assert!(loops.iter().all(|found| found.kind == LoopKind::Reducible));
    }

    #[test]
    fn a_block_that_goes_to_itself_is_a_loop() {
        let loops = graph(3, &[(0, 1), (1, 1), (1, 2)]).nesting();
        assert_eq!(loops, [FoundLoop { header: 1, kind: LoopKind::Reducible, nodes: vec![1], parent: None }]);
    }

    #[test]
    fn a_loop_with_two_entries_is_irreducible() {
        let loops = graph(4, &[(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)]).nesting();
        assert_eq!(loops.len(), 1);
        assert_eq!(loops[0].kind, LoopKind::Irreducible);
        assert_eq!(sorted(&loops[0]), [1, 2]);
    }

    #[test]
    fn a_graph_without_a_way_back_has_no_loops() {
        assert!(graph(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]).nesting().is_empty());
    }

    fn reaches(graph: &Graph, nodes: &BTreeSet<usize>, from: usize, to: usize) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(node) = left.pop() {
            for &next in graph.successors[node].iter().filter(|next| nodes.contains(next)) {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        false
    }

    /// Loops by their definition: nodes that reach each other, without the header again and again.
    fn by_definition(
        graph: &Graph,
        nodes: &BTreeSet<usize>,
        found: &mut BTreeSet<(usize, Vec<usize>)>,
    ) -> bool {
        let mut left = nodes.clone();
        while let Some(&node) = left.iter().next() {
            let mut group: BTreeSet<usize> = nodes
                .iter()
                .copied()
                .filter(|&other| {
                    other == node || reaches(graph, nodes, node, other) && reaches(graph, nodes, other, node)
                })
                .collect();
            left.retain(|other| !group.contains(other));
            if !reaches(graph, &group, node, node) {
                continue;
            }
            let is_entry = |node: &usize| {
                (0..graph.successors.len())
                    .any(|from| !group.contains(&from) && graph.successors[from].contains(node))
            };
            let entries: Vec<usize> = group.iter().copied().filter(is_entry).collect();
            let &[header] = entries.as_slice() else { return false };
            found.insert((header, group.iter().copied().collect()));
            group.remove(&header);
            if !by_definition(graph, &group, found) {
                return false;
            }
        }
        true
    }

    #[test]
    fn loops_of_random_reducible_graphs_are_those_of_the_definition() {
        let mut random = Random(7);
        let mut compared = 0;
        for _ in 0..3000 {
            let nodes = 2 + random.below(8) as usize;
            let mut graph = Graph::new(nodes);
            for _ in 0..nodes + random.below(nodes as u64) as usize {
                graph.add(random.below(nodes as u64) as usize, 1 + random.below(nodes as u64 - 1) as usize);
            }
            graph.reach_all(1..nodes);
            let mut expected = BTreeSet::new();
            if !by_definition(&graph, &(0..nodes).collect(), &mut expected) {
                continue;
            }
            let found: BTreeSet<_> = graph.nesting().iter().map(|one| (one.header, sorted(one))).collect();
            assert_eq!(found, expected, "{graph:?}");
            compared += 1;
        }
        assert!(compared > 500, "{compared} graphs");
    }
}
