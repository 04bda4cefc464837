//! Control flow of one function: successors, the blocks a branch decides about, loops.
//!
//! A path that ends in `trap` or in a call that never returns ends the launch, so nobody
//! waits for the threads on it: such blocks are `doomed` and left out of the graph that
//! says which blocks a branch decides about. Doomed blocks are judged on the full graph.

use super::ptx::{Function, Instruction, Module};
use anyhow::{Context, Result};
use petgraph::Direction::{Incoming, Outgoing};
use petgraph::algo::dominators::{Dominators, simple_fast};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};
use std::collections::{BTreeMap, BTreeSet};

/// The graph of a function's blocks.
#[derive(Debug)]
pub struct Cfg {
    /// Blocks from which every path ends the launch.
    pub doomed: Vec<bool>,
    /// Blocks that the entry reaches.
    pub reachable: Vec<bool>,
    live: PostDominated,
    full: PostDominated,
    dominators: Dominators<NodeIndex>,
    /// Where a branch goes, and what stands behind it.
    branches: Vec<Option<(usize, usize)>>,
    loops: Vec<BTreeSet<usize>>,
}

/// A graph with one exit node behind all the ways out, and its post-dominators.
#[derive(Debug)]
struct PostDominated {
    graph: DiGraph<(), ()>,
    tree: Dominators<NodeIndex>,
}

impl Cfg {
    /// Builds the graph.
    ///
    /// # Errors
    /// A branch to a label that the function does not have.
    pub fn new(module: &Module, function: &Function) -> Result<Self> {
        let count = function.blocks.len();
        let exit = NodeIndex::new(count);
        let mut full = DiGraph::<(), ()>::new();
        for _ in 0..=count {
            full.add_node(());
        }
        let dies: Vec<bool> = function
            .blocks
            .iter()
            .map(|block| block.instructions.iter().any(|i| ends_launch(module, i)))
            .collect();
        let mut branches = vec![None; count];
        for (at, successors) in successors(function)?.into_iter().enumerate() {
            let from = NodeIndex::new(at);
            if let [to, next] = successors[..] {
                branches[at] = Some((to, next));
            }
            let successors = if dies[at] { vec![count] } else { successors };
            for to in successors {
                full.update_edge(from, NodeIndex::new(to), ());
            }
        }
        let start = NodeIndex::new(0);
        let reachable = visited(&full, start, count);
        // What reaches the exit other than by ending the launch.
        let mut live = full.clone();
        live.retain_edges(|graph, edge| {
            graph
                .edge_endpoints(edge)
                .is_some_and(|(from, to)| to != exit || !dies[from.index()])
        });
        let returns = visited(Reversed(&live), exit, count);
        let mut ends = vec![false; count];
        for at in (0..count).filter(|&at| dies[at]) {
            for (node, reached) in visited(Reversed(&live), NodeIndex::new(at), count)
                .into_iter()
                .enumerate()
            {
                ends[node] |= reached;
            }
        }
        let doomed: Vec<bool> = (0..count).map(|at| ends[at] && !returns[at]).collect();
        live.retain_edges(|graph, edge| {
            graph
                .edge_endpoints(edge)
                .is_some_and(|(_, to)| to == exit || !doomed[to.index()])
        });
        // A loop without a way out: give it one, so that every block has post-dominators.
        for at in (0..count).filter(|&at| !returns[at] && !ends[at]) {
            live.update_edge(NodeIndex::new(at), exit, ());
            full.update_edge(NodeIndex::new(at), exit, ());
        }
        let loops = natural_loops(&full, start, exit);
        Ok(Self {
            doomed,
            reachable,
            dominators: simple_fast(&full, start),
            live: PostDominated::new(live, exit),
            full: PostDominated::new(full, exit),
            branches,
            loops,
        })
    }

    /// The blocks that not every thread need reach if the branch at the end of `block`
    /// goes different ways: those between it and the first block that all its paths
    /// share. Contains `block` itself when the branch is the condition of a loop.
    pub fn region(&self, block: usize) -> BTreeSet<usize> {
        let mut region = BTreeSet::new();
        if !self.doomed[block] {
            region = self.live.region(block);
        }
        let full = self.full.region(block);
        region.extend(full.into_iter().filter(|&at| self.doomed[at]));
        region
    }

    /// The natural loops, each as the set of its blocks.
    pub fn loops(&self) -> &[BTreeSet<usize>] {
        &self.loops
    }

    /// The blocks that every path to `block` leads through, itself first.
    pub fn dominators(&self, block: usize) -> impl Iterator<Item = usize> {
        let above = self.dominators.dominators(NodeIndex::new(block));
        above.into_iter().flatten().map(NodeIndex::index)
    }

    /// How many blocks lead to a block.
    pub fn predecessors(&self, block: usize) -> usize {
        let to = self
            .full
            .graph
            .neighbors_directed(NodeIndex::new(block), Incoming);
        to.count() + usize::from(block == 0)
    }

    /// Where the branch at the end of a block goes, and the block behind it; `None` if there
    /// is but one way on.
    pub fn branch(&self, block: usize) -> Option<(usize, usize)> {
        self.branches[block]
    }

