//! The index of several runs: what each takes, and what to begin with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use trace_advisor::advisor::phrases;
use trace_advisor::trace_model::number::plural;
use trace_advisor::trace_model::time::human;
use trace_advisor::{Error, Report, Run};

use crate::clean::{html, html_with_code};
use crate::document::numbered;
use crate::finding_card::anchor;
use crate::queries::query;

/// A run in the index.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) headline: String,
    step: String,
    could_take: String,
    /// Code and title of the finding to begin with.
    first: Option<(String, String)>,
    saves: String,
    gpu: String,
    ranks: String,
}

impl Listed {
    pub(crate) fn of(run: &Run, report: &Report) -> Result<Self, Error> {
        let stated = report.plan.as_ref().and_then(|plan| plan.stated());
        let is_severe = report.severe_limit().is_some();
        let first = report.first_finding();
        Ok(Self {
            path: report.run.path.clone(),
            headline: report.headline.text.clone(),
            step: report.headline.step_ms.map(|ms| human(ms * 1e6)).unwrap_or_default(),
            could_take: stated
                .filter(|_| !is_severe)
                .map(|fix| phrases::ms_range(&fix.after_ms))
                .unwrap_or_default(),
            first: first.map(|finding| (finding.code.clone(), finding.title.clone())),
            saves: first.map(phrases::gain_share).unwrap_or_default(),
            gpu: gpus(run)?,
            ranks: plural(report.run.ranks.len(), "rank"),
        })
    }
}

/// The names of the GPUs of a run.
fn gpus(run: &Run) -> Result<String, Error> {
    let table = query(
        run,
        "SELECT DISTINCT CAST(name AS VARCHAR) AS name FROM devices WHERE name <> '' ORDER BY 1",
    )?;
    let names: Vec<&str> = table.named_rows().map(|row| row.text_or_empty("name")).collect();
    Ok(names.join(", "))
}

/// Writes the index. `names`: of the runs, see [`short_names`].
pub(crate) fn write<'a>(
    runs: impl Iterator<Item = &'a Listed> + Clone,
    names: &[String],
    out: &mut String,
) {
    out.push_str(
        "<section id=\"index\" aria-label=\"Runs\">\n<h1>Runs</h1>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of runs\"><table class=\"runs\">\n\
         <thead><tr><th scope=\"col\">Run</th><th scope=\"col\" class=\"num\">Step</th><th scope=\"col\" class=\"num\">Could take</th>\
         <th scope=\"col\">First finding</th><th scope=\"col\" class=\"num\">Saves</th><th scope=\"col\">GPU</th><th scope=\"col\" class=\"num\">Ranks</th></tr></thead>\n<tbody>\n",
    );
    for (number, (run, name)) in runs.clone().zip(names).enumerate() {
        let first = run.first.as_ref().map(|(code, title)| {
            let (id, code) = (html(&anchor(number, code)), html(code));
            format!("<a class=\"code-tag\" href=\"#{id}\">{code}</a> {}", html_with_code(title))
        });
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td></tr>",
            numbered("run", number),
            html(name),
            html(&run.step),
            html(&run.could_take),
            first.unwrap_or_default(),
            html(&run.saves),
            html(&run.gpu),
            html(&run.ranks),
        );
    }
    out.push_str("</tbody>\n</table></div>\n<ol class=\"index\">\n");
    for (number, (run, name)) in runs.zip(names).enumerate() {
        let _ = writeln!(
            out,
            "<li><a href=\"#{}\" title=\"{}\">{}</a><span>{}</span></li>",
            numbered("run", number),
            html(&run.path),
            html(name),
            html_with_code(&run.headline),
        );
    }
    out.push_str("</ol>\n</section>\n");
}

/// Names of runs by the ends of their paths, each as long as it takes to tell them apart; equal paths get a number.
pub fn short_names(paths: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| path.split(['/', '\\']).filter(|part| !part.is_empty()).collect())
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let end = |parts: &[&str], count: usize| parts[parts.len().saturating_sub(count)..].join("/");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let named = parts.iter().zip(paths).map(|(own, path)| {
        let is_own = |count: &usize| {
            let name = end(own, *count);
            parts.iter().all(|other| other == own || end(other, *count) != name)
        };
        let name = end(own, (1..longest).find(is_own).unwrap_or(longest));
        let name = if name.is_empty() { (*path).to_owned() } else { name };
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times == 1 { name } else { format!("{name} ({times})") }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::short_names;

    #[test]
    fn short_names_tell_paths_apart() {
        for (paths, names) in [
            (&["/data/exp/a", "/data/exp/b/"][..], &["a", "b"][..]),
            (&["/data/a/trace.json", "/data/b/trace.json"], &["a/trace.json", "b/trace.json"]),
            (&["x/a/t", "y/a/t", "y/b/u"], &["x/a/t", "y/a/t", "u"]),
            (&["run", "run/"], &["run", "run (2)"]),
            (&["t", "a/t"], &["t", "a/t"]),
            (&["/", "."], &["/", "."]),
        ] {
            assert_eq!(short_names(paths), names, "{paths:?}");
        }
    }
}
