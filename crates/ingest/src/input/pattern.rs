//! Patterns that select files of a folder: `rank-*.json.gz`, `{a,b}.json`.

use std::collections::BTreeSet;
use std::fmt;

use globset::{GlobBuilder, GlobMatcher, escape};

/// Selects files of a folder by their names in it.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    /// `None` if the text is not a pattern.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?;
        Some(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// Whether it selects the file with this name, with `/`.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text of a pattern that selects exactly these files among them and the others: with a wildcard for the part of
/// the names that differs, else a list.
pub(crate) fn selecting<'a>(
    files: &BTreeSet<&str>,
    others: impl IntoIterator<Item = &'a str>,
) -> String {
    let (Some(first), Some(last)) = (files.first(), files.last()) else { return String::new() };
    // The files are sorted: the first and the last differ where any two do.
    let prefix = common_prefix(first, last);
    let suffix = files.iter().fold(*first, |suffix, file| common_suffix(suffix, file));
    let shortest = files.iter().map(|file| file.len()).min().unwrap_or(0);
    let text = format!("{}*{}", escape(prefix), escape(suffix));
    match Pattern::new(&text) {
        Some(pattern)
            if prefix.len() + suffix.len() <= shortest
                && others.into_iter().all(|file| pattern.matches(file) == files.contains(file)) =>
        {
            text
        }
        _ => listing(files),
    }
}

/// The text of a pattern that lists the files.
pub(crate) fn listing(files: &BTreeSet<&str>) -> String {
    let names: Vec<String> = files.iter().map(|file| escape(file).replace(',', "[,]")).collect();
    match names.as_slice() {
        [name] => name.clone(),
        names => format!("{{{}}}", names.join(",")),
    }
}

/// The start that both texts have in common.
pub(crate) fn common_prefix<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b);
    same.map_or(&a[..a.len().min(b.len())], |((at, _), _)| &a[..at])
}

fn common_suffix<'a>(a: &'a str, b: &str) -> &'a str {
    let length: usize = a
        .chars()
        .rev()
        .zip(b.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(c, _)| c.len_utf8())
        .sum();
    &a[a.len() - length..]
}

#[cfg(test)]
mod tests {
    use super::{Pattern, selecting};

    #[test]
    fn selecting_finds_a_pattern_for_exactly_the_files() {
        for (files, others, expected) in [
            (&["a1.json", "a2.json"][..], &["b1.json"][..], "a*.json"),
            (&["a1.json", "a3.json"], &["a2.json"], "{a1.json,a3.json}"),
            (&["[a].json", "[b].json"], &["[c].json"], "{[[]a[]].json,[[]b[]].json}"),
            (&["aa.json", "a.json"], &["b.json"], "{a.json,aa.json}"),
            (&["a,b", "c"], &["a", "b"], "{a[,]b,c}"),
            (&["x.json"], &["y.json"], "x.json"),
        ] {
            let text = selecting(&files.iter().copied().collect(), others.iter().copied());
            assert_eq!(text, expected);
            let pattern = Pattern::new(&text).unwrap();
            assert!(files.iter().all(|file| pattern.matches(file)), "{text}");
            assert!(!others.iter().any(|file| pattern.matches(file)), "{text}");
        }
    }
}
