//! Describes a memory snapshot: the peak and its owners, who holds most of the peak, where that memory is allocated, and
//! what would shrink it.

use trace_model::Row;
use trace_model::number::plural;

use crate::language::expr::{bytes, decimals};

/// Owners: the column with what they hold at the peak, and their name.
const OWNERS: [(&str, &str); 7] = [
    ("parameter_bytes", "parameters"),
    ("optimizer_state_bytes", "optimizer state"),
    ("gradient_bytes", "gradients"),
    ("activation_bytes", "activations"),
    ("weight_copy_bytes", "16-bit copies of weights"),
    ("temporary_bytes", "temporaries"),
    ("older_bytes", "older than the history"),
];
/// Owners that hold less of the peak are left out.
const MIN_OWNER_SHARE: f64 = 0.05;
/// A change that brings the peak to more than this share of it is not worth a number.
const MAX_SHRUNK_SHARE: f64 = 0.95;
/// A second copy of the parameters that holds less of the peak is not mentioned: as for the rule about it, MM026.
const MIN_COPY_SHARE: f64 = 0.1;
/// Iterations that MM021 needs.
const LEAK_ITERATIONS: i64 = 4;
/// Words in the names of lines that may compute attention scores.
const ATTENTION_WORDS: [&str; 3] = ["attn", "attention", "softmax"];

/// The sentences about the row of the largest memory; empty if nothing was held.
///
/// `A memory snapshot of 3 iterations, with a peak of 61.8 MiB: activations 85.7 %, temporaries 8.1 %. Most of it ...`
pub(super) fn subject(memory: Row<'_>) -> String {
    let Some(peak) = memory.number("peak_bytes").filter(|&peak| peak > 0.0) else {
        return String::new();
    };
    if !memory.is_true("has_history") {
        let owner =
            holder(memory, "then", 0.0).map(|holder| format!(" {holder}")).unwrap_or_default();
        return format!(
            "When the memory snapshot was taken, {} were allocated.{owner}",
            bytes(peak)
        );
    }
    let of = match memory.count("iteration_count") {
        0 => String::new(),
        count => format!(" of {}", plural(count as usize, "iteration")),
    };
    let copied = half_copy(memory, peak).unwrap_or(0.0);
    let held = |column: &str| {
        let bytes = memory.number(column)?;
        Some(if column == "parameter_bytes" { (bytes - copied).max(0.0) } else { bytes })
    };
    let mut owners: Vec<(&str, f64)> = OWNERS
        .iter()
        .filter_map(|(column, owner)| Some((*owner, held(column)? / peak)))
        .chain([("a second copy of parameters in 16 bits", copied / peak)])
        .filter(|(_, share)| *share >= MIN_OWNER_SHARE)
        .collect();
    owners.sort_by(|a, b| b.1.total_cmp(&a.1));
    let owners: Vec<String> = owners
        .into_iter()
        .map(|(owner, share)| format!("{owner} {} %", decimals(100.0 * share, 1)))
        .collect();
    let owners = if owners.is_empty() { String::new() } else { format!(": {}", owners.join(", ")) };
    let mut text = format!("A memory snapshot{of}, with a peak of {}{owners}.", bytes(peak));
    let copy = (copied > 0.0).then(|| {
        format!(
            "{} of the parameters have twins of half their size, as `copy.deepcopy(model).half()` makes: if so, drop one of the two.",
            bytes(2.0 * copied)
        )
    });
    let sentences =
        [holder(memory, "at the peak", copied), kept(memory, peak), copy, shrunk(memory, peak)];
    for sentence in sentences.into_iter().flatten() {
        text.push(' ');
        text.push_str(&sentence);
    }
    text
}

