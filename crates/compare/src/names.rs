//! Normalizes names across runs, in which the same operator, kernel or function may have different names.
//!
//! [`normalize_calls`] removes parts that differ between calls (step numbers, addresses). Names that are then not equal
//! to a name of the other run are matched by [`match_keys`], from fine to coarse: keys leave out parts that change with
//! the version of torch, the compiler, the vendor and the place of installation.

use std::borrow::Cow;

use crate::level::Level;

/// The name without parts that differ between calls: `ProfilerStep*`, `<built-in method to of Tensor
/// object>`.
pub(super) fn normalize_calls(level: Level, name: &str) -> Cow<'_, str> {
    match level {
        Level::Annotation | Level::DeviceAnnotation | Level::Operator => {
            match name.strip_prefix("ProfilerStep#") {
                Some(number) if is_number(number.trim()) => Cow::Borrowed(STEP),
                _ => Cow::Borrowed(name),
            }
        }
        Level::Python => without_addresses(name),
        _ => Cow::Borrowed(name),
    }
}

/// The common name of the marks of all steps.
pub(super) const STEP: &str = "ProfilerStep*";

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn without_addresses(name: &str) -> Cow<'_, str> {
    const AT: &str = " at 0x";
    if !name.contains(AT) {
        return Cow::Borrowed(name);
    }
    let mut parts = name.split(AT);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    Cow::Owned(text)
}

/// The last word of a name without template arguments and parameters, as with HTA's `use_short_name`. Names of copies and
/// fills stay as they are.
pub(super) fn shorten(name: &str) -> Cow<'_, str> {
    let memory = ["Memcpy", "Memset", "dma"].iter().any(|p| name.starts_with(p));
    if memory || !name.contains(['<', '(']) {
        return Cow::Borrowed(name);
    }
    let name = name.replace("->", "");
    let mut text = String::with_capacity(name.len());
    let mut open: Vec<(char, usize)> = Vec::new();
    for c in name.chars() {
        let opener = match c {
            '>' => '<',
            ')' => '(',
            '<' | '(' => {
                open.push((c, text.len()));
                text.push(c);
                continue;
            }
            _ => {
                text.push(c);
                continue;
            }
        };
        match open.iter().rposition(|&(o, _)| o == opener) {
            Some(at) => {
                text.truncate(open[at].1);
                open.truncate(at);
            }
            None => text.push(c),
        }
    }
    Cow::Owned(text.trim_end().rsplit(' ').next().unwrap_or_default().to_owned())
}

/// Keys to match a name by, from fine to coarse. Two names with a common key match only if no other name of their level,
/// on either side, has that key.
pub(super) fn match_keys(level: Level, name: &str) -> Vec<String> {
    match level {
        Level::Kernel => kernel(name),
        Level::Copy | Level::Fill => vec![copy(name)],
        Level::Runtime => runtime(name),
        Level::Operator => operator(name),
        Level::Annotation | Level::DeviceAnnotation => annotation(name),
        Level::Python => python(name),
        Level::Module => vec![module(name).to_owned()],
        Level::Sync | Level::Span | Level::None => Vec::new(),
    }
}

fn kernel(name: &str) -> Vec<String> {
    if let Some(keys) = collective(name) {
        return keys;
    }
    let name = name.replace("(anonymous namespace)::", "");
    let tokens = tokens(without_parameters(&name));
    let fine = tokens.join(" ");
    let no_numbers: Vec<&str> =
        tokens.iter().map(|t| if is_number(t) { "#" } else { t.as_str() }).collect();
    let base = tokens.iter().take_while(|t| *t != "<").last().map_or("", String::as_str);
    vec![fine, no_numbers.join(" "), without_count(base).to_owned()]
}

/// NCCL's kernels: `ncclKernel_AllReduce_RING_LL_Sum_float(...)` before 2.19,
/// `ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)` since.
fn collective(name: &str) -> Option<Vec<String>> {
    let rest = ["ncclDevKernel_", "ncclKernel_"]
        .iter()
        .find_map(|p| name.find(p).map(|at| &name[at + p.len()..]))?;
    let rest = rest.split('(').next().unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> =
        rest.split('_').filter(|w| !matches!(*w, "" | "t" | "nv")).map(element_type).collect();
    let operation = format!("nccl {}", words.first()?);
    let mut sorted = words;
    sorted.sort_unstable();
    Some(vec![format!("nccl {}", sorted.join(" ")), operation])
}

fn element_type(word: &str) -> &str {
    match word {
        "double" | "float64" => "f64",
        "float" | "float32" => "f32",
        "half" | "float16" => "f16",
        "bfloat16" => "bf16",
        "int8" => "i8",
        "uint8" => "u8",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        other => other,
    }
}

