//! The order of findings in lists: each below the finding that contains it.

use std::collections::BTreeMap;

use trace_advisor::advisor::Finding;

/// The findings with their depths: each below the nearest one that contains it, in the order of the most useful finding
/// that they hold.
pub(super) fn tree<'a>(findings: &[&'a Finding]) -> Vec<(usize, &'a Finding)> {
    let index: BTreeMap<&str, usize> =
        findings.iter().enumerate().map(|(i, finding)| (finding.code.as_str(), i)).collect();
    let parents: Vec<Option<usize>> = findings
        .iter()
        .map(|finding| {
            finding.gain.within.iter().find_map(|code| index.get(code.as_str()).copied())
        })
        .collect();
    let mut rows = Vec::with_capacity(findings.len());
    let mut is_listed = vec![false; findings.len()];
    let root_of = |mut at: usize| {
        // A rule cannot contain itself, so that the chain ends.
        for _ in 0..findings.len() {
            match parents[at] {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    };
    for at in 0..findings.len() {
        let root = root_of(at);
        if !is_listed[root] {
            push_subtree(root, 0, &parents, findings, &mut is_listed, &mut rows);
        }
    }
    rows
}

fn push_subtree<'a>(
    at: usize,
    depth: usize,
    parents: &[Option<usize>],
    findings: &[&'a Finding],
    is_listed: &mut [bool],
    rows: &mut Vec<(usize, &'a Finding)>,
) {
    if std::mem::replace(&mut is_listed[at], true) {
        return;
    }
    rows.push((depth, findings[at]));
    for child in 0..findings.len() {
        if parents[child] == Some(at) {
            push_subtree(child, depth + 1, parents, findings, is_listed, rows);
        }
    }
}
