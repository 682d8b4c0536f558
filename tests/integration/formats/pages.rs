//! The pages of rules in `docs/rules/` are those of the rules.

use std::collections::BTreeSet;
use std::path::Path;

use trace_advisor::{default_rules, rule_pages};

use super::sandbox;

#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn rule_pages_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules");
    let pages = rule_pages(&default_rules());
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        // Remove pages of rules that no longer exist.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let fresh = "run `advisor rules docs --to docs/rules`, or the tests with UPDATE=1";
    for (name, text) in &pages {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *text, "docs/rules/{name} is stale: {fresh}");
    }
    let names: BTreeSet<String> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, pages.into_iter().map(|(name, _)| name).collect(), "{fresh}");
}

#[test]
fn rule_pages_begin_with_what_explain_prints() {
    let sandbox = sandbox();
    let output = sandbox.run(&["rules", "docs", "--to", "pages"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(sandbox.path("pages/IN001-dataloader-wait.md")).unwrap();
    let explained = sandbox.run(&["explain", "IN001"]).stdout;
    assert!(page.starts_with(std::str::from_utf8(&explained).unwrap()));
    let index = std::fs::read_to_string(sandbox.path("pages/README.md")).unwrap();
    assert!(index.contains("(IN001-dataloader-wait.md)"));
    sandbox.write("pages/ZZ001-gone.md", "");
    let again = sandbox.run(&["rules", "docs", "--to", "pages"]);
    assert!(
        String::from_utf8_lossy(&again.stderr)
            .contains("ZZ001-gone.md: there is no rule for this page")
    );
}

#[test]
fn rules_docs_does_not_overwrite_other_files() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("mine")).unwrap();
    sandbox.write("mine/README.md", "my own");
    let output = sandbox.run(&["rules", "docs", "--to", "mine"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(sandbox.path("mine/README.md")).unwrap(), "my own");
}
