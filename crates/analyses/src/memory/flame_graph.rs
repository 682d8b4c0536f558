//! `memory_flame_graph`: what is held at the peak, by call stack.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use query::BatchBuilder;
use query::columns::{Names, get, ints, names};
use query::rust_view::{InputQueries, Result, ViewInputs};
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

pub(super) const INPUTS: InputQueries = &[
    (
        "stacks",
        "SELECT rank, snapshot, stack, parent, name, file, line, user_frame FROM snapshot_stacks ORDER BY rank, snapshot, depth, stack",
    ),
    (
        "held",
        "SELECT a.rank, a.snapshot, a.device, a.stack, sum(a.bytes) AS bytes, count(*) AS allocation_count
         FROM snapshot_allocations a
         JOIN snapshot_devices d ON d.rank = a.rank AND d.snapshot = a.snapshot AND d.device = a.device
         WHERE coalesce(a.alloc_position, -1) <= CASE WHEN d.event_count = 0 THEN 0 ELSE coalesce(d.peak_position, -1) END
             AND (a.free_position IS NULL OR a.free_position > coalesce(d.peak_position, -1))
         GROUP BY a.rank, a.snapshot, a.device, a.stack
         ORDER BY rank, snapshot, device, stack",
    ),
    (
        "pieces",
        "SELECT
            a.rank, a.memory, a.device, a.phase, a.module, a.outer_op_name, a.op_name,
            sum(a.bytes) AS bytes, count(*) AS allocation_count
         FROM memory_allocations a
         JOIN memory_summary s ON s.rank = a.rank AND s.memory = a.memory
         WHERE a.address IS NOT NULL AND CASE WHEN a.ts_ns IS NULL THEN -1 ELSE a.position END <= s.peak_position
             AND (a.end_position IS NULL OR a.end_position > s.peak_position)
         GROUP BY a.rank, a.memory, a.device, a.phase, a.module, a.outer_op_name, a.op_name
         ORDER BY rank, memory, phase, module, outer_op_name, op_name",
    ),
];

/// Longer stacks are cut: one row for each frame of an endless recursion would grow with the square of its depth.
const MAX_FOLDED_BYTES: usize = 16 << 10;

/// A frame within its callers.
struct Node {
    parent: Option<usize>,
    label: String,
    is_user: bool,
    self_bytes: i64,
    bytes: i64,
    allocation_count: i64,
}

/// The stacks of one memory.
struct Tree {
    rank: i64,
    snapshot: Option<i64>,
    memory: String,
    device: i64,
    /// Callers come before what they call.
    nodes: Vec<Node>,
}

impl Tree {
    fn new(rank: i64, snapshot: Option<i64>, memory: String, device: i64) -> Self {
        Self { rank, snapshot, memory, device, nodes: Vec::new() }
    }

    fn add(&mut self, parent: Option<usize>, label: String, is_user: bool) -> usize {
        let node = Node { parent, label, is_user, self_bytes: 0, bytes: 0, allocation_count: 0 };
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn hold(&mut self, node: usize, bytes: i64, count: i64) {
        let node = &mut self.nodes[node];
        node.self_bytes = node.self_bytes.saturating_add(bytes);
        node.allocation_count += count;
    }

    /// Adds what each frame holds to its callers.
    fn sum_up(&mut self) {
        for node in (0..self.nodes.len()).rev() {
            let Node { parent, self_bytes, allocation_count, .. } = self.nodes[node];
            self.nodes[node].bytes = self.nodes[node].bytes.saturating_add(self_bytes);
            let bytes = self.nodes[node].bytes;
            if let Some(parent) = parent.map(|parent| &mut self.nodes[parent]) {
                parent.bytes = parent.bytes.saturating_add(bytes);
                parent.allocation_count += allocation_count;
            }
        }
    }
}

struct Row<'a> {
    tree: &'a Tree,
    number: i64,
    depth: i64,
    frame: String,
    self_bytes: i64,
    bytes: i64,
    total_bytes: i64,
    allocation_count: i64,
    folded: String,
}

