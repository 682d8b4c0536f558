//! The files of a crate import each other without cycles, so that each can be read after those it builds on.
//!
//! A file depends on another if a `use` declaration in it, outside of tests, names something that the other file
//! defines. Names are followed through re-exports (`pub use`, `pub(crate) use`) to the file that defines them, and a
//! re-export itself is not a dependency: `lib.rs` and `mod.rs` may list what their children offer. Thus a parent and a
//! child are a cycle if the parent imports from the child with a private `use` and the child imports something that
//! the parent's own file defines. Paths in expressions, such as `child::run()`, are not looked at.

mod parser;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use parser::{Source, parse, segments};

type Module = Vec<String>;

/// The files of a crate by module.
struct Crate(BTreeMap<Module, Source>);

impl Crate {
    fn read(source: &Path) -> Self {
        let mut modules = BTreeMap::new();
        for file in super::layering::rust_files(source) {
            let below = file.strip_prefix(source).unwrap().with_extension("");
            let mut module: Module =
                below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.iter().any(|part| part == "tests" || part == "bin") || module == ["main"] {
                continue;
            }
            if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                module.pop();
            }
            modules.insert(module, parse(&std::fs::read_to_string(&file).unwrap()));
        }
        Self(modules)
    }

    /// The absolute path of an import; `None` if it leads to another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut base = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => base.clear(),
            "self" | "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
                return Some(
                    [base, rest.iter().skip_while(|s| *s == "self").cloned().collect()].concat(),
                );
            }
            first if self.0.contains_key(&[base.clone(), vec![first.to_owned()]].concat()) => {
                return Some([base, rest.to_vec()].concat());
            }
            _ => return None,
        }
        Some([base, rest[1..].to_vec()].concat())
    }

    /// The module whose file defines what an absolute path names.
    fn definition(&self, path: &[String], depth: usize) -> Option<Module> {
        let module =
            (0..=path.len()).rev().map(|n| &path[..n]).find(|m| self.0.contains_key(*m))?;
        let (Some(name), true) = (path.get(module.len()), depth < 8) else {
            return Some(module.to_vec());
        };
        let source = &self.0[module];
        if !source.definitions.contains(name) {
            for import in source.imports.iter().filter(|i| i.is_reexport) {
                let Some(target) = self.absolute(&module.to_vec(), &import.path) else { continue };
                if import.name == *name {
                    return self.definition(&target, depth + 1);
                }
                if import.name == "*" {
                    let inner = &target[..target.len() - 1];
                    if self.0.get(inner).is_some_and(|s| s.definitions.contains(name)) {
                        return Some(inner.to_vec());
                    }
                }
            }
        }
        Some(module.to_vec())
    }

    fn dependencies(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let of = |module: &Module, source: &Source| -> BTreeSet<Module> {
            let imports = source.imports.iter().filter(|import| !import.is_reexport);
            imports
                .filter_map(|import| self.definition(&self.absolute(module, &import.path)?, 0))
                .filter(|target| target != module)
                .collect()
        };
        self.0.iter().map(|(module, source)| (module, of(module, source))).collect()
    }

    /// Groups of modules that reach each other.
    fn cycles(&self) -> BTreeSet<BTreeSet<String>> {
        let edges = self.dependencies();
        let reached = |from: &Module| {
            let (mut seen, mut stack) = (BTreeSet::new(), vec![from]);
            while let Some(module) = stack.pop() {
                for next in &edges[module] {
                    if seen.insert(next) {
                        stack.push(next);
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|module| (*module, reached(module))).collect();
        let in_cycle = reached.iter().filter(|(module, seen)| seen.contains(*module));
        in_cycle
            .map(|(module, seen)| {
                let back = seen.iter().filter(|other| reached[**other].contains(*module));
                back.map(|other| format!("crate::{}", other.join("::"))).collect()
            })
            .collect()
    }
}

fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut crates: Vec<PathBuf> = entries.filter(|path| path.join("src").is_dir()).collect();
    crates.sort();
    crates
}

#[test]
fn files_of_a_crate_do_not_import_in_cycles() {
    let mut report = String::new();
    for path in crates() {
        for cycle in Crate::read(&path.join("src")).cycles() {
            let name = path.file_name().unwrap().to_string_lossy();
            let members: Vec<&str> = cycle.iter().map(String::as_str).collect();
            writeln!(report, "{name}: {}", members.join(", ")).unwrap();
        }
    }
    assert!(report.is_empty(), "files that import each other:\n{report}");
}

/// Modules with their source, `root` being the crate's.
fn crate_of(files: &[(&str, &str)]) -> Crate {
    let module = |path: &str| if path == "root" { Module::new() } else { segments(path) };
    Crate(files.iter().map(|(path, text)| (module(path), parse(text))).collect())
}

#[test]
fn parent_and_child_are_a_cycle_only_if_both_import() {
    let child = ("a::b", "use super::Parent;\npub(crate) struct Child;");
    let reexports =
        crate_of(&[("root", ""), ("a", "pub(crate) use b::Child;\nstruct Parent;"), child]);
    assert_eq!(reexports.cycles().len(), 0);
    let imports = crate_of(&[("root", ""), ("a", "use b::Child;\nstruct Parent;"), child]);
    assert_eq!(imports.cycles().len(), 1);
}

#[test]
fn names_are_followed_through_reexports() {
    let through_the_root = crate_of(&[
        ("root", "pub use error::Error;\npub use b::*;"),
        ("error", "use crate::b::Kind;\npub struct Error;"),
        ("b", "use crate::Error;\npub struct Kind;"),
    ]);
    let cycle: Vec<_> = through_the_root.cycles().into_iter().flatten().collect();
    assert_eq!(cycle, ["crate::b", "crate::error"]);
}
