//! Robustness: any rule file is loaded or rejected with problems, without a panic.

use proptest::prelude::*;

use super::report::{run, tables};
use super::{metrics, source};
use crate::{RuleFiles, RuleSet, RuleSource, evaluate, shipped_rules};

/// Reads a file after the shipped ones, and uses what comes of it as far as that goes.
fn take(text: &str) {
    let mut sources: Vec<RuleSource> = shipped_rules();
    sources.push(source("mutated.toml", text));
    let len = text.len();
    for stated in RuleFiles::read(&sources).queries() {
        let problem = stated.problem(&sources, Some(2..5), "m".to_owned(), None);
        assert!(problem.span.end <= sources.iter().map(|s| s.text.len()).max().unwrap());
    }
    match RuleSet::load(&sources, &metrics()) {
        Ok(rules) => {
            rules.test();
            evaluate(&rules, &tables(), &run(), &[]);
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems.iter().filter(|p| p.file == "mutated.toml") {
                assert!(problem.line >= 1 && problem.column >= 1 && !problem.message.is_empty());
                assert!(problem.span.start <= len.max(1), "{problem}");
            }
        }
    }
}

/// Files that use every key.
fn files() -> Vec<String> {
    let mut texts: Vec<String> = shipped_rules().into_iter().map(|s| s.text).collect();
    texts.push(
        "[policy]\nselect = ['IN', 'memory']\nignore = ['HB']\nmin_gain = '1 %'\nfail_on = 'high'\n\
         [ignore.MM]\nreason = 'known'\nuntil = '2027-01-01'\n\
         [rule.own-one]\ncode = 'XX001'\ncategory = 'own'\nsql = '''\nSELECT rank, max(bytes) AS most_bytes\nFROM memcpys'''\n\
         column = 'most_bytes'\nunit = 'bytes'\nscope = 'rank'\nhigh = '> 1 GiB'\ntitle = 'T'\nmessage = '{{ most_bytes|bytes }}'\n\
         advice = ['a']\nwhy = 'w'\ntests = [{ most_bytes = 1, expect = 'pass' }]\n"
            .to_owned(),
    );
    texts
}

/// Fragments of mutations.
const BITS: [&str; 24] = [
    "\"",
    "'",
    "'''",
    "\"\"\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "é",
    "\u{0}",
    "{{",
    "%}",
    "> 5 us",
    "..",
    "-1",
    "1e999",
    "9999999999999999999",
    "2027-01-01",
    "true",
    "[policy]\n",
    "enabled = false\n",
    "within = 'IN001'\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn load_does_not_panic_on_mutated_files(
        file in 0..9_usize,
        edits in prop::collection::vec((0.0..1.0_f64, 0..40_usize, prop::option::of(0..BITS.len())), 1..4),
    ) {
        let texts = files();
        let mut text = texts[file % texts.len()].clone();
        for (at, cut, put) in edits {
            let mut start = (at * text.len() as f64) as usize;
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + cut).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(start..end, put.map_or("", |i| BITS[i]));
        }
        take(&text);
    }

    #[test]
    fn load_accepts_or_rejects_any_text(text in "\\PC{0,80}") {
        take(&text);
        take(&format!("[rule.dataloader-wait]\nhigh = '{text}'\n"));
        take(&format!("[policy]\nselect = ['{text}']\nmin_gain = '{text}'\n"));
        take(&format!("[ignore.\"{text}\"]\nreason = 'x'\nuntil = '{text}'\n"));
    }
}
