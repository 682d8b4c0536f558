//! Call stacks as a tree: each frame once under its callers, so that shared stacks cost nothing.

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{SnapshotStack, SnapshotStacks};
use trace_model::{StrId, Strings};

use super::keys::{Entry, Key, Keys, as_list};
use crate::formats::pickle::{Graph, ObjectId, Value};

/// Frames shown in the text of a stack.
const SHOWN: usize = 24;
/// Parts of paths that a user's own code does not have.
const NOT_THE_USERS: [&str; 7] = [
    "site-packages/",
    "dist-packages/",
    "/lib/python3",
    "<frozen",
    "<eval_with_key>",
    "<string>",
    "<__array_function__",
];
/// Entries of the folder `torch` of a PyTorch that was built in place.
const TORCH: [&str; 14] = [
    "_",
    "amp/",
    "autograd/",
    "cuda/",
    "distributed/",
    "functional.py",
    "fx/",
    "jit/",
    "nn/",
    "optim/",
    "profiler/",
    "testing/",
    "utils/",
    "overrides.py",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Frame {
    name: StrId,
    file: StrId,
    line: i32,
}

#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// One row per node of the tree.
    table: SnapshotStacks,
    nodes: FxHashMap<(i64, Frame), i64>,
    frames: FxHashMap<ObjectId, Frame>,
    /// Stacks of lists of frames.
    known: FxHashMap<ObjectId, i64>,
    /// The same by the values of the list.
    known_values: FxHashMap<(u32, u32), i64>,
    whole: u64,
}

impl Stacks {
    /// The number of the stack that a list of frames is, innermost first; absent if there are none.
    pub(super) fn find(
        &mut self,
        graph: &Graph,
        keys: &Keys,
        strings: &mut Strings,
        frames: Value,
    ) -> i64 {
        let Some(list) = as_list(graph, frames) else { return NULL_I64 };
        let values = graph.shared_values(list);
        let known = match values {
            Some(values) => self.known_values.get(&values),
            None => self.known.get(&list),
        };
        if let Some(&stack) = known {
            return stack;
        }
        let mut entry = Entry::new();
        let frames: Vec<Frame> = graph
            .items(list)
            .map(|value| match value {
                Value::Object(object) => *self.frames.entry(object).or_insert_with(|| {
                    entry.read(graph, keys, value);
                    frame(&entry, strings)
                }),
                Value::Str(name) => Frame { name, file: StrId::NULL, line: NULL_I32 },
                _ => Frame { name: StrId::NULL, file: StrId::NULL, line: NULL_I32 },
            })
            .collect();
        let mut stack = NULL_I64;
        for &frame in frames.iter().rev() {
            stack = self.node(stack, frame, strings);
        }
        match values {
            Some(values) => self.known_values.insert(values, stack),
            None => self.known.insert(list, stack),
        };
        if stack != NULL_I64 && !self.table.is_whole.0[stack as usize] {
            self.table.is_whole.0[stack as usize] = true;
            self.whole += 1;
        }
        stack
    }

    fn node(&mut self, parent: i64, frame: Frame, strings: &mut Strings) -> i64 {
        if let Some(&node) = self.nodes.get(&(parent, frame)) {
            return node;
        }
        let node = self.table.len() as i64;
        let is_user = is_user(strings.get(frame.file));
        let (depth, callers) = match usize::try_from(parent) {
            Ok(row) => (self.table.depth.0[row] + 1, self.table.user_frame.0[row]),
            Err(_) => (0, StrId::NULL),
        };
        let user_frame = if is_user {
            let text = shown(frame.name, frame.file, frame.line, strings);
            strings.intern(&text)
        } else {
            callers
        };
        self.table.push(SnapshotStack {
            stack: node,
            parent,
            depth,
            name: frame.name,
            file: frame.file,
            line: frame.line,
            user_frame,
            ..SnapshotStack::null_row()
        });
        self.nodes.insert((parent, frame), node);
        node
    }

