//! Texts cut in the middle, so that different texts still differ.
//!
//! Names of kernels begin alike and end alike: `vectorized_elementwise_kernel<4, AddFunctor<float>>`. A cut leaves out
//! the middle; where that makes different names equal, it moves to leave in the place at which they differ.

use std::collections::{BTreeMap, BTreeSet};

/// Shares of the kept characters that come from the beginning of a text, in order of preference.
const HEAD_SHARES: [f64; 4] = [0.5, 0.75, 0.25, 1.0];

/// Cuts the texts to `width` characters.
pub(crate) fn shorten(texts: &[String], width: usize, ellipsis: &str) -> Vec<String> {
    let cut_all = |share| texts.iter().map(|text| cut(text, width, share, ellipsis)).collect();
    let by_share: [Vec<String>; 4] = HEAD_SHARES.map(cut_all);
    let different = |cuts: &Vec<String>| cuts.iter().collect::<BTreeSet<_>>().len();
    let most = by_share.iter().map(different).max().unwrap_or(0);
    let best = by_share.into_iter().find(|cuts| different(cuts) == most).unwrap_or_default();
    separate(texts, best, width, ellipsis)
}

/// Cuts a text to `width` characters at the left. Its indentation stays, but for what takes more than half of the width.
pub(crate) fn keep_end(text: &str, width: usize, ellipsis: &str) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let indent = text.chars().take_while(|&c| c == ' ').count().min(width / 2);
    let kept = width.saturating_sub(indent + ellipsis.chars().count());
    let end: String = text.chars().skip(length - kept).collect();
    format!("{:indent$}{ellipsis}{end}", "")
}

/// Leaves out the middle, or the end if `head_share` is 1.
fn cut(text: &str, width: usize, head_share: f64, ellipsis: &str) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(ellipsis.chars().count());
    let head = (kept as f64 * head_share).ceil() as usize;
    let head_text: String = text.chars().take(head).collect();
    let tail_text: String = text.chars().skip(length - (kept - head)).collect();
    format!("{head_text}{ellipsis}{tail_text}")
}

/// Cuts texts that still look alike around the place where they begin to differ.
fn separate(texts: &[String], mut cuts: Vec<String>, width: usize, ellipsis: &str) -> Vec<String> {
    let mut alike: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (cut, text) in cuts.iter().zip(texts) {
        alike.entry(cut).or_default().insert(text);
    }
    let mut separated: BTreeMap<&str, String> = BTreeMap::new();
    for group in alike.values() {
        let (Some(&first), Some(&last)) = (group.first(), group.last()) else { continue };
        if first != last {
            let at = common_prefix(first, last);
            separated
                .extend(group.iter().map(|&text| (text, cut_around(text, at, width, ellipsis))));
        }
    }
    for (cut, text) in cuts.iter_mut().zip(texts) {
        if let Some(other) = separated.get(text.as_str()) {
            cut.clone_from(other);
        }
    }
    cuts
}

/// Keeps the beginning, and what follows character `at`.
fn cut_around(text: &str, at: usize, width: usize, ellipsis: &str) -> String {
    let length = text.chars().count();
    let dots = ellipsis.chars().count();
    let kept = width.saturating_sub(2 * dots);
    let head = kept / 3;
    let from = at.saturating_sub(2).max(head);
    let middle = kept - head;
    let head_text: String = text.chars().take(head).collect();
    if from + middle + dots >= length {
        let tail: String = text.chars().skip(length.saturating_sub(middle + dots)).collect();
        return format!("{head_text}{ellipsis}{tail}");
    }
    let middle_text: String = text.chars().skip(from).take(middle).collect();
    format!("{head_text}{ellipsis}{middle_text}{ellipsis}")
}

/// Number of characters with which both begin.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::{keep_end, shorten};

    fn cuts(texts: &[&str], width: usize) -> Vec<String> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let cuts = shorten(&texts, width, "...");
        assert!(cuts.iter().all(|cut| cut.chars().count() <= width), "{cuts:?}");
        cuts
    }

    #[test]
    fn short_texts_stay_and_long_ones_keep_both_ends() {
        assert_eq!(
            cuts(&["aten::mm", "aten::convolution_backward"], 15),
            ["aten::mm", "aten::...ckward"]
        );
        assert_eq!(cuts(&["Größe"], 5), ["Größe"]);
    }

    #[test]
    fn keep_end_keeps_the_indentation_and_the_end() {
        assert_eq!(keep_end("  train.py:7", 12, "..."), "  train.py:7");
        assert_eq!(keep_end("  /home/user/train.py:7", 16, "..."), "  .../train.py:7");
        assert_eq!(keep_end(&format!("{:40}train.py:7", ""), 12, "…"), "      ….py:7");
    }

    #[test]
    fn different_names_stay_different() {
        let kernels = [
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul> >(int)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 3ul> >(int)",
            "void at::native::vectorized_elementwise_kernel<2, at::native::MulFunctor<float>, std::array<char*, 3ul> >(int)",
        ];
        assert_eq!(
            cuts(&kernels[..2], 40),
            [
                "void at::na...::AddFunctor<float>, st...",
                "void at::na...::MulFunctor<float>, st..."
            ]
        );
        let cuts = cuts(&kernels, 72);
        assert!(cuts[0] != cuts[1] && cuts[1] != cuts[2] && cuts[0] != cuts[2], "{cuts:?}");
    }

    #[test]
    fn equal_names_stay_equal() {
        let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let cuts = cuts(
            &[
                name,
                name,
                "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            ],
            30,
        );
        assert!(cuts[0] == cuts[1] && cuts[1] != cuts[2], "{cuts:?}");
    }
}