pub(super) fn flame_graph(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut trees = snapshots(inputs)?;
    trees.extend(traces(inputs)?);
    trees.iter_mut().for_each(Tree::sum_up);
    let mut rows = Vec::new();
    for tree in &trees {
        add_rows(tree, &mut rows);
    }
    BatchBuilder::of(&rows)
        .int32("rank", |row| row.tree.rank)
        .int("snapshot", |row| row.tree.snapshot)
        .text("memory", |row| Some(row.tree.memory.as_str()))
        .int32("device", |row| row.tree.device)
        .int("number", |row| Some(row.number))
        .int("bytes", |row| Some(row.bytes))
        .float("bytes_ratio", |row| {
            (row.total_bytes > 0).then(|| row.bytes as f64 / row.total_bytes as f64)
        })
        .int("self_bytes", |row| Some(row.self_bytes))
        .int("allocation_count", |row| Some(row.allocation_count))
        .int("depth", |row| Some(row.depth))
        .utf8("frame", |row| Some(row.frame.as_str()))
        .utf8("folded", |row| Some(row.folded.as_str()))
        .finish()
}

/// The frames of each snapshot that something is held in, outermost first.
fn snapshots(inputs: &ViewInputs<'_>) -> Result<Vec<Tree>> {
    let batch = inputs.batch("stacks")?;
    let [rank, snapshot, stack, parent, line] =
        ["rank", "snapshot", "stack", "parent", "line"].map(|name| ints(batch, name));
    let (rank, snapshot, stack, parent, line) = (rank?, snapshot?, stack?, parent?, line?);
    let (functions, files) = (names(batch, "name")?, names(batch, "file")?);
    let users = names(batch, "user_frame")?;
    let mut row_of: FxHashMap<(i64, i64, i64), usize> = FxHashMap::default();
    for row in 0..batch.num_rows() {
        row_of.insert((rank.value(row), snapshot.value(row), stack.value(row)), row);
    }
    let caller = |row: usize| {
        let parent = get(&parent, row)?;
        row_of.get(&(rank.value(row), snapshot.value(row), parent)).copied()
    };
    let label = |row: usize| {
        let is_user = users.ids[row] != Names::NONE
            && caller(row).is_none_or(|caller| users.ids[caller] != users.ids[row]);
        if let Some(user) = users.get(row).filter(|_| is_user) {
            return (user.to_owned(), true);
        }
        let function = functions.get(row).unwrap_or("?");
        let file = files.get(row).filter(|file| !file.is_empty());
        let label = match (file, get(&line, row)) {
            (Some(file), Some(line)) if line > 0 => {
                let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
                format!("{file}:{line} {function}")
            }
            _ => function.to_owned(),
        };
        (label, is_user)
    };

    let batch = inputs.batch("held")?;
    let [of_rank, of_snapshot, device, held_stack, bytes, count] =
        ["rank", "snapshot", "device", "stack", "bytes", "allocation_count"]
            .map(|name| ints(batch, name));
    let (of_rank, of_snapshot, device) = (of_rank?, of_snapshot?, device?);
    let (held_stack, bytes, count) = (held_stack?, bytes?, count?);
    let mut trees: BTreeMap<(i64, i64, i64), SnapshotTree> = BTreeMap::new();
    for held in 0..batch.num_rows() {
        let key = (of_rank.value(held), of_snapshot.value(held), device.value(held));
        let tree = trees.entry(key).or_insert_with(|| SnapshotTree {
            tree: Tree::new(key.0, Some(key.1), format!("cuda:{}", key.2), key.2),
            known: FxHashMap::default(),
            unrecorded: None,
        });
        // From the frame outwards to one that is known, or to the outermost.
        let mut path: Vec<usize> = get(&held_stack, held)
            .and_then(|stack| row_of.get(&(key.0, key.1, stack)).copied())
            .into_iter()
            .collect();
        while let Some(&last) = path.last()
            && !tree.known.contains_key(&last)
            && let Some(caller) = caller(last)
            && path.len() < row_of.len()
        {
            path.push(caller);
        }
        let node = tree.node(&path, label);
        tree.tree.hold(node, bytes.value(held), count.value(held));
    }
    Ok(trees.into_values().map(|tree| tree.tree).collect())
}

/// The stacks of a snapshot of one device.
struct SnapshotTree {
    tree: Tree,
    /// Nodes by row of the frame.
    known: FxHashMap<usize, usize>,
    /// The node of allocations without a stack.
    unrecorded: Option<usize>,
}

