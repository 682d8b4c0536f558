//! The order of findings, the tree of causes, and the gain of all fixes together.

use std::collections::BTreeMap;

use crate::finding::{Finding, round4};
use crate::rule::Rule;
use crate::severity::Severity;

/// Links findings that contain each other, sorts all findings and numbers them.
///
/// Order: findings about the program by the gain in percent that no contained cause explains, times
/// confidence; then those that only detail one of these; then notes about the trace; then infos. Ties are
/// broken by code.
pub(crate) fn prioritize(findings: &mut [Finding], rules: &[Rule]) {
    // Lists of related findings are in the order of codes, whatever order the findings come in.
    findings.sort_by(|a, b| a.code.cmp(&b.code));
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
        let fixed =
            rules.iter().find(|r| r.code == finding.code).and_then(|r| r.fixed_priority_pct);
        if let Some(high) = finding.gain.high_pct {
            let rest = round4((high - tree.causes_claim(&finding.code)).max(0.0));
            finding.gain.unattributed_pct = Some(rest);
            finding.priority_pct = rest.max(fixed.unwrap_or(0.0));
        } else {
            finding.priority_pct = fixed.unwrap_or(0.0);
        }
    }
    let details: Vec<String> = findings
        .iter()
        .filter(|f| {
            let is_detail = rules.iter().any(|r| r.code == f.code && r.refines);
            is_detail && !f.gain.within.is_empty()
        })
        .map(|f| f.code.clone())
        .collect();
    let tier = |f: &Finding| match f.severity {
        Severity::Info => 3,
        _ if f.is_note => 2,
        _ => u8::from(details.contains(&f.code)),
    };
    findings.sort_by(|a, b| {
        let score = |f: &Finding| f.priority_pct * f.confidence.weight();
        tier(a)
            .cmp(&tier(b))
            .then_with(|| score(b).total_cmp(&score(a)))
            .then_with(|| a.code.cmp(&b.code))
    });
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.position = i + 1;
    }
}

/// One end of the estimates.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Low,
    High,
}

/// The tree of causes with the gain that each finding claims, in percent of step time.
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

    /// The claim of a rule with all rules within it: its own estimate or the sum of theirs, whichever is
    /// larger.
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

    /// The claims of the causes within a rule. A rule that only details this one is not a cause.
    fn causes_claim(&self, code: &str) -> f64 {
        let is_detail = |child: &str| self.rules.iter().any(|r| r.code == child && r.refines);
        self.children(code)
            .filter(|child| !is_detail(child))
            .map(|child| self.claim(child, Bound::High))
            .sum()
    }

    fn children<'s>(&'s self, code: &'s str) -> impl Iterator<Item = &'a str> + 's {
        self.rules
            .iter()
            .filter(move |r| r.within.as_deref() == Some(code))
            .map(|r| r.code.as_str())
    }

    /// Codes of the rules that contain a rule, nearest first.
    fn ancestors(&self, code: &str) -> Vec<String> {
        let parent =
            |code: &str| self.rules.iter().find(|r| r.code == code).and_then(|r| r.within.clone());
        std::iter::successors(parent(code), |code| parent(code)).collect()
    }

    /// The claim of all findings together, at most 100: rules within a rule never count for more than the
    /// loss that the rule itself measures (`ceilings`, by code, percent), and overlaps are counted once.
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