    /// The first block that all paths from several blocks lead through, behind them.
    pub fn meeting(&self, blocks: impl Iterator<Item = usize>) -> Option<usize> {
        let mut common: Option<Vec<usize>> = None;
        for block in blocks {
            if self.doomed[block] {
                return None;
            }
            let behind = self.live.tree.strict_dominators(NodeIndex::new(block))?;
            let behind: Vec<usize> = behind.map(NodeIndex::index).collect();
            common = Some(match common {
                None => behind,
                Some(common) => common.into_iter().filter(|b| behind.contains(b)).collect(),
            });
        }
        let first = *common?.first()?;
        (first + 1 < self.live.graph.node_count()).then_some(first)
    }

    /// The blocks that paths from the end of `from` come to before they come to `stop`.
    pub fn between(&self, from: usize, stop: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.successors(from).collect();
        while let Some(at) = open.pop() {
            if at != stop && found.insert(at) {
                open.extend(self.successors(at));
            }
        }
        found
    }

    /// Successors of a block inside the function.
    pub fn successors(&self, block: usize) -> impl Iterator<Item = usize> {
        let exit = self.full.graph.node_count() - 1;
        self.full
            .graph
            .neighbors(NodeIndex::new(block))
            .map(NodeIndex::index)
            .filter(move |&to| to != exit)
    }
}

impl PostDominated {
    fn new(graph: DiGraph<(), ()>, exit: NodeIndex) -> Self {
        let tree = simple_fast(Reversed(&graph), exit);
        Self { graph, tree }
    }

    fn region(&self, block: usize) -> BTreeSet<usize> {
        let block = NodeIndex::new(block);
        if self.graph.neighbors(block).count() < 2 {
            return BTreeSet::new();
        }
        let join = self.tree.immediate_dominator(block);
        let mut region = BTreeSet::new();
        let mut open: Vec<NodeIndex> = self.graph.neighbors(block).collect();
        while let Some(at) = open.pop() {
            let inside = Some(at) != join && at.index() + 1 < self.graph.node_count();
            if inside && region.insert(at.index()) {
                open.extend(self.graph.neighbors(at));
            }
        }
        region
    }
}

/// Whether nothing behind this instruction runs, for any thread of the launch.
fn ends_launch(module: &Module, instruction: &Instruction) -> bool {
    instruction.guard.is_none()
        && (instruction.root() == "trap"
            || instruction
                .callee()
                .is_some_and(|name| module.noreturn.contains(name)))
}

/// For each block, where it can go; the number of blocks stands for the exit.
///
/// # Errors
/// A branch to a label that the function does not have.
pub fn successors(function: &Function) -> Result<Vec<Vec<usize>>> {
    let mut labels = BTreeMap::new();
    for (at, block) in function.blocks.iter().enumerate() {
        labels.extend(block.labels.iter().map(|label| (label.as_str(), at)));
    }
    let target = |label: &str, line: usize| {
        let found = labels.get(label).copied();
        found.with_context(|| format!("line {line}: no label `{label}` in `{}`", function.name))
    };
    let exit = function.blocks.len();
    let mut all = Vec::with_capacity(exit);
    for (at, block) in function.blocks.iter().enumerate() {
        let next = at + 1; // the exit, behind the last block
        let mut found = Vec::new();
        match block.instructions.last().filter(|i| i.ends_block()) {
            None => found.push(next),
            Some(last) => {
                match last.root() {
                    "bra" => {
                        let label = last.operands.first().map_or("", |o| o.text.as_str());
                        found.push(target(label, last.line)?);
                    }
                    "brx" => {
                        let table = last.operands.get(1).map_or("", |o| o.text.as_str());
                        let listed = function.tables.get(table);
                        let listed = listed.with_context(|| {
                            format!("line {}: no branch table `{table}`", last.line)
                        })?;
                        for label in listed {
                            found.push(target(label, last.line)?);
                        }
                    }
                    _ => found.push(exit),
                }
                if last.guard.is_some() {
                    found.push(next);
                }
            }
        }
        all.push(found);
    }
    Ok(all)
}

fn visited<G>(graph: G, start: NodeIndex, count: usize) -> Vec<bool>
where
    G: petgraph::visit::IntoNeighbors<NodeId = NodeIndex> + petgraph::visit::Visitable,
    G::Map: petgraph::visit::VisitMap<NodeIndex>,
{
    let mut seen = vec![false; count];
    let mut walk = Dfs::new(graph, start);
    while let Some(node) = walk.next(graph) {
        if node.index() < count {
            seen[node.index()] = true;
        }
    }
    seen
}

/// One loop for each block that dominates the source of an edge back to it.
fn natural_loops(
    graph: &DiGraph<(), ()>,
    start: NodeIndex,
    exit: NodeIndex,
) -> Vec<BTreeSet<usize>> {
    let tree = simple_fast(graph, start);
    let mut loops: BTreeMap<NodeIndex, BTreeSet<usize>> = BTreeMap::new();
    for tail in graph.node_indices().filter(|&n| n != exit) {
        for head in graph.neighbors_directed(tail, Outgoing) {
            let back = tree
                .dominators(tail)
                .is_some_and(|mut d| d.any(|n| n == head));
            if !back {
                continue;
            }
            let body = loops.entry(head).or_default();
            body.insert(head.index());
            let mut open = vec![tail];
            while let Some(node) = open.pop() {
                if body.insert(node.index()) {
                    open.extend(graph.neighbors_directed(node, Incoming));
                }
            }
        }
    }
    loops.into_values().collect()
}