/// `Of the peak of 3 GiB, 71 % is activations; with half of the batch it would be about 1.8 GiB`: what a headline says of a snapshot.
pub(super) fn headline(memory: Row<'_>) -> Option<String> {
    let peak =
        memory.number("peak_bytes").filter(|peak| *peak > 0.0 && memory.is_true("has_history"))?;
    let (who, held) = top_owner(memory, half_copy(memory, peak).unwrap_or(0.0))?;
    let of_whom =
        format!("Of the peak of {}, {} % is {who}", bytes(peak), decimals(100.0 * held / peak, 1));
    Some(match predicted(memory, peak) {
        Some((change, then)) => {
            format!("{of_whom}; with {change} it would be about {}", bytes(then))
        }
        None => of_whom,
    })
}

/// What earlier iterations allocated and is still held, if there are too few iterations for MM021 to call it a leak.
fn kept(memory: Row<'_>, peak: f64) -> Option<String> {
    let kept = memory.number("kept_bytes").filter(|&kept| kept >= MIN_OWNER_SHARE * peak)?;
    let iterations = memory.count("iteration_count");
    let place = memory.text("kept_place").map(|place| format!(" in `{place}`")).unwrap_or_default();
    (iterations < LEAK_ITERATIONS).then(|| {
        format!(
            "{} that earlier iterations allocated{place} are still held. If nothing needs them, they leak: release them, or record \
             {LEAK_ITERATIONS} iterations or more to tell.",
            bytes(kept)
        )
    })
}

/// Bytes of parameters that are held a second time in 16 bits, if they are a part of the peak: a copy of the model, not casts of
/// forward passes.
fn half_copy(memory: Row<'_>, peak: f64) -> Option<f64> {
    let copy = memory.number("half_copy_bytes").filter(|&copy| copy >= MIN_COPY_SHARE * peak)?;
    let casts = memory.number("weight_copy_bytes").unwrap_or(0.0);
    (casts <= 0.5 * copy).then_some(copy)
}

/// Who holds most of the memory, and how much; parameters without `copied`, their second copy.
fn top_owner(memory: Row<'_>, copied: f64) -> Option<(&'static str, f64)> {
    let owner = memory.text("top_owner")?;
    let held = memory.number("top_owner_bytes")?;
    let held = if owner == "parameter" { (held - copied).max(0.0) } else { held };
    let who = match (owner, memory.text("top_phase")) {
        ("parameter", _) => "parameters",
        ("optimizer_state", _) => "optimizer state",
        ("gradient", _) => "gradients",
        ("activation", _) => "activations",
        ("weight_copy", _) => "16-bit copies of weights",
        ("input", _) => "inputs",
        ("temporary", Some("backward")) => "temporaries of the backward pass",
        ("temporary", Some("optimizer")) => "temporaries of the optimizer",
        ("temporary", Some("forward")) => "temporaries of the forward pass",
        ("temporary", _) => "temporaries",
        ("workspace", _) => "workspaces of libraries",
        ("graph_pool", _) => "private pools of CUDA graphs",
        ("older", _) => "older than the history",
        _ => "of no known owner",
    };
    Some((who, held))
}

/// Who holds most of the memory, and where it is allocated; parameters without `copied`, their second copy.
fn holder(memory: Row<'_>, moment: &str, copied: f64) -> Option<String> {
    let owner = memory.text("top_owner")?;
    let phase = memory.text("top_phase");
    let (who, held) = top_owner(memory, copied)?;
    let what = match owner {
        "older" | "unknown" => format!("{} are {who}", bytes(held)),
        _ => format!("{} are held by {who}", bytes(held)),
    };
    let place = memory.text("top_place").zip(memory.number("top_place_bytes"));
    let place = match place {
        // In most snapshots, memory that was allocated before the history has no stack.
        Some((place, of_place)) if of_place >= 0.99 * held => format!(", allocated in `{place}`"),
        Some((place, of_place)) => format!(", {} of it allocated in `{place}`", bytes(of_place)),
        None if phase == Some("before") && owner != "older" => {
            ", allocated before the history begins".to_owned()
        }
        None if phase == Some("backward") => {
            ", allocated in the backward pass, whose stacks name no line".to_owned()
        }
        None => String::new(),
    };
    Some(format!("Most {moment}: {what}{place}."))
}