impl SnapshotTree {
    /// The node of the first frame of a path from the inside out; those that are not known are added.
    fn node(&mut self, path: &[usize], label: impl Fn(usize) -> (String, bool)) -> usize {
        let mut parent = None;
        for &row in path.iter().rev() {
            let node = if let Some(&node) = self.known.get(&row) {
                node
            } else {
                let (label, is_user) = label(row);
                let node = self.tree.add(parent, label, is_user);
                self.known.insert(row, node);
                node
            };
            parent = Some(node);
        }
        parent.unwrap_or_else(|| {
            *self
                .unrecorded
                .get_or_insert_with(|| self.tree.add(None, "stack not recorded".to_owned(), false))
        })
    }
}

/// Phases, modules and operators in place of frames.
fn traces(inputs: &ViewInputs<'_>) -> Result<Vec<Tree>> {
    let batch = inputs.batch("pieces")?;
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let (bytes, count) = (ints(batch, "bytes")?, ints(batch, "allocation_count")?);
    let memory = names(batch, "memory")?;
    let levels = [
        names(batch, "phase")?,
        names(batch, "module")?,
        names(batch, "outer_op_name")?,
        names(batch, "op_name")?,
    ];
    let mut trees: Vec<Tree> = Vec::new();
    let mut known: BTreeMap<(Option<usize>, usize, u32), usize> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let (of_rank, of_memory) = (rank.value(row), memory.get(row).unwrap_or_default());
        if trees.last().is_none_or(|tree| tree.rank != of_rank || tree.memory != of_memory) {
            trees.push(Tree::new(of_rank, None, of_memory.to_owned(), device.value(row)));
            known.clear();
        }
        let Some(tree) = trees.last_mut() else { continue };
        let mut parent = None;
        for (level, names) in levels.iter().enumerate() {
            let Some(name) = names.get(row) else { continue };
            let key = (parent, level, names.ids[row]);
            let node =
                *known.entry(key).or_insert_with(|| tree.add(parent, name.to_owned(), level > 0));
            parent = Some(node);
        }
        let node = parent.unwrap_or_else(|| tree.add(None, "unknown".to_owned(), false));
        tree.hold(node, bytes.value(row), count.value(row));
    }
    Ok(trees)
}

/// Rows in order of a walk, most bytes first. Frames with one callee and nothing of their own are a row with that.
fn add_rows<'a>(tree: &'a Tree, rows: &mut Vec<Row<'a>>) {
    let mut callees: Vec<Vec<usize>> = vec![Vec::new(); tree.nodes.len()];
    let mut outermost = Vec::new();
    for (node, Node { parent, bytes, .. }) in tree.nodes.iter().enumerate() {
        if *bytes > 0 {
            parent.map_or(&mut outermost, |parent| &mut callees[parent]).push(node);
        }
    }
    let total_bytes =
        outermost.iter().fold(0_i64, |sum, &node| sum.saturating_add(tree.nodes[node].bytes));
    // What is next comes last.
    let by_bytes = |nodes: &mut Vec<usize>| {
        nodes.sort_by_key(|&node| (tree.nodes[node].bytes, Reverse(node)));
    };
    by_bytes(&mut outermost);
    callees.iter_mut().for_each(by_bytes);
    let mut next: Vec<(usize, i64, String)> =
        outermost.into_iter().map(|node| (node, 0, String::new())).collect();
    let mut number = 0;
    while let Some((first, depth, mut folded)) = next.pop() {
        let mut node = first;
        let mut shown = first;
        loop {
            let Node { label, is_user, self_bytes, .. } = &tree.nodes[node];
            if folded.len() < MAX_FOLDED_BYTES {
                if !folded.is_empty() {
                    folded.push(';');
                }
                // The character that separates frames.
                folded.extend(label.chars().map(|c| if c == ';' { ',' } else { c }));
            }
            if *is_user || !tree.nodes[shown].is_user {
                shown = node;
            }
            match callees[node].as_slice() {
                [only] if *self_bytes == 0 => node = *only,
                _ => break,
            }
        }
        let Node { self_bytes, bytes, allocation_count, .. } = tree.nodes[node];
        next.extend(callees[node].iter().map(|&callee| (callee, depth + 1, folded.clone())));
        let indent = "  ".repeat(depth.clamp(0, 32) as usize);
        rows.push(Row {
            tree,
            number,
            depth,
            frame: indent + &tree.nodes[shown].label,
            self_bytes,
            bytes,
            total_bytes,
            allocation_count,
            folded,
        });
        number += 1;
    }
}
