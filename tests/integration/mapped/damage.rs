//! Groups that are not what was written.

use std::fs;
use std::path::{Path, PathBuf};

use super::{check, fails, groups, map, with_ranks};
use crate::support::manifest::resealed;

/// The files of a group by their size, the largest first.
fn files(group: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![group.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse((file.metadata().unwrap().len(), file.clone())));
    files
}

#[test]
fn group_without_manifest_does_not_exist() {
    let sandbox = with_ranks(2);
    map(&sandbox, "1/2");
    map(&sandbox, "2/2");
    fs::remove_file(groups(&sandbox)[0].join("group.json")).unwrap();
    let text = fails(&sandbox, &["check", "run", "--from", "mapped"]);
    assert!(text.contains("mapped lacks 1 of the 2 traces of run"), "{text}");
}

/// Whatever file is missing, cut or changed: an error names it, and nothing wrong is reported.
#[test]
fn damaged_files_are_errors() {
    let sandbox = with_ranks(1);
    map(&sandbox, "1/1");
    let expected = check(&sandbox, &[]);
    let group = groups(&sandbox).remove(0);
    let args = ["check", "run", "--from", "mapped", "--exit-zero", "--format", "json"];
    // Every second file is missing, cut, or changed.
    for (at, file) in files(&group).into_iter().enumerate().step_by(2) {
        let whole = fs::read(&file).unwrap();
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 0x20;
        match [None, Some(&whole[..whole.len() / 2]), Some(&changed[..])][at % 3] {
            None => fs::remove_file(&file).unwrap(),
            Some(bytes) => fs::write(&file, bytes).unwrap(),
        }
        let output = sandbox.run(&args);
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        // Some tables are not read for a report.
        let is_unused = output.status.success() && text == expected.0;
        let is_named = output.status.code() == Some(2)
            && (errors.contains("mapped") || errors.contains("lacks"));
        // A view or a query that cannot be computed is unknown, and the report says so.
        let is_told = output.status.success() && text.contains("view-failed");
        assert!(is_unused || is_named || is_told, "{}: {errors}", file.display());
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(check(&sandbox, &["--from", "mapped"]), expected);
}

#[test]
fn manifest_cannot_name_files_elsewhere() {
    let sandbox = with_ranks(1);
    map(&sandbox, "1/1");
    let manifest = groups(&sandbox)[0].join("group.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let changed = text.replace("\"table\":\"steps\"", "\"table\":\"../../steps\"");
    assert_ne!(text, changed);
    fs::write(&manifest, resealed(&changed)).unwrap();
    let text = fails(&sandbox, &["check", "run", "--from", "mapped"]);
    assert!(text.contains("there is no table \"../../steps\""), "{text}");
}

/// Numbers that made sums overflow, with the checksum of the original and with one that fits.
#[test]
fn changed_manifests_are_refused() {
    let sandbox = with_ranks(1);
    map(&sandbox, "1/1");
    let manifest = groups(&sandbox)[0].join("group.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for (from, to, reason) in [
        (
            "\"rows\":",
            "\"rows\":4611686018427387904,\"_\":",
            "rows, its traces have 4611686018427387904",
        ),
        ("\"memory_bytes\":", "\"memory_bytes\":9223372036854775808,\"_\":", "memory_bytes of"),
        ("\"rank\":0", "\"rank\":-7", "its rank is 0, not -7 as in group.json"),
        (
            "\"row_groups\":{\"start\":0,\"end\":1}",
            "\"row_groups\":{\"start\":0,\"end\":0}",
            "row groups 0..0",
        ),
        ("\"parts\":[", "\"parts\":[],\"_\":[", "lane_count is"),
        ("\"shift_ns\":", "\"shift_ns\":5000000,\"_\":", "shift_ns is 5000000"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed);
        fs::write(&manifest, &changed).unwrap();
        let said = fails(&sandbox, &["check", "run", "--from", "mapped"]);
        assert!(said.contains("group.json is damaged: its content has changed"), "{from}: {said}");
        fs::write(&manifest, resealed(&changed)).unwrap();
        let said = fails(&sandbox, &["check", "run", "--from", "mapped"]);
        assert!(said.contains(reason), "{from}: {said}");
        assert!(said.contains("run the same `advisor map` again"), "{from}: {said}");
    }
}

#[test]
fn groups_of_other_programs_are_ignored() {
    let sandbox = with_ranks(1);
    map(&sandbox, "1/1");
    let manifest = groups(&sandbox)[0].join("group.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let changed = text.replace("\"version\":3,\"program\"", "\"version\":1,\"program\"");
    assert_ne!(text, changed);
    fs::write(&manifest, changed).unwrap();
    let text = fails(&sandbox, &["check", "run", "--from", "mapped"]);
    assert!(text.contains("lacks 1 of the 1 traces"), "{text}");
    // Something else in the folder does no harm.
    sandbox.write("mapped/readme.txt", "ours");
    fs::create_dir(sandbox.path("mapped/group-of-friends")).unwrap();
    fails(&sandbox, &["check", "run", "--from", "mapped"]);
}
