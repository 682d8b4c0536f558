//! What a call stack says about an allocation.

use std::borrow::Cow;

use query::columns::{Names, get, ints, names};
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::classify::Phase;

/// What the stack of an allocation says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StackFacts {
    pub(super) phase: Phase,
    /// A library asked for memory to work in.
    pub(super) is_workspace: bool,
    /// An operator casts a tensor to another type; `None` without native frames, which tell.
    pub(super) is_cast: Option<bool>,
    /// Index of the text that says where it allocates.
    pub(super) place: u32,
    /// Number of frames around it.
    pub(super) depth: u16,
}

/// Facts by rank, snapshot and stack.
pub(super) struct Stacks {
    facts: FxHashMap<(i64, i64, i64), StackFacts>,
    pub(super) places: Names,
}

impl Stacks {
    /// Reads `snapshot_stacks`, in which a caller comes before what it calls.
    pub(super) fn read(batch: &RecordBatch) -> Result<Self> {
        let (rank, snapshot) = (ints(batch, "rank")?, ints(batch, "snapshot")?);
        let (stack, parent) = (ints(batch, "stack")?, ints(batch, "parent")?);
        let (functions, files) = (names(batch, "name")?, names(batch, "file")?);
        let places = names(batch, "place")?;
        let depths = ints(batch, "depth")?;
        let mut frames: FxHashMap<(i64, i64, i64), (Inherited, u32, u16)> = FxHashMap::default();
        for row in 0..batch.num_rows() {
            let of_snapshot = (rank.value(row), snapshot.value(row));
            let caller = get(&parent, row)
                .and_then(|parent| frames.get(&(of_snapshot.0, of_snapshot.1, parent)))
                .map(|(inherited, ..)| *inherited)
                .unwrap_or_default();
            let frame = FrameKind::of(
                functions.get(row).unwrap_or_default(),
                files.get(row).unwrap_or_default(),
            );
            let key = (of_snapshot.0, of_snapshot.1, stack.value(row));
            let depth = u16::try_from(depths.value(row).max(0)).unwrap_or(u16::MAX);
            frames.insert(key, (caller.inside(frame), places.ids[row], depth));
        }
        let facts = |(key, (inherited, place, depth)): ((i64, i64, i64), (Inherited, u32, u16))| {
            let Inherited { phase, is_workspace, is_cast, has_native_frames, .. } = inherited;
            let is_cast = has_native_frames.then_some(is_cast);
            (key, StackFacts { phase, is_workspace, is_cast, place, depth })
        };
        Ok(Self { facts: frames.into_iter().map(facts).collect(), places })
    }

    pub(super) fn get(&self, rank: i64, snapshot: i64, stack: i64) -> Option<StackFacts> {
        self.facts.get(&(rank, snapshot, stack)).copied()
    }
}

/// What a single frame is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Forward,
    Backward,
    Optimizer,
    Loading,
    /// Parameters are created or moved.
    Building,
    Workspace,
    /// A tensor is cast to another type.
    Cast,
    /// Any other native frame.
    Native,
    Other,
}

impl FrameKind {
    fn of(function: &str, file: &str) -> Self {
        // Paths of Windows have backslashes.
        let file = if file.contains('\\') {
            Cow::Owned(file.replace('\\', "/"))
        } else {
            Cow::Borrowed(file)
        };
        let is_in = |folder: &str| file.contains(folder);
        if is_in("torch/optim/")
            || is_in("bitsandbytes/optim")
            || is_in("apex/optimizers")
            || is_in("deepspeed/ops/")
        {
            return Self::Optimizer;
        }
        if is_in("torch/utils/data/") || function == "pin_memory" || function.contains("collate") {
            return Self::Loading;
        }
        if is_in("torch/nn/modules/module.py") {
            return match function {
                "_call_impl" | "_wrapped_call_impl" | "__call__" => Self::Forward,
                "_apply"
                | "to"
                | "cuda"
                | "half"
                | "bfloat16"
                | "float"
                | "_load_from_state_dict" => Self::Building,
                _ => Self::Other,
            };
        }
        if (is_in("torch/_tensor.py") && function == "backward")
            || is_in("torch/autograd/graph.py")
            || (is_in("torch/autograd/__init__.py") && matches!(function, "backward" | "grad"))
            || function.contains("torch::autograd::Engine")
            || function.contains("torch::autograd::Node")
            || (function.contains("torch::autograd::generated::") && function.contains("Backward"))
        {
            return Self::Backward;
        }
        if function.contains("Workspace")
            && (function.contains("ublas") || function.contains("CUDABlas"))
            || function.contains("chooseCublasLtWorkspace")
            || function.contains("cudnn_workspace")
        {
            return Self::Workspace;
        }
        if function.contains("cached_cast") || function.contains("::_to_copy::") {
            return Self::Cast;
        }
        if function.contains("::") {
            return Self::Native;
        }
        // Losses are often called outside of modules.
        if is_in("torch/nn/functional.py") {
            return Self::Forward;
        }
        let is_of_module = is_in("torch/nn/modules/") || is_in("transformers/models/");
        if (is_of_module && function == "__init__") || function == "from_pretrained" {
            return Self::Building;
        }
        if function == "forward" { Self::Forward } else { Self::Other }
    }
}

