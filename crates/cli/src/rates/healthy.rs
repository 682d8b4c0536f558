//! The list of healthy runs: one `run: reason` per line. Lines that begin with `#` describe what healthy means.

use std::collections::BTreeMap;

/// The runs of a survey that count as healthy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Healthy {
    about: String,
    runs: BTreeMap<String, String>,
}

impl Healthy {
    /// Parses a list.
    ///
    /// # Errors
    /// The first line that gives no reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut healthy = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                healthy.about.push_str(comment.trim());
                healthy.about.push('\n');
            } else if let Some((run, reason)) = line.split_once(": ") {
                healthy.runs.insert(run.trim().to_owned(), reason.trim().to_owned());
            } else if !line.is_empty() {
                return Err(format!("line {number}: expected `run: reason`"));
            }
        }
        Ok(healthy)
    }

    /// The description of what healthy means.
    pub fn about(&self) -> &str {
        self.about.trim_end()
    }

    /// Names of the runs, sorted.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// Whether a run is in the list.
    pub fn contains(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    pub(super) fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        self.runs.iter().map(|(run, reason)| (run.as_str(), reason.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::Healthy;

    #[test]
    fn parse_reads_runs_with_reasons() {
        let healthy = Healthy::parse("# Busy.\n# Or so.\n\na/b: 98 % busy: really\n").unwrap();
        assert_eq!(healthy.about(), "Busy.\nOr so.");
        assert!(healthy.contains("a/b") && !healthy.contains("a"));
        assert_eq!(healthy.reasons().collect::<Vec<_>>(), [("a/b", "98 % busy: really")]);
        assert_eq!(Healthy::parse("\nrun").unwrap_err(), "line 2: expected `run: reason`");
    }
}
