//! A view as one query over base tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::view::ViewDef;

impl Catalog {
    /// The query that a view is, with the views it needs as common table expressions, each after those it needs.
    /// It runs on a session, whose parameters it reads as `$name`. What Rust computes is named in a comment and
    /// read by its name.
    ///
    /// # Errors
    /// If there is no such view.
    pub fn inlined_sql(&self, view: &str) -> Result<String> {
        let module = self.get(view)?;
        let mut text = format!("-- {}: one row is {}\n", module.name, module.row);
        if module.rust.is_some() {
            let _ = writeln!(
                text,
                "-- computed in Rust, from the rows of these queries ({})",
                module.path
            );
            for query in module.queries() {
                let _ = write!(text, "\n{};\n", trimmed(query));
            }
            return Ok(text);
        }
        let mut needed = BTreeSet::new();
        self.collect(module, &mut needed);
        // In the catalog's order each view comes after those it needs.
        let needed: Vec<&ViewDef> =
            self.views().iter().filter(|m| needed.contains(m.name.as_str())).collect();
        for native in needed.iter().filter(|m| m.rust.is_some()) {
            let _ = writeln!(text, "-- {} is computed in Rust ({})", native.name, native.path);
        }
        let params = needed.iter().copied().chain([module]).flat_map(|m| &m.params);
        let mut told = BTreeSet::new();
        for param in params.filter(|p| told.insert(p.name.as_str())) {
            let _ =
                writeln!(text, "-- ${}: {} (--set {0}={})", param.name, param.doc, param.default);
        }
        let parts: Vec<String> = needed
            .iter()
            .filter(|m| m.rust.is_none())
            .map(|m| format!("{} AS (\n{}\n)", m.name, trimmed(&m.text)))
            .collect();
        let own = trimmed(&module.text);
        if parts.is_empty() {
            let _ = writeln!(text, "{own}");
        } else {
            // The view itself may begin with expressions of its own: it is one of them, so that names of
            // these hide nothing.
            let _ = write!(
                text,
                "WITH {},\n{} AS (\n{own}\n)\nSELECT * FROM {}",
                parts.join(",\n"),
                module.name,
                module.name
            );
            if !module.order.is_empty() {
                let _ = write!(text, " ORDER BY {}", module.order.join(", "));
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// Names of the views that a SQL view needs, those that its views need included. What Rust computes is read
    /// as it is.
    fn collect<'a>(&'a self, module: &'a ViewDef, names: &mut BTreeSet<&'a str>) {
        for need in &module.needs {
            if let Some(needed) = self.find(need)
                && names.insert(&needed.name)
                && needed.rust.is_none()
            {
                self.collect(needed, names);
            }
        }
    }
}

/// A query without the header that documents it.
fn trimmed(query: &str) -> String {
    let lines: Vec<&str> = query.lines().filter(|line| !line.starts_with("--!")).collect();
    lines.join("\n").trim().trim_end_matches(';').trim_end().to_owned()
}