/// What the frames from the outermost to one say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true beside others")]
struct Inherited {
    phase: Phase,
    is_workspace: bool,
    is_cast: bool,
    has_native_frames: bool,
    is_in_backward: bool,
}

impl Inherited {
    /// The frame further inside decides, but what runs inside of a backward pass is part of it.
    fn inside(self, frame: FrameKind) -> Self {
        let phase = match frame {
            FrameKind::Backward => Phase::Backward,
            FrameKind::Forward if self.is_in_backward => Phase::Backward,
            FrameKind::Forward => Phase::Forward,
            FrameKind::Optimizer => Phase::Optimizer,
            FrameKind::Loading => Phase::Loading,
            FrameKind::Building => Phase::Building,
            FrameKind::Workspace | FrameKind::Cast | FrameKind::Native | FrameKind::Other => {
                self.phase
            }
        };
        Self {
            phase,
            is_workspace: self.is_workspace || frame == FrameKind::Workspace,
            is_cast: self.is_cast || frame == FrameKind::Cast,
            has_native_frames: self.has_native_frames
                || matches!(frame, FrameKind::Cast | FrameKind::Native | FrameKind::Workspace),
            is_in_backward: self.is_in_backward || frame == FrameKind::Backward,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, Inherited};
    use crate::memory::classify::Phase;

    fn phase(frames: &[(&str, &str)]) -> Phase {
        let kinds = frames.iter().map(|(function, file)| FrameKind::of(function, file));
        kinds.fold(Inherited::default(), Inherited::inside).phase
    }

    #[test]
    fn the_innermost_frame_that_says_something_decides() {
        let call = ("_call_impl", "torch/nn/modules/module.py");
        let step = ("step", "torch/optim/adamw.py");
        assert_eq!(phase(&[("main", "train.py"), call, ("forward", "net.py")]), Phase::Forward);
        assert_eq!(phase(&[("main", "train.py"), step, ("_init_group", step.1)]), Phase::Optimizer);
        // Lightning calls the model in a closure of the optimizer.
        assert_eq!(phase(&[step, ("training_step", "lit.py"), call]), Phase::Forward);
        // Checkpointing calls the model again in the backward pass.
        assert_eq!(phase(&[("backward", "torch/_tensor.py"), call]), Phase::Backward);
        assert_eq!(phase(&[("_apply", "torch/nn/modules/module.py")]), Phase::Building);
        assert_eq!(phase(&[("main", "train.py"), ("load", "train.py")]), Phase::Other);
        let windows = ("_call_impl", r"C:\x\Lib\site-packages\torch\nn\modules\module.py");
        assert_eq!(phase(&[("main", "train.py"), windows]), Phase::Forward);
    }

    #[test]
    fn casts_are_told_from_native_frames() {
        let cast = |frames: &[&str]| {
            let kinds = frames.iter().map(|function| FrameKind::of(function, "??"));
            let inherited = kinds.fold(Inherited::default(), Inherited::inside);
            (inherited.has_native_frames, inherited.is_cast)
        };
        assert_eq!(cast(&["main", "forward"]), (false, false));
        assert_eq!(cast(&["forward", "at::_ops::linear::call(at::Tensor const&)"]), (true, false));
        let cached =
            "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)";
        assert_eq!(cast(&["forward", cached]), (true, true));
        assert_eq!(cast(&["forward", "at::_ops::_to_copy::call(at::Tensor const&)"]), (true, true));
    }
}