/// What would shrink the peak, in a sentence.
fn shrunk(memory: Row<'_>, peak: f64) -> Option<String> {
    let owner = memory.text("top_owner")?;
    let place = memory.text_or_empty("top_place").to_ascii_lowercase();
    let predicted = predicted(memory, peak)
        .map(|(change, then)| format!("With {change}, the peak would be about {}.", bytes(then)));
    let is_attention = ATTENTION_WORDS.iter().any(|word| place.contains(word));
    let of_passes = memory.text("top_phase") != Some("optimizer");
    let text = match owner {
        "activation" if memory.flag("has_backward") == Some(false) => {
            "No backward pass uses them: `torch.inference_mode()` keeps none."
        }
        "activation" | "temporary" if is_attention && of_passes => {
            "If these are attention scores, `F.scaled_dot_product_attention` does not store them."
        }
        "activation" => {
            "Computing them again in the backward pass (`torch.utils.checkpoint`), or a smaller batch, shrinks them."
        }
        "temporary" if !of_passes => {
            "`fused=True` or `foreach=False` in the optimizer makes no such copies."
        }
        "temporary" => "Computing on a part of the data at a time shrinks them.",
        "weight_copy" => "`model.to(torch.bfloat16)` instead of autocast needs no copies.",
        "parameter" => {
            "Parameters in 16 bits take half the memory; `fully_shard` divides them over ranks."
        }
        "gradient" => {
            "Gradients are as large as the parameters that are trained: fewer of them, 16 bits, or `fully_shard` shrink them."
        }
        "optimizer_state" => "An optimizer with less state, or ZeRO over ranks, shrinks it.",
        "input" => "Smaller batches, or fewer of them on the device at once, shrink it.",
        "workspace" => {
            "The environment variable `CUBLAS_WORKSPACE_CONFIG` sets the size of cuBLAS workspaces."
        }
        "graph_pool" => {
            "Graphs that share a pool need less: `torch.cuda.graph(g, pool=first.pool())`."
        }
        "older" => {
            "Begin the history before the model is built (`torch.cuda.memory._record_memory_history()`) to see who holds it."
        }
        _ => {
            "Releasing it before the peak (`del`), or computing on a part of the data at a time, shrinks it."
        }
    };
    Some(match predicted {
        // The number says more than the general advice.
        Some(predicted) if owner == "optimizer_state" || !is_attention => predicted,
        Some(predicted) => format!("{text} {predicted}"),
        None => text.to_owned(),
    })
}

/// The change that shrinks the largest part of the peak, and the predicted peak with that change.
fn predicted(memory: Row<'_>, peak: f64) -> Option<(&'static str, f64)> {
    let has_backward = memory.flag("has_backward") != Some(false);
    let candidates: &[(&str, &str)] = match memory.text("top_owner")? {
        "activation" if has_backward => &[
            ("checkpointed_peak_bytes", "activations computed again (`torch.utils.checkpoint`)"),
            ("half_batch_peak_bytes", "half of the batch"),
        ],
        "temporary" if memory.text("top_phase") != Some("optimizer") => {
            &[("half_batch_peak_bytes", "half of the batch")]
        }
        "optimizer_state" => &[("small_state_peak_bytes", "optimizer state in 8 bits")],
        _ => &[],
    };
    let single =
        half_copy(memory, peak).map(|copy| ("only one copy of the parameters", peak - copy));
    candidates
        .iter()
        .filter_map(|(column, change)| Some((*change, memory.number(column)?)))
        .chain(single)
        .filter(|(_, then)| *then > 0.0 && *then <= MAX_SHRUNK_SHARE * peak)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}
