//! Strongly connected components of a directed graph, by Tarjan's algorithm.

use std::collections::BTreeSet;

/// The components of a graph whose nodes are the numbers below `nodes`. A node that is in no cycle
/// is a component of its own.
pub(super) fn components(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        visited: 0,
        order: vec![None; nodes],
        stack: Vec::new(),
        components: Vec::new(),
    };
    for node in 0..nodes {
        if search.order[node].is_none() {
            search.visit(node);
        }
    }
    search.components
}

/// A depth-first search.
struct Search<'a> {
    edges: &'a BTreeSet<(usize, usize)>,
    visited: usize,
    /// When each node was visited first.
    order: Vec<Option<usize>>,
    /// Nodes that are in no component yet.
    stack: Vec<usize>,
    components: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// The earliest node on the stack that `node` leads to, as its place in the order.
    fn visit(&mut self, node: usize) -> usize {
        let order = self.visited;
        self.visited += 1;
        self.order[node] = Some(order);
        let depth = self.stack.len();
        self.stack.push(node);

        let mut earliest = order;
        for &(_, next) in self.edges.range((node, 0)..=(node, usize::MAX)) {
            let reached = match self.order[next] {
                None => self.visit(next),
                Some(order) if self.stack.contains(&next) => order,
                Some(_) => continue,
            };
            earliest = earliest.min(reached);
        }
        if earliest == order {
            self.components.push(self.stack.split_off(depth));
        }
        earliest
    }
}
