//! Call stacks as a tree: each frame once under its callers, so that shared stacks cost nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{SnapshotStack, SnapshotStacks};
use trace_model::{StrId, Strings};

use super::keys::{Entry, Key, Keys, as_list};
use crate::formats::pickle::{Graph, ObjectId, Value};
use crate::quantity::RawInteger;

/// Frames shown in the text of a stack.
const SHOWN: usize = 24;
/// Parts of paths that a user's own code does not have.
const NOT_THE_USERS: [&str; 9] = [
    "site-packages/",
    "dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "/torchinductor_",
    "<frozen",
    "<eval_with_key>",
    "<string>",
    "<__array_function__",
];
/// Entries of the folder `torch` of a PyTorch that was built in place.
const TORCH: [&str; 19] = [
    "_",
    "amp/",
    "ao/",
    "autograd/",
    "backends/",
    "compiler/",
    "cuda/",
    "distributed/",
    "functional.py",
    "fx/",
    "jit/",
    "library.py",
    "nn/",
    "optim/",
    "profiler/",
    "serialization.py",
    "testing/",
    "utils/",
    "overrides.py",
];
/// Ends of the names of operators in C++ that tell overloads apart, as parts of a name in camel case.
const OVERLOADS: [&str; 8] =
    ["", "Tensor", "Scalar", "Dim", "DimIntList", "IntList", "Self", "Default"];

