//! "did you mean ...?"

/// The candidate nearest to `word`, at most a third of its length away.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (distance(&word.to_lowercase(), &c.to_lowercase()), c))
        .filter(|&(d, c)| d * 3 <= word.len().max(c.len()))
        .min()
        .map(|(_, c)| c)
}

/// Edits (insert, remove, replace a byte) between two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_nothing_else() {
        let names = ["gpu_utilization", "step_time", "IN001"];
        assert_eq!(nearest("gpu_utilisation", names), Some("gpu_utilization"));
        assert_eq!(nearest("in001", names), Some("IN001"));
        assert_eq!(nearest("memory", names), None);
    }
}