/// `void f<int>(int, float) [clone .kd]` without the text after the template arguments.
fn without_parameters(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_suffix(" [clone .kd]").unwrap_or(name);
    let name = name.strip_suffix(".kd").unwrap_or(name).trim_end();
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0_usize;
    for (at, c) in name.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth -= 1;
                if depth == 0 {
                    return if at > 0 { &name[..at] } else { name };
                }
            }
            _ => {}
        }
    }
    name
}

/// The words and punctuation of a C++ name, without namespaces, `void`, casts and suffixes of numbers.
fn tokens(name: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            push_word(&rest[..end], &mut tokens);
            rest = &rest[end..];
        } else if let Some(after) = rest.strip_prefix("::") {
            // The word before is a namespace, which is removed. A class with arguments, which ends in `>`, stays.
            if tokens.last().is_some_and(|t| t.chars().next().is_some_and(is_word)) {
                tokens.pop();
            }
            rest = after;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    tokens
}

fn push_word(word: &str, tokens: &mut Vec<String>) {
    if word == "void" && tokens.is_empty() {
        return;
    }
    if word == "Array" {
        // at::detail::Array became std::array in torch 2.5.
        return tokens.push("array".to_owned());
    }
    let number = word.trim_end_matches(['u', 'l', 'U', 'L']);
    if !is_number(number) {
        return tokens.push(word.to_owned());
    }
    // `(int)4` and `4`, `(bool)1` and `1`.
    if let [.., open, _, close] = tokens.as_slice()
        && open == "("
        && close == ")"
    {
        tokens.truncate(tokens.len() - 3);
    }
    tokens.push(number.to_owned());
}

/// Without the number that Triton appends: `triton_poi_fused_add_3`, `kernel_0d1d2de`.
fn without_count(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((head, tail))
            if !head.is_empty()
                && tail.starts_with(|c: char| c.is_ascii_digit())
                && tail.chars().all(|c| c.is_ascii_digit() || matches!(c, 'c' | 'd' | 'e')) =>
        {
            head
        }
        _ => name,
    }
}

/// The direction of a copy; `fill` for a fill.
fn copy(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let directions = [
        ("htod", "htod"),
        ("hosttodevice", "htod"),
        ("dtoh", "dtoh"),
        ("devicetohost", "dtoh"),
        ("dtod", "dtod"),
        ("devicetodevice", "dtod"),
        ("htoh", "htoh"),
        ("ptop", "ptop"),
        ("memset", "fill"),
        ("fill", "fill"),
    ];
    let found = directions.iter().find(|(text, _)| lower.contains(text));
    found.map_or(lower.clone(), |(_, direction)| (*direction).to_owned())
}