/// What the frames from the outermost to one say about the place of an allocation. Later variants say more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    #[default]
    Nothing,
    /// The autograd engine, without the operator.
    Engine,
    /// An operator of a backward pass, whose thread has no Python frames.
    Node,
    /// An installed package.
    Package,
    /// The user's own code.
    User,
}

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
    /// What each row of the table says about places.
    told: Vec<Told>,
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
        let caller = usize::try_from(parent).ok();
        let (depth, user_frame, place, told) =
            caller.map_or((0, StrId::NULL, StrId::NULL, Told::Nothing), |row| {
                let t = &self.table;
                (t.depth.0[row] + 1, t.user_frame.0[row], t.place.0[row], self.told[row])
            });
        let own = told_by(strings.get(frame.name), strings.get(frame.file));
        let (place, told) = if own != Told::Nothing && own >= told {
            let text = place_text(own, frame, strings);
            (strings.intern(&text), own)
        } else {
            (place, told)
        };
        let user_frame = if own == Told::User { place } else { user_frame };
        self.told.push(told);
        self.table.push(SnapshotStack {
            stack: node,
            parent,
            depth,
            name: frame.name,
            file: frame.file,
            line: frame.line,
            user_frame,
            place,
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
    pub(super) fn finish(mut self, strings: &mut Strings) -> SnapshotStacks {
        self.name_backward_passes(strings);
        let strings = &*strings;
        let texts: Vec<String> = (0..self.table.len()).map(|row| self.text(row, strings)).collect();
        self.table.text = trace_model::column::Text::default();
        for text in texts {
            trace_model::column::Column::push(&mut self.table.text, text);
        }
        self.table
    }

    /// Adds to the operators of backward passes the lines that called these operators in forward passes, where native frames
    /// tell: `DivBackward0 (backward pass of attention.py:13 attention)`. Where several lines of a file did, its name.
    fn name_backward_passes(&mut self, strings: &mut Strings) {
        let nodes: BTreeSet<StrId> = (0..self.table.len())
            .filter(|&row| self.told[row] == Told::Node)
            .map(|row| self.table.place.0[row])
            .collect();
        if nodes.is_empty() {
            return;
        }
        let mut callers: BTreeMap<String, BTreeSet<StrId>> = BTreeMap::new();
        for row in 0..self.table.len() {
            if self.told[row] >= Told::Package
                && let Some(operator) = operator(strings.get(self.table.name.0[row]))
            {
                callers.entry(camel_case(operator)).or_default().insert(self.table.place.0[row]);
            }
        }
        let mut named: FxHashMap<StrId, StrId> = FxHashMap::default();
        for node in nodes {
            let name = strings.get(node).to_owned();
            let operator = name.split_once("Backward").map_or("", |(operator, _)| operator);
            let is_overload = |called: &str| {
                called.strip_prefix(operator).is_some_and(|rest| OVERLOADS.contains(&rest))
            };
            let lines: BTreeSet<&str> = callers
                .iter()
                .filter(|(called, _)| !operator.is_empty() && is_overload(called))
                .flat_map(|(_, places)| places.iter().map(|&place| strings.get(place)))
                .collect();
            let files: BTreeSet<&str> = lines.iter().map(|line| file_of(line)).collect();
            let of = match (lines.first(), files.first()) {
                (Some(line), _) if lines.len() == 1 => format!(" of {line}"),
                (_, Some(file)) if files.len() == 1 => format!(" of {file}"),
                _ => String::new(),
            };
            let text = format!("{name} (backward pass{of})");
            named.insert(node, strings.intern(&text));
        }
        for row in 0..self.table.len() {
            if self.told[row] == Told::Node
                && let Some(&place) = named.get(&self.table.place.0[row])
            {
                self.table.place.0[row] = place;
            }
        }
    }

    fn text(&self, row: usize, strings: &Strings) -> String {
        if !self.table.is_whole.0[row] {
            return String::new();
        }
        let t = &self.table;
        let python = |&row: &usize| is_python(strings.get(t.file.0[row]));
        let up = || std::iter::successors(Some(row), |&row| usize::try_from(t.parent.0[row]).ok());
        // Native frames are of little use beside Python frames, and frames of the allocator beside other native frames.
        let has_python = up().any(|row| python(&row));
        let is_of_use = |&row: &usize| !is_of_allocator(strings.get(t.name.0[row]));
        let has_others = has_python || up().any(|row| is_of_use(&row));
        let frames = up()
            .filter(|row| if has_python { python(row) } else { !has_others || is_of_use(row) })
            .take(SHOWN);
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

/// What a frame says about the place of an allocation.
fn told_by(name: &str, file: &str) -> Told {
    if is_user(file) {
        Told::User
    } else if package_file(file).is_some() {
        Told::Package
    } else if backward_node(name).is_some() {
        Told::Node
    } else if name.contains("torch::autograd::Engine::") {
        Told::Engine
    } else {
        Told::Nothing
    }
}

/// The text of a place: of packages, the path within the folder of packages.
fn place_text(told: Told, frame: Frame, strings: &mut Strings) -> String {
    match told {
        Told::Engine => "autograd (backward pass)".to_owned(),
        Told::Node => backward_node(strings.get(frame.name)).unwrap_or_default().to_owned(),
        Told::Package => {
            let file = package_file(strings.get(frame.file)).unwrap_or_default().into_owned();
            let file = strings.intern(&file);
            shown(frame.name, file, frame.line, strings)
        }
        Told::User | Told::Nothing => shown(frame.name, frame.file, frame.line, strings),
    }
}

/// Returns whether a native frame belongs to the allocator or unwinds the stack, or only hands a call on.
fn is_of_allocator(name: &str) -> bool {
    ["torch::unwind::", "CUDACachingAllocator", "CapturedTraceback", "::redispatch("]
        .iter()
        .any(|part| name.contains(part))
}

/// `DivBackward0` of `torch::autograd::generated::DivBackward0::apply(...)`.
fn backward_node(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("torch::autograd::")?;
    let rest = rest.strip_prefix("generated::").unwrap_or(rest);
    let (node, _) = rest.split_once("::apply(")?;
    let is_name = node.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (is_name && node.contains("Backward")).then_some(node)
}

/// `div_Tensor` of `at::_ops::div_Tensor::call(...)`.
fn operator(name: &str) -> Option<&str> {
    name.strip_prefix("at::_ops::")?.split_once("::").map(|(operator, _)| operator)
}

/// `NativeLayerNorm` of `native_layer_norm`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for part in name.split('_') {
        let mut letters = part.chars();
        text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

/// `train.py` of `train.py:7 step`.
fn file_of(place: &str) -> &str {
    let end = place
        .match_indices(':')
        .map(|(at, _)| at)
        .find(|&at| place.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit));
    end.map_or(place, |end| &place[..end])
}

/// The path of a Python file within the folder of installed packages; `None` for PyTorch's own.
fn package_file(file: &str) -> Option<Cow<'_, str>> {
    if !is_python(file) {
        return None;
    }
    let file = with_slashes(file);
    let at = ["site-packages/", "dist-packages/"]
        .iter()
        .find_map(|folder| file.rfind(folder).map(|at| at + folder.len()))?;
    let path = &file[at..];
    let is_torch =
        ["torch/", "functorch/", "torchgen/", "triton/"].iter().any(|top| path.starts_with(top));
    (!is_torch).then(|| Cow::Owned(path.to_owned()))
}

/// Paths of Windows have backslashes.
fn with_slashes(file: &str) -> Cow<'_, str> {
    if file.contains('\\') { Cow::Owned(file.replace('\\', "/")) } else { Cow::Borrowed(file) }
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
    let line = entry.integer(Key::Line).and_then(RawInteger::number).unwrap_or(NULL_I32);
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
    let file = &*with_slashes(file);
    let python = is_python(file)
        || ["<ipython", "<command-"].iter().any(|start| file.starts_with(start))
        || ["/ipykernel_", "/.ipykernel/"].iter().any(|part| file.contains(part));
    let torch =
        file.strip_prefix("torch/").or_else(|| file.rsplit_once("/torch/").map(|(_, rest)| rest));
    python
        && !is_windows_library(file)
        && !NOT_THE_USERS.iter().any(|part| file.contains(part))
        && !torch.is_some_and(|rest| TORCH.iter().any(|part| rest.starts_with(part)))
}

