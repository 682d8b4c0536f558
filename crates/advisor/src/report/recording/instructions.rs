//! The code that records a run well, in the framework of the program.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Contents, RecordingKind};

/// Code that records the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordingInstructions {
    /// The framework that the code is for: `training loop`, `inference`, `Lightning`, `Transformers`, `Composer`, `vLLM` or
    /// `SGLang`.
    pub framework: String,
    /// `python` or `sh`.
    pub language: String,
    /// The code, complete, with names of the program in place: `model`, `loader`, `train_step`.
    pub code: String,
}

/// Frameworks: the trait of the run that shows it, its name, language and code. The first that applies counts.
const FRAMEWORKS: [(&str, &str, &str, &str); 5] = [
    ("uses_vllm", "vLLM", "sh", include_str!("vllm.sh")),
    ("uses_sglang", "SGLang", "sh", include_str!("sglang.sh")),
    ("uses_lightning", "Lightning", "python", include_str!("lightning.py")),
    ("uses_hf_trainer", "Transformers", "python", include_str!("transformers.py")),
    ("uses_composer", "Composer", "python", include_str!("composer.py")),
];

impl RecordingInstructions {
    /// The code for a run; `None` for traces of other tools, which are not about PyTorch, and for memory
    /// snapshots.
    pub(super) fn for_run(contents: &Contents<'_>, kind: RecordingKind) -> Option<Self> {
        if matches!(kind, RecordingKind::OtherTool | RecordingKind::MemoryOnly) {
            return None;
        }
        let of_framework = FRAMEWORKS.iter().find(|(name, ..)| contents.has_trait(name));
        let (framework, language, code) = match of_framework {
            Some(&(_, framework, language, code)) => (framework, language, code),
            None if contents.is_training() == Some(false) => {
                ("inference", "python", include_str!("inference.py"))
            }
            None => ("training loop", "python", include_str!("training_loop.py")),
        };
        Some(Self {
            framework: framework.to_owned(),
            language: language.to_owned(),
            code: code.replace("ACTIVITIES", activities(contents)),
        })
    }
}

/// What to record, as the profiler names it.
fn activities(contents: &Contents<'_>) -> &'static str {
    let has_device = contents.count("device_event") > 0 || contents.uses_unrecorded_device();
    if !has_device && contents.count("listed_device") == 0 {
        return "ProfilerActivity.CPU";
    }
    match contents.trait_text("torch_device") {
        Some("xpu") => "ProfilerActivity.CPU, ProfilerActivity.XPU",
        Some("mtia") => "ProfilerActivity.CPU, ProfilerActivity.MTIA",
        _ => "ProfilerActivity.CPU, ProfilerActivity.CUDA",
    }
}
