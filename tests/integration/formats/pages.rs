//! Pages of rules, which the book contains.

use super::sandbox;

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