/// Returns whether a file is a module of Python on Windows, where these are in `Lib`, beside `python.exe`.
fn is_windows_library(file: &str) -> bool {
    if file.as_bytes().get(1) != Some(&b':') {
        return false;
    }
    let file = file.to_ascii_lowercase();
    let Some((folder, _)) = file.split_once("/lib/") else { return false };
    let mut parts = folder.rsplit('/');
    let (last, parent) = (parts.next().unwrap_or_default(), parts.next());
    ["python", "conda"].iter().any(|word| last.contains(word)) || parent == Some("envs")
}

#[cfg(test)]
mod tests {
    use super::{Told, backward_node, camel_case, file_of, is_user, package_file, told_by};

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
            "/tmp/torchinductor_me/ab/cab.py",
            "/usr/lib64/python3.11/threading.py",
            r"C:\Users\me\miniconda3\envs\t\Lib\site-packages\torch\nn\modules\linear.py",
            r"C:\Users\me\AppData\Local\Programs\Python\Python311\Lib\threading.py",
        ] {
            assert!(!is_user(file), "{file}");
        }
        for file in [r"C:\work\train.py", "/root/.ipykernel/7/command-123-456"] {
            assert!(is_user(file), "{file}");
        }
    }

    #[test]
    fn places_are_of_users_then_packages_then_operators_of_backward_passes() {
        let node = "torch::autograd::generated::DivBackward0::apply(std::vector<at::Tensor>&&)";
        assert_eq!(backward_node(node), Some("DivBackward0"));
        let engine = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)";
        for (name, file, expected) in [
            ("step", "train.py", Told::User),
            (
                "forward",
                "/x/site-packages/transformers/models/llama/modeling_llama.py",
                Told::Package,
            ),
            ("forward", r"C:\x\site-packages\timm\layers\norm.py", Told::Package),
            (node, "??", Told::Node),
            (engine, "??", Told::Engine),
            ("forward", "/x/site-packages/torch/nn/modules/linear.py", Told::Nothing),
            ("torch::unwind::unwind()", "??", Told::Nothing),
            ("c10::cuda::CUDACachingAllocator::malloc", "CUDACachingAllocator.cpp", Told::Nothing),
            ("wrapper", "/x/site-packages/torch/profiler/profiler.py", Told::Nothing),
        ] {
            assert_eq!(told_by(name, file), expected, "{name} {file}");
        }
        assert_eq!(
            package_file("/x/site-packages/einops/einops.py").as_deref(),
            Some("einops/einops.py")
        );
        assert_eq!(camel_case("native_layer_norm"), "NativeLayerNorm");
        assert_eq!(camel_case("div_Tensor"), "DivTensor");
        assert_eq!(file_of(r"C:\work\train.py:7 step"), r"C:\work\train.py");
    }
}
