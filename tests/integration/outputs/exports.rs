//! `export --force` replaces an export and nothing else.

use std::fs;
use std::path::Path;

use super::{fails, names, succeeds, text};
use crate::support::sandbox::Sandbox;

const FORCE: [&str; 5] = ["export", "run", "-o", "tables", "--force"];

fn exported() -> Sandbox {
    let sandbox = Sandbox::with_run();
    succeeds(&sandbox, &FORCE[..4]);
    sandbox
}

/// Changes the manifest.
fn rewrite(sandbox: &Sandbox, change: impl FnOnce(&str) -> String) {
    let file = sandbox.path("tables/run.json");
    let text = fs::read_to_string(&file).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text);
    fs::write(file, changed).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn force_keeps_files_that_are_not_of_the_export() {
    let sandbox = exported();
    let before = read(&sandbox.path("tables/run.json"));
    sandbox.write("tables/mine.txt", "mine").write("tables/kernels/notes", "notes");
    let said = fails(&sandbox, &FORCE);
    assert!(
        said.contains("tables holds more than the export: kernels/notes, mine.txt\n"),
        "{said}"
    );
    assert!(said.contains("move the rest away"), "{said}");
    assert_eq!(read(&sandbox.path("tables/mine.txt")), "mine");
    assert_eq!(read(&sandbox.path("tables/kernels/notes")), "notes");
    assert_eq!(read(&sandbox.path("tables/run.json")), before);

    fs::remove_file(sandbox.path("tables/kernels/notes")).unwrap();
    for number in 0..9 {
        fs::create_dir(sandbox.path(&format!("tables/plots{number}"))).unwrap();
    }
    let said = fails(&sandbox, &FORCE);
    assert!(said.contains("mine.txt, plots0, plots1, plots2, plots3 and 5 more"), "{said}");
    for number in 0..9 {
        fs::remove_dir(sandbox.path(&format!("tables/plots{number}"))).unwrap();
    }
    fs::remove_file(sandbox.path("tables/mine.txt")).unwrap();
    succeeds(&sandbox, &FORCE);
    assert_eq!(names(&sandbox.path("")), ["run", "tables"]);
}

#[test]
fn force_replaces_exports_of_other_versions_but_not_unreadable_ones() {
    let sandbox = exported();
    let current = read(&sandbox.path("tables/run.json"));
    rewrite(&sandbox, |text| text.replacen("\"version\":2", "\"version\":99", 1));
    succeeds(&sandbox, &FORCE);
    assert_eq!(read(&sandbox.path("tables/run.json")), current);

    rewrite(&sandbox, |text| text[..text.len() - 9].to_owned());
    let said = fails(&sandbox, &FORCE);
    assert!(said.contains("its manifest cannot be read") && said.contains("remove"), "{said}");
    assert!(sandbox.path("tables/kernels").exists());
}

#[cfg(unix)]
#[test]
fn links_are_neither_followed_nor_replaced() {
    use std::os::unix::fs::symlink;
    let sandbox = exported();
    symlink("tables", sandbox.path("link")).unwrap();
    for to in ["link", "link/", "./link"] {
        for more in [&[][..], &["--force"]] {
            let said = fails(&sandbox, &[&["export", "run", "-o", to], more].concat());
            assert!(said.contains("is a symbolic link"), "{said}");
            assert!(said.contains("pass the directory that it points to"), "{said}");
        }
    }
    assert!(sandbox.path("link").is_symlink());

    fs::rename(sandbox.path("tables/kernels"), sandbox.path("kernels")).unwrap();
    symlink(sandbox.path("kernels"), sandbox.path("tables/kernels")).unwrap();
    let said = fails(&sandbox, &FORCE);
    assert!(said.contains("tables holds more than the export: kernels\n"), "{said}");
    assert_eq!(names(&sandbox.path("kernels")).len(), 2);
}

#[test]
fn a_partition_that_is_no_longer_listed_is_noticed() {
    let sandbox = exported();
    let count = ["sql", "tables", "SELECT count(*) AS kernels FROM kernels", "-f", "csv"];
    succeeds(&sandbox, &count);
    let without = |text: &str| {
        let table = text.find("{\"table\":\"kernels\"").unwrap();
        let end = table + text[table..].find("},").unwrap() + 2;
        format!("{}{}", &text[..table], &text[end..])
    };
    rewrite(&sandbox, without);
    let said = fails(&sandbox, &count);
    assert!(said.contains("run.json is damaged: its content has changed"), "{said}");
    assert!(said.contains("export the traces again"), "{said}");
}

/// Two exports at once: one of them, whole.
#[test]
fn two_exports_to_one_folder_do_not_mix() {
    let sandbox = exported();
    succeeds(&sandbox, &["demo", "-o", "other", "--ranks", "3", "--steps", "3", "--layers", "1"]);
    let export = |run: &str| {
        let args = ["export", run, "-o", "tables", "--force"];
        sandbox.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    for _ in 0..3 {
        for mut child in [export("run"), export("other")] {
            assert!(child.wait().unwrap().success());
        }
        let args = ["sql", "tables", "SELECT count(DISTINCT rank) AS n FROM kernels", "-f", "csv"];
        let ranks = succeeds(&sandbox, &args);
        assert!(["n\n2\n", "n\n3\n"].contains(&text(&ranks.stdout)), "{}", text(&ranks.stdout));
        let files = names(&sandbox.path("tables/kernels")).len();
        assert_eq!(text(&ranks.stdout), format!("n\n{files}\n"));
    }
    assert_eq!(names(&sandbox.path("")), ["other", "run", "tables"]);
}
