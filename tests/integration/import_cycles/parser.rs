//! Reads the imports and definitions of a Rust file. It knows comments, strings, braces and use trees, and nothing of
//! the rest of the language: names that macros define are unknown to it.

use std::collections::BTreeSet;

/// One `use` of one name.
#[derive(Debug, PartialEq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name in the importing module; `*` for a glob.
    pub(super) name: String,
    pub(super) is_reexport: bool,
}

/// A file as a module.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) imports: Vec<Import>,
    pub(super) definitions: BTreeSet<String>,
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
        } else if let Some(escape) = rest.strip_prefix("'\\") {
            escape.find('\'').map_or(rest.len(), |end| end + 3).max(4)
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

pub(super) fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

/// Imports of a file, and the names that it defines outside of braces.
pub(super) fn parse(text: &str) -> Source {
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
