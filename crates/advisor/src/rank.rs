//! What to do first: order, the tree of causes, and what all fixes together could return.

use std::collections::BTreeMap;

use crate::finding::{Finding, tidy};
use crate::grade::Severity;
use crate::rule::Rule;

/// Fills in how findings contain each other, ranks them, and sorts them.
///
/// Order: advice by the recoverable percent that no contained cause explains, times confidence; then what only
/// looks closer at one of these; then notes about the trace; then what is only worth knowing. Ties go by code.
pub(crate) fn rank(findings: &mut [Finding], rules: &[Rule]) {
    let tree = Tree::new(findings, rules);
    let claims: BTreeMap<String, f64> =
        findings.iter().map(|f| (f.code.clone(), tree.claim(&f.code, Bound::High))).collect();
    for finding in findings.iter_mut() {
        let within = tree.ancestors(&finding.code);
        finding.gain.within = within.into_iter().filter(|c| claims.contains_key(c)).collect();
    }
    let within: Vec<(String, Vec<String>)> =
        findings.iter().map(|f| (f.code.clone(), f.gain.within.clone())).collect();
    for finding in findings.iter_mut() {
        let contains = within.iter().filter(|(_, w)| w.contains(&finding.code));
        finding.gain.contains = contains.map(|(code, _)| code.clone()).collect();
        let fixed = rules.iter().find(|r| r.code == finding.code).and_then(|r| r.fixed_rank);
        if let Some(high) = finding.gain.high_pct {
            let rest = tidy((high - tree.causes_claim(&finding.code)).max(0.0));
            finding.gain.unattributed_pct = Some(rest);
            finding.rank_pct = rest.max(fixed.unwrap_or(0.0));
        } else {
            finding.rank_pct = fixed.unwrap_or(0.0);
        }
    }
    let details: Vec<String> = findings
        .iter()
        .filter(|f| {
            let looks_closer = rules.iter().any(|r| r.code == f.code && r.refines);
            looks_closer && !f.gain.within.is_empty()
        })
        .map(|f| f.code.clone())
        .collect();
    let tier = |f: &Finding| match f.severity {
        Severity::Info => 3,
        _ if f.is_note => 2,
        _ => u8::from(details.contains(&f.code)),
    };
    findings.sort_by(|a, b| {
        let score = |f: &Finding| f.rank_pct * f.confidence.weight();
        tier(a)
            .cmp(&tier(b))
            .then_with(|| score(b).total_cmp(&score(a)))
            .then_with(|| a.code.cmp(&b.code))
    });
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
    }
}

/// Which end of the estimates.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Low,
    High,
}

/// The tree of causes with what each finding claims, in percent of step time.
pub(crate) struct Tree<'a> {
    rules: &'a [Rule],
    gains: BTreeMap<String, (f64, f64)>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(findings: &[Finding], rules: &'a [Rule]) -> Self {
        let gains = findings
            .iter()
            .filter_map(|f| Some((f.code.clone(), (f.gain.low_pct?, f.gain.high_pct?))))
            .collect();
        Self { rules, gains }
    }

    /// What a rule and everything within it claim: its own estimate or the sum of those within it,
    /// whichever is more.
    fn claim(&self, code: &str, bound: Bound) -> f64 {
        self.own(code, bound).max(self.children_claim(code, bound))
    }

    fn own(&self, code: &str, bound: Bound) -> f64 {
        self.gains.get(code).map_or(0.0, |(low, high)| match bound {
            Bound::Low => *low,
            Bound::High => *high,
        })
    }

    fn children_claim(&self, code: &str, bound: Bound) -> f64 {
        self.children(code).map(|child| self.claim(child, bound)).sum()
    }

    /// What the causes within a rule claim. A rule that only looks closer at this one is none.
    fn causes_claim(&self, code: &str) -> f64 {
        let looks_closer = |child: &str| self.rules.iter().any(|r| r.code == child && r.refines);
        self.children(code)
            .filter(|child| !looks_closer(child))
            .map(|child| self.claim(child, Bound::High))
            .sum()
    }

    fn children<'s>(&'s self, code: &'s str) -> impl Iterator<Item = &'a str> + 's {
        self.rules
            .iter()
            .filter(move |r| r.within.as_deref() == Some(code))
            .map(|r| r.code.as_str())
    }

    /// Codes of the rules around a rule, nearest first.
    fn ancestors(&self, code: &str) -> Vec<String> {
        let parent =
            |code: &str| self.rules.iter().find(|r| r.code == code).and_then(|r| r.within.clone());
        std::iter::successors(parent(code), |code| parent(code)).collect()
    }

    /// What all findings together claim, at most 100: nothing within a rule counts for more than
    /// the loss that the rule itself measures (`ceilings`, by code, percent), and what overlaps is
    /// counted once.
    pub(crate) fn combined(&self, ceilings: &BTreeMap<String, f64>, bound: Bound) -> f64 {
        let capped: BTreeMap<&str, f64> = self
            .rules
            .iter()
            .map(|r| (r.code.as_str(), self.capped(&r.code, ceilings, bound)))
            .collect();
        let total: f64 = self
            .rules
            .iter()
            .filter(|r| r.within.is_none())
            .map(|root| {
                let shared: f64 = root.overlaps.iter().filter_map(|c| capped.get(c.as_str())).sum();
                (capped[root.code.as_str()] - shared).max(0.0)
            })
            .sum();
        total.min(100.0)
    }

    fn capped(&self, code: &str, ceilings: &BTreeMap<String, f64>, bound: Bound) -> f64 {
        let within: f64 = self.children(code).map(|c| self.capped(c, ceilings, bound)).sum();
        let claim = self.own(code, bound).max(within);
        ceilings.get(code).map_or(claim, |ceiling| claim.min(*ceiling))
    }
}