/// `cudaLaunchKernelExC_v11060`, `hipExtModuleLaunchKernel`, `cuLaunchKernel`: without vendor and version, with distinct
/// keys for runtime and driver; then with the same key for both; then without the variant.
fn runtime(name: &str) -> Vec<String> {
    let strip = |vendors: &[&str]| {
        vendors
            .iter()
            .filter_map(|vendor| name.strip_prefix(vendor))
            .find(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            .unwrap_or(name)
    };
    let fine = without_version(strip(&["cuda", "hip"])).to_ascii_lowercase();
    let middle = without_version(strip(&["cuda", "hip", "cu"])).to_ascii_lowercase();
    let mut coarse = middle.as_str();
    for prefix in ["ext", "module"] {
        coarse = coarse.strip_prefix(prefix).unwrap_or(coarse);
    }
    for suffix in ["exc", "ex"] {
        coarse = coarse.strip_suffix(suffix).unwrap_or(coarse);
    }
    let coarse = coarse.to_owned();
    vec![fine, middle, coarse]
}

fn without_version(name: &str) -> &str {
    let mut name = name;
    for suffix in ["_ptsz", "_ptds", "_spt"] {
        name = name.strip_suffix(suffix).unwrap_or(name);
    }
    match name.rsplit_once("_v") {
        Some((head, tail)) if is_number(tail) => head,
        _ => name,
    }
}

/// Autograd nodes without their number, then operators without the name of the library.
fn operator(name: &str) -> Vec<String> {
    let mut fine = name.replace("torch::autograd::", "");
    for word in ["struct ", "class "] {
        fine = fine.replace(word, "");
    }
    let unnumbered = fine.trim_end_matches(|c: char| c.is_ascii_digit());
    if unnumbered.ends_with("Backward") {
        fine.truncate(unnumbered.len());
    }
    let mut coarse = without_count(&fine).to_owned();
    for library in ["cudnn", "miopen", "mkldnn", "mps", "cuda", "hip"] {
        coarse = coarse.replace(library, "*");
    }
    let coarse = unmarked(&coarse).split(' ').map(|word| if is_hash(word) { "*" } else { word });
    let coarse = coarse.collect::<Vec<_>>().join(" ");
    vec![fine, coarse]
}

/// `Optimizer.step#SGD.step` as `Optimizer.step`, then without numbers and hashes.
fn annotation(name: &str) -> Vec<String> {
    let fine = unmarked(name);
    let words =
        fine.split(' ').map(|word| if is_hash(word) { "*".to_owned() } else { masked(word) });
    vec![fine.to_owned(), words.collect::<Vec<_>>().join(" ")]
}

/// `Optimizer.step` of `Optimizer.step#SGD.step`.
fn unmarked(name: &str) -> &str {
    let marked = ["Optimizer.", "enumerate("].iter().any(|p| name.starts_with(p));
    if marked { name.split('#').next().unwrap_or(name) } else { name }
}

/// Whether a word is a hash that compilers name graphs by.
fn is_hash(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() >= 16 && digits >= 2 && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The word with each sequence of digits replaced by `#`.
fn masked(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for c in word.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// `file(line): function` without line and place of installation, then by file name only.
fn python(name: &str) -> Vec<String> {
    let Some((place, function)) = name.split_once("): ") else { return vec![name.to_owned()] };
    let Some((path, _line)) = place.rsplit_once('(') else { return vec![name.to_owned()] };
    let path = path.replace('\\', "/");
    let mut inside = path.as_str();
    for marker in ["site-packages/", "dist-packages/"] {
        inside = inside.rsplit_once(marker).map_or(inside, |(_, rest)| rest);
    }
    if let Some((_, rest)) = inside.rsplit_once("/lib/python")
        && let Some((version, rest)) = rest.split_once('/')
        && version.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    {
        inside = rest;
    }
    let file = inside.rsplit('/').next().unwrap_or(inside);
    vec![format!("{inside}: {function}"), format!("{file}: {function}")]
}

/// `nn.Module: Linear_3` as `nn.Module: Linear`.
fn module(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((class, instance)) if is_number(instance) => class,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first stage at which the names share a key.
    fn stage(level: Level, a: &str, b: &str) -> Option<usize> {
        match_keys(level, a).iter().zip(match_keys(level, b)).position(|(a, b)| *a == b)
    }

    #[test]
    fn normalize_calls_removes_step_numbers_and_addresses() {
        assert_eq!(normalize_calls(Level::Annotation, "ProfilerStep#1009"), "ProfilerStep*");
        assert_eq!(normalize_calls(Level::Annotation, "ProfilerStep#x"), "ProfilerStep#x");
        assert_eq!(
            normalize_calls(Level::Python, "<built-in method to of Tensor object at 0x7f3Ad0>"),
            "<built-in method to of Tensor object>"
        );
        assert_eq!(normalize_calls(Level::Kernel, "f at 0x12"), "f at 0x12");
    }

    #[test]
    fn shorten_matches_hta() {
        for (name, expected) in [
            ("void at::native::f<4, at::g<int> >(int, at::h<float>)", "at::native::f"),
            ("void (anonymous namespace)::k<1>(int)", "::k"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
            ("f<unclosed", "f<unclosed"),
            ("closed)>", "closed)>"),
            ("a<b(c>d)", "ad)"),
        ] {
            assert_eq!(shorten(name), expected, "{name}");
        }
    }

    #[test]
    fn kernel_keys_match_across_compilers_and_versions() {
        let old = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)";
        let new = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";
        assert_eq!(stage(Level::Kernel, old, new), Some(0));
        let amd = new.replace("kernel<4", "kernel<8");
        assert_eq!(stage(Level::Kernel, new, &amd), Some(1));
        let other = new.replace("CUDAFunctor_add", "CUDAFunctor_mul");
        assert_eq!(stage(Level::Kernel, new, &other), Some(2));
        assert_eq!(stage(Level::Kernel, "void f<(int)4, (bool)1>(int)", "f<4, 1>"), Some(0));
        assert_eq!(stage(Level::Kernel, "k(int*) [clone .kd]", "k(int*)"), Some(0));
        assert_eq!(
            stage(Level::Kernel, "triton_poi_fused_add_3", "triton_poi_fused_add_7"),
            Some(2)
        );
        assert_eq!(stage(Level::Kernel, "ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_tn"), None);
    }

    #[test]
    fn collective_keys_match_across_nccl_2_19() {
        let old = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)";
        let new = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        assert_eq!(stage(Level::Kernel, old, new), Some(0));
        let gather =
            "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)";
        let newer = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        assert_eq!(stage(Level::Kernel, gather, newer), Some(1));
        assert_eq!(stage(Level::Kernel, old, newer), None);
    }

    #[test]
    fn runtime_keys_match_across_vendors() {
        assert_eq!(stage(Level::Runtime, "cudaLaunchKernel", "hipLaunchKernel"), Some(0));
        assert_eq!(stage(Level::Runtime, "cudaMemcpyAsync_ptsz", "hipMemcpyAsync"), Some(0));
        assert_eq!(stage(Level::Runtime, "cudaLaunchKernel", "cuLaunchKernel"), Some(1));
        assert_eq!(
            stage(Level::Runtime, "cudaLaunchKernel", "cudaLaunchKernelExC_v11060"),
            Some(2)
        );
        assert_eq!(stage(Level::Runtime, "cuLaunchKernel", "hipExtModuleLaunchKernel"), Some(2));
        assert_eq!(stage(Level::Runtime, "cudaMemcpyAsync", "cudaMemsetAsync"), None);
        assert_eq!(
            stage(Level::Copy, "Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice"),
            Some(0)
        );
        assert_eq!(
            stage(Level::Copy, "Memcpy HtoD (Host -> Device)", "Memcpy DtoH (Device -> Host)"),
            None
        );
    }

    #[test]
    fn operator_keys_match_across_versions() {
        assert_eq!(stage(Level::Operator, "AddmmBackward0", "AddmmBackward"), Some(0));
        let engine = "autograd::engine::evaluate_function: ";
        let (old, new) = (format!("{engine}AddmmBackward"), format!("{engine}AddmmBackward0"));
        assert_eq!(stage(Level::Operator, &old, &new), Some(0));
        assert_eq!(
            stage(
                Level::Operator,
                "torch::autograd::AccumulateGrad",
                "struct torch::autograd::AccumulateGrad"
            ),
            Some(0)
        );
        assert_eq!(
            stage(Level::Operator, "aten::cudnn_convolution", "aten::miopen_convolution"),
            Some(1)
        );
        assert_eq!(stage(Level::Operator, "aten::add", "aten::add_"), None);
        assert_eq!(stage(Level::Operator, "aten::conv2d", "aten::conv3d"), None);
        assert_eq!(stage(Level::Annotation, "Optimizer.step#SGD.step", "Optimizer.step"), Some(0));
        assert_eq!(
            stage(
                Level::Annotation,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
            ),
            Some(0)
        );
        assert_eq!(
            stage(
                Level::Annotation,
                "## Call CompiledFxGraph fk3x7mq2vvd6ylc2fohtmiqd4q ##",
                "## Call CompiledFxGraph fzz9wmq2vvd6ylc2fohtmiqd8a ##"
            ),
            Some(1)
        );
    }

    #[test]
    fn frame_keys_match_across_edits_and_installations() {
        assert_eq!(
            stage(
                Level::Python,
                "/opt/a/lib/python3.10/site-packages/torch/nn/modules/module.py(1501): _call_impl",
                "torch/nn/modules/module.py(1747): _call_impl"
            ),
            Some(0)
        );
        assert_eq!(
            stage(
                Level::Python,
                "/usr/lib/python3.10/threading.py(1): run",
                "threading.py(2): run"
            ),
            Some(0)
        );
        assert_eq!(stage(Level::Python, "/a/train.py(1): step", "/b/train.py(2): step"), Some(1));
        assert_eq!(stage(Level::Module, "nn.Module: Linear_3", "nn.Module: Linear_4"), Some(0));
    }

    #[test]
    fn odd_names_match_themselves_and_are_short_once_shortened() {
        for name in [
            "",
            "(",
            ")",
            "((",
            "))",
            "<",
            ">",
            "::",
            "()",
            "_",
            "_v",
            "a::",
            "0",
            "é(ü)",
            "): ",
            "ncclKernel_",
            "(int)",
            "f(1)2",
        ] {
            for level in Level::ALL {
                let has_keys = !matches!(level, Level::Sync | Level::Span | Level::None);
                assert_eq!(stage(level, name, name), has_keys.then_some(0), "{level} {name:?}");
                let normalized = normalize_calls(level, name);
                assert_eq!(normalize_calls(level, &normalized), normalized, "{level} {name:?}");
            }
            let short = shorten(name);
            assert_eq!(shorten(&short), short, "{name:?}");
            assert!(short.len() <= name.len(), "{name:?}: {short:?}");
        }
    }
}
