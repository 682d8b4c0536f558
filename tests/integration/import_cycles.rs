//! The files of a crate import each other without cycles, so that each can be read after those it builds on.
//!
//! A file depends on another if a `use` declaration in it, outside of tests, names something that the other file
//! defines. Names are followed through re-exports (`pub use`, `pub(crate) use`) to the file that defines them, and a
//! re-export itself is not a dependency: `lib.rs` and `mod.rs` may list what their children offer. Thus a parent and a
//! child are a cycle if the parent imports from the child with a private `use` and the child imports something that
//! the parent's own file defines. Paths in expressions, such as `child::run()`, are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Module = Vec<String>;

/// One `use` of one name.
#[derive(Debug, PartialEq)]
struct Import {
    path: Vec<String>,
    /// The name in the importing module; `*` for a glob.
    name: String,
    is_reexport: bool,
}

/// A file as a module.
#[derive(Debug, Default)]
struct Source {
    imports: Vec<Import>,
    definitions: BTreeSet<String>,
}

/// The code without comments, string contents and `#[cfg(test)]` items.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if c == '"' {
            string(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            3
        } else if rest.starts_with("'\\") {
            rest[2..].find('\'').map_or(rest.len(), |end| end + 3).max(4)
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped.min(rest.len())..];
    }
    while let Some(start) = code.find("#[cfg(test)]") {
        let end = item_end(&code[start..]) + start;
        code.replace_range(start..end, " ");
    }
    code
}

/// The length of a raw string at the start.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let quoted = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - quoted.len();
    Some(quoted.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a string at the start.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// The length of the first item: to its `;`, or to the end of its braces.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The names of a use tree: `a::{b, c::{self, D as E}}`.
fn tree(text: &str, prefix: &[String], is_reexport: bool, imports: &mut Vec<Import>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let mut path = prefix.to_vec();
        path.extend(segments(text[..open].trim_end_matches("::")));
        let inner = &text[open + 1..text.rfind('}').unwrap_or(text.len())];
        let (mut depth, mut start) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    tree(&inner[start..at], &path, is_reexport, imports);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (path, alias) = text.split_once(" as ").map_or((text, None), |(p, a)| (p, Some(a.trim())));
    let mut path = [prefix.to_vec(), segments(path)].concat();
    if !prefix.is_empty() && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(last) = path.last() {
        let name = alias.unwrap_or(last).to_owned();
        imports.push(Import { path, name, is_reexport });
    }
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

/// Imports of a file, and the names that it defines outside of braces.
fn parse(text: &str) -> Source {
    const ITEMS: [&str; 9] =
        ["const", "enum", "fn", "macro_rules!", "static", "struct", "trait", "type", "union"];
    let code = code(text);
    let mut source = Source::default();
    let words: Vec<(usize, &str)> = code
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
        .collect();
    for (index, &(at, word)) in words.iter().enumerate() {
        if word == "use" && code[at + 3..].starts_with(char::is_whitespace) {
            let declared = &code[at + 3..at + code[at..].find(';').unwrap_or(3)];
            // Visibility: `pub`, `pub(crate)`, `pub(in crate::a)`.
            let before = code[..at].trim_end();
            tree(declared, &[], before.ends_with("pub") || is_scoped(before), &mut source.imports);
        } else if ITEMS.contains(&word)
            && let Some(&(_, name)) = words.get(index + 1)
            && depth(&code[..at]) == 0
        {
            source.definitions.insert(name.to_owned());
        }
    }
    source
}

fn is_scoped(before: &str) -> bool {
    before.ends_with(')') && before.rfind('(').is_some_and(|open| before[..open].ends_with("pub"))
}

fn depth(code: &str) -> usize {
    code.matches('{').count() - code.matches('}').count()
}

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
            report += &format!("{name}: {}\n", members.join(", "));
        }
    }
    assert!(report.is_empty(), "files that import each other:\n{report}");
}

#[test]
fn parser_reads_use_trees_and_skips_tests_and_strings() {
    let source = parse(
        "//! use crate::doc;\nuse crate::a::{self, b::C as D, e::*};\npub(crate) use x::Y;\n\
         const TEXT: &str = \"use crate::no;\";\nfn f() { struct Inner; let c = '{'; }\n\
         #[cfg(test)]\nmod tests { use super::*; }\nstruct After;\n",
    );
    let imports: Vec<String> = source
        .imports
        .iter()
        .map(|i| format!("{} {} {}", i.path.join("::"), i.name, i.is_reexport))
        .collect();
    let expected =
        ["crate::a a false", "crate::a::b::C D false", "crate::a::e::* * false", "x::Y Y true"];
    assert_eq!(imports, expected);
    let definitions: Vec<&str> = source.definitions.iter().map(String::as_str).collect();
    assert_eq!(definitions, ["After", "TEXT", "f"]);
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
