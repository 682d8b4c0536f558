//! The source line of each event: `train.py:112`.
//!
//! Traces say it in two ways: Python frames are events around what they call, and traces of 2021 carry a
//! `Call stack` on operators. Both name frames `file(line): function`. Of the frames around an event the
//! innermost one in the user's own code is its source; where there is none, the innermost one in an
//! installed package, then in PyTorch or Python itself.

use trace_model::StrId;

use crate::timeline::columns::Columns;

/// Whose code a frame is, from what tells a user least to what tells most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// PyTorch, the standard library, generated code.
    Base,
    /// Any other installed package.
    Package,
    User,
}

/// Frames outside `site-packages` are named relative to the module search path, so that a package looks
/// like a folder of the user's. These are known by name.
const BASE: &[&str] = &[
    "torch",
    "functorch",
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "base64",
    "bdb",
    "codecs",
    "collections",
    "concurrent",
    "contextlib",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "dis",
    "email",
    "encodings",
    "enum",
    "fnmatch",
    "functools",
    "genericpath",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "http",
    "importlib",
    "inspect",
    "io",
    "json",
    "linecache",
    "locale",
    "logging",
    "multiprocessing",
    "numbers",
    "opcode",
    "operator",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pkgutil",
    "posixpath",
    "queue",
    "random",
    "re",
    "reprlib",
    "runpy",
    "selectors",
    "shutil",
    "signal",
    "site",
    "socket",
    "socketserver",
    "sre_compile",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unittest",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "_weakrefset",
    "xml",
    "zipfile",
];
const PACKAGES: &[&str] = &[
    "absl",
    "accelerate",
    "aiohttp",
    "aiter",
    "albumentations",
    "apex",
    "attr",
    "bitsandbytes",
    "composer",
    "cv2",
    "datasets",
    "deepspeed",
    "diffusers",
    "einops",
    "fairscale",
    "fbgemm_gpu",
    "filelock",
    "flash_attn",
    "flashinfer",
    "fsspec",
    "grpc",
    "huggingface_hub",
    "hydra",
    "IPython",
    "ipykernel",
    "jax",
    "joblib",
    "keras",
    "kornia",
    "lightning",
    "lightning_fabric",
    "lightning_utilities",
    "matplotlib",
    "megatron",
    "mlflow",
    "mmcv",
    "mmengine",
    "monai",
    "numba",
    "numpy",
    "omegaconf",
    "onnx",
    "onnxruntime",
    "optimum",
    "packaging",
    "pandas",
    "peft",
    "PIL",
    "psutil",
    "pyarrow",
    "pydantic",
    "pytorch_lightning",
    "ray",
    "regex",
    "requests",
    "safetensors",
    "scipy",
    "sentencepiece",
    "sglang",
    "sgl_kernel",
    "skimage",
    "sklearn",
    "streaming",
    "tensorboard",
    "tensorflow",
    "timm",
    "tokenizers",
    "torchao",
    "torchaudio",
    "torchdata",
    "torchmetrics",
    "torchrec",
    "torchtext",
    "torchtune",
    "torchvision",
    "tornado",
    "tqdm",
    "transformer_engine",
    "transformers",
    "triton",
    "trl",
    "unsloth",
    "uvloop",
    "vllm",
    "wandb",
    "webdataset",
    "xformers",
    "yaml",
    "zmq",
];

/// A file and line, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    at: StrId,
    owner: Owner,
}

/// The frames in each frame name and call stack, parsed once per distinct string.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// By string.
    lines: Vec<Option<Line>>,
}

impl Lines {
    /// Reads the names of all Python frames and all call stacks.
    pub(crate) fn read(columns: &mut Columns) -> Self {
        if !columns.has_stacks {
            return Self::default();
        }
        let Columns { strings, python_frames, cpu_ops, annotations, .. } = columns;
        let mut is_read = vec![false; strings.len()];
        let mut lines = vec![None; strings.len()];
        for texts in [&python_frames.name, &cpu_ops.call_stack, &annotations.call_stack] {
            for &id in texts.0.iter().filter(|id| !id.is_null()) {
                if !std::mem::replace(&mut is_read[id.index()], true)
                    && let Some((owner, at)) = innermost(strings.get(id))
                {
                    lines[id.index()] = Some(Line { at: strings.intern(&at), owner });
                }
            }
        }
        Self { lines }
    }

    /// The frames of a name or a stack; none for built-in functions and modules.
    #[inline]
    pub(crate) fn get(&self, text: StrId) -> Option<Line> {
        self.lines.get(text.index()).copied().flatten()
    }
}

/// The innermost frames around a moment, one of each owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames([StrId; 3]);

impl Frames {
    pub(crate) const NONE: Self = Self([StrId::NULL; 3]);

    /// These with one more inside.
    #[inline]
    pub(crate) fn enter(&mut self, line: Line) {
        self.0[line.owner as usize] = line.at;
    }

    /// The most informative line.
    #[inline]
    pub(crate) fn source(self) -> StrId {
        let [base, package, user] = self.0;
        if !user.is_null() {
            user
        } else if !package.is_null() {
            package
        } else {
            base
        }
    }
}

impl Line {
    /// Its source line, if it is the user's own code.
    pub(crate) fn is_users(self) -> bool {
        self.owner == Owner::User
    }
}