    /// Distinct stacks of allocations, segments and events.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// The table.
    pub(super) fn finish(mut self, strings: &Strings) -> SnapshotStacks {
        let texts: Vec<String> = (0..self.table.len()).map(|row| self.text(row, strings)).collect();
        self.table.text = trace_model::column::Text::default();
        for text in texts {
            trace_model::column::Column::push(&mut self.table.text, text);
        }
        self.table
    }

    fn text(&self, row: usize, strings: &Strings) -> String {
        if !self.table.is_whole.0[row] {
            return String::new();
        }
        let t = &self.table;
        let python = |&row: &usize| is_python(strings.get(t.file.0[row]));
        let up = || std::iter::successors(Some(row), |&row| usize::try_from(t.parent.0[row]).ok());
        // What PyTorch's own code calls is of little use; a stack of native frames alone is shown as it is.
        let has_python = up().any(|row| python(&row));
        let frames = up().filter(|row| !has_python || python(row)).take(SHOWN);
        let mut text = String::new();
        for row in frames {
            if !text.is_empty() {
                text.push_str(" < ");
            }
            text.push_str(&shown(t.name.0[row], t.file.0[row], t.line.0[row], strings));
        }
        text
    }
}

/// A frame as text: `file:line function`.
fn shown(name: StrId, file: StrId, line: i32, strings: &Strings) -> String {
    let (name, file) = (strings.get(name), strings.get(file));
    match (file.is_empty() || file == "??", line > 0) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{file}:{line} {name}"),
        (false, false) => format!("{file} {name}"),
    }
}

/// Snapshots made from a profile have complete frames as names: `train.py(8): step`.
fn frame(entry: &Entry, strings: &mut Strings) -> Frame {
    let (name, file) = (entry.str(Key::Name), entry.str(Key::Filename));
    let line = entry.int(Key::Line).and_then(|line| i32::try_from(line).ok()).unwrap_or(NULL_I32);
    if strings.get(file) == "none" {
        let parts = strings.get(name).split_once("): ").and_then(|(place, function)| {
            let (file, line) = place.rsplit_once('(')?;
            Some((file.to_owned(), line.parse().ok()?, function.to_owned()))
        });
        return match parts {
            Some((file, line, function)) => {
                Frame { name: strings.intern(&function), file: strings.intern(&file), line }
            }
            None => Frame { name, file: StrId::NULL, line: NULL_I32 },
        };
    }
    Frame { name, file, line }
}

/// Returns whether a source file is Python.
fn is_python(file: &str) -> bool {
    file.as_bytes().ends_with(b".py")
}

/// Returns whether a source file is the user's own: Python, and neither in PyTorch nor in an installed package.
pub(crate) fn is_user(file: &str) -> bool {
    let python = is_python(file) || file.starts_with("<ipython") || file.contains("/ipykernel_");
    let torch =
        file.strip_prefix("torch/").or_else(|| file.rsplit_once("/torch/").map(|(_, rest)| rest));
    python
        && !NOT_THE_USERS.iter().any(|part| file.contains(part))
        && !torch.is_some_and(|rest| TORCH.iter().any(|part| rest.starts_with(part)))
}

#[cfg(test)]
mod tests {
    use super::is_user;

    #[test]
    fn is_user_distinguishes_packages_and_user_code() {
        for file in
            ["train.py", "/home/me/torch/train.py", "/tmp/ipykernel_7/1.py", "<ipython-input-1>"]
        {
            assert!(is_user(file), "{file}");
        }
        for file in [
            "",
            "??",
            "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            "/opt/pytorch/torch/nn/modules/module.py",
            "torch/optim/adam.py",
            "/usr/lib/python3.11/threading.py",
            "<frozen runpy>",
            "<eval_with_key>.7",
            "/pytorch/aten/src/ATen/Context.cpp",
        ] {
            assert!(!is_user(file), "{file}");
        }
    }
}
