//! Suggestions for misspelled names.

/// The candidate nearest to `word`, ignoring case, if the edit distance is at most a third of the longer of the two,
/// rounded up. Of candidates at the same distance, the first in alphabetical order.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, candidate)| distance <= word.len().max(candidate.len()).div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_finds_misspelled_names() {
        let names = ["gpu_kernels", "gpu_utilization", "step_time", "IN001"];
        assert_eq!(nearest("gpu_utilisation", names), Some("gpu_utilization"));
        assert_eq!(nearest("in001", names), Some("IN001"));
        assert_eq!(nearest("advise", ["advice", "title", "why"]), Some("advice"));
    }

    #[test]
    fn nearest_rejects_distant_names() {
        assert_eq!(nearest("memory", ["gpu_utilization", "step_time", "IN001"]), None);
        assert_eq!(nearest("colour", ["advice", "title", "why"]), None);
        assert_eq!(nearest("x", ["gpu_kernels"]), None);
    }
}