/// The most informative frame of a stack, innermost first. A single frame is a stack of one.
fn innermost(stack: &str) -> Option<(Owner, String)> {
    let mut best: Option<(Owner, &str, &str)> = None;
    for (file, line) in stack.split(';').filter_map(file_and_line) {
        let owner = owner(file);
        if best.is_none_or(|(known, ..)| owner > known) {
            best = Some((owner, file, line));
        }
    }
    best.map(|(owner, file, line)| (owner, format!("{file}:{line}")))
}

/// `train.py(112): step` in two; nothing for `<built-in method ...>`, `<string>(2): f` and names without
/// a line.
fn file_and_line(frame: &str) -> Option<(&str, &str)> {
    let frame = frame.trim();
    if frame.starts_with('<') {
        return None;
    }
    let mut from = 0;
    loop {
        let open = from + frame[from..].find('(')?;
        let rest = &frame[open + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && open > 0 && rest[digits..].starts_with("): ") {
            return Some((&frame[..open], &rest[..digits]));
        }
        from = open + 1;
    }
}

fn owner(file: &str) -> Owner {
    let file = file.replace('\\', "/");
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some(at) = file.find(folder) {
            let top = first_part(&file[at + folder.len()..]);
            return if top == "torch" || top == "functorch" { Owner::Base } else { Owner::Package };
        }
    }
    let is_python = file
        .split("/lib/python")
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if is_python || file.contains("torchinductor_") || is_torch_checkout(&file) {
        return Owner::Base;
    }
    if file.starts_with('/') || file.as_bytes().get(1) == Some(&b':') {
        return Owner::User;
    }
    let top = first_part(file.trim_start_matches("./"));
    if BASE.contains(&top) {
        Owner::Base
    } else if PACKAGES.contains(&top) {
        Owner::Package
    } else {
        Owner::User
    }
}

/// PyTorch built from source lies anywhere.
fn is_torch_checkout(file: &str) -> bool {
    file.split("/torch/").skip(1).any(|rest| {
        let parts =
            ["nn/", "autograd/", "optim/", "utils/", "distributed/", "_dynamo/", "_inductor/"];
        let more = ["profiler/", "fx/", "_functorch/", "amp/", "cuda/", "_ops.py", "_tensor.py"];
        parts.iter().chain(&more).any(|part| rest.starts_with(part))
    })
}

/// `torch` of `torch/nn/functional.py`, `inspect` of `inspect.py`.
fn first_part(file: &str) -> &str {
    let part = file.split('/').next().unwrap_or(file);
    part.strip_suffix(".py").unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_has_a_file_and_a_line() {
        assert_eq!(file_and_line("train.py(112): step"), Some(("train.py", "112")));
        assert_eq!(
            file_and_line("/a (copy)/t(1).py(7): <lambda>"),
            Some(("/a (copy)/t(1).py", "7"))
        );
        for other in [
            "",
            "nn.Module: Linear_0",
            "<built-in method conv2d of type object at 0x7f>",
            "<string>(2): __init__",
            "<frozen importlib._bootstrap>(100): f",
            "train.py(x): f",
            "train.py(12)",
            "(12): f",
            "train.py(",
        ] {
            assert_eq!(file_and_line(other), None, "{other}");
        }
    }

    #[test]
    fn frame_distinguishes_installed_code_from_user_code() {
        for (file, expected) in [
            ("train.py", Owner::User),
            ("./src/models/net.py", Owner::User),
            ("/home/me/torch/train.py", Owner::User),
            (r"C:\work\train.py", Owner::User),
            ("torch/nn/modules/module.py", Owner::Base),
            ("inspect.py", Owner::Base),
            ("/usr/lib/python3.10/contextlib.py", Owner::Base),
            ("/opt/pytorch/torch/nn/functional.py", Owner::Base),
            ("/tmp/torchinductor_me/ab/cab.py", Owner::Base),
            ("/x/lib/python3.7/site-packages/torch/optim/sgd.py", Owner::Base),
            (r"C:\py\Lib\site-packages\torch\nn\functional.py", Owner::Base),
            ("/x/lib/python3.7/site-packages/torchvision/models/resnet.py", Owner::Package),
            ("/usr/local/lib/python3.10/dist-packages/apex/amp.py", Owner::Package),
            ("transformers/models/bert/modeling_bert.py", Owner::Package),
        ] {
            assert_eq!(owner(file), expected, "{file}");
        }
    }

    #[test]
    fn stack_prefers_the_innermost_user_frame() {
        let stack = "/e/lib/python3.7/site-packages/torch/nn/functional.py(2263): batch_norm;\
                     /e/lib/python3.7/site-packages/torchvision/models/resnet.py(249): forward;\
                     model.py(10): forward;train.py(35): train";
        assert_eq!(innermost(stack), Some((Owner::User, "model.py:10".to_owned())));
        let library = "torch/nn/functional.py(1): a;timm/models/vit.py(2): b;timm/x.py(3): c";
        assert_eq!(innermost(library), Some((Owner::Package, "timm/models/vit.py:2".to_owned())));
        let torch = "<built-in method mm>;torch/_ops.py(9): __call__;torch/nn/a.py(1): b";
        assert_eq!(innermost(torch), Some((Owner::Base, "torch/_ops.py:9".to_owned())));
        assert_eq!(innermost("<built-in method mm>"), None);
    }
}
