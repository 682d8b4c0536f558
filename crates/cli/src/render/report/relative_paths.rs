//! Paths relative to the current folder: a report that others read does not show the folders of the machine that wrote
//! it.

use std::path::Path;

use trace_advisor::Report;
use trace_advisor::advisor::{BaselineComparison, Finding};

/// The reports with paths below `folder` relative to it, in fields and in texts.
pub(super) fn relative_to(folder: &Path, reports: &[Report]) -> Vec<Report> {
    let mut reports = reports.to_vec();
    let Some(prefix) = prefix(folder) else { return reports };
    for report in &mut reports {
        let run = &mut report.run;
        let sources = run.sources.iter_mut().map(|source| &mut source.file);
        let warnings = report.warnings.iter_mut();
        let warnings = warnings.flat_map(|warning| [&mut warning.file, &mut warning.message]);
        let ignored = report.ignored.iter_mut().map(|ignored| &mut ignored.at);
        let findings = report.findings.iter_mut().flat_map(texts_of_finding);
        let baseline = report.baseline.iter_mut().flat_map(texts_of_baseline);
        let path = std::iter::once(&mut run.path);
        for text in
            path.chain(sources).chain(warnings).chain(ignored).chain(findings).chain(baseline)
        {
            remove(&prefix, text);
        }
    }
    reports
}

/// A path or a text, with paths below `folder` relative to it.
pub(crate) fn relative_path(folder: &Path, text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(prefix) = prefix(folder) {
        remove(&prefix, &mut text);
    }
    text
}

/// What paths below `folder` begin with; `None` for the root.
fn prefix(folder: &Path) -> Option<String> {
    let folder = folder.to_str()?.trim_end_matches('/');
    (!folder.is_empty()).then(|| format!("{folder}/"))
}

fn texts_of_finding(finding: &mut Finding) -> impl Iterator<Item = &mut String> {
    let Finding { title, message, threshold_at, source, advice, .. } = finding;
    [title, message, threshold_at].into_iter().chain(source).chain(advice)
}

fn texts_of_baseline(baseline: &mut BaselineComparison) -> [&mut String; 2] {
    [&mut baseline.path, &mut baseline.run_path]
}

/// Removes `prefix` wherever a path begins with it. A path that is the folder itself becomes `.`.
fn remove(prefix: &str, text: &mut String) {
    if text.as_str() == prefix || *text == prefix[..prefix.len() - 1] {
        ".".clone_into(text);
        return;
    }
    let mut from = 0;
    while let Some(at) = text[from..].find(prefix).map(|at| from + at) {
        let before = text[..at].chars().next_back();
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"/._-~".contains(c));
        if begins {
            text.replace_range(at..at + prefix.len(), "");
        }
        from = if begins { at } else { at + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::remove;

    #[test]
    fn remove_shortens_paths_below_the_folder() {
        for (text, expected) in [
            ("/home/me/run", "run"),
            ("/home/me/", "."),
            ("/home/me", "."),
            ("/home/meadow/run", "/home/meadow/run"),
            ("/data/home/me/run", "/data/home/me/run"),
            ("see `/home/me/a.py:3` and /home/me/b.py", "see `a.py:3` and b.py"),
            ("file:///home/me/run", "file:///home/me/run"),
            ("s3://home/me/run", "s3://home/me/run"),
        ] {
            let mut text = text.to_owned();
            remove("/home/me/", &mut text);
            assert_eq!(text, expected);
        }
    }
}
