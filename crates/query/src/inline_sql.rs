//! A view as one query: all that it is made of, down to the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::module::Module;

impl Catalog {
    /// The query that a view is, with the views it needs as common table expressions, each after those it needs.
    /// It runs on a session, whose parameters it reads as `$name`. What Rust computes is named in a comment and
    /// read by its name.
    ///
    /// # Errors
    /// If there is no such view.
    pub fn unfolded(&self, view: &str) -> Result<String> {
        let module = self.get(view)?;
        let mut text = format!("-- {}: one row is {}\n", module.name, module.row);
        if module.is_native() {
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
        let needed: Vec<&Module> =
            self.modules().iter().filter(|m| needed.contains(m.name.as_str())).collect();
        for native in needed.iter().filter(|m| m.is_native()) {
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
            .filter(|m| !m.is_native())
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
    fn collect<'a>(&'a self, module: &'a Module, names: &mut BTreeSet<&'a str>) {
        for need in &module.needs {
            if let Some(needed) = self.find(need)
                && names.insert(&needed.name)
                && !needed.is_native()
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

#[cfg(test)]
mod tests {
    use crate::catalog::catalog;

    #[test]
    fn each_view_comes_after_those_it_needs() {
        let text = catalog().unfolded("gpu_utilization").unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
        assert!(at("device_work AS (") < at("gpu_utilization AS ("), "{text}");
        assert!(!text.contains("--!"), "{text}");
        assert!(text.ends_with("SELECT * FROM gpu_utilization ORDER BY rank, device\n"), "{text}");
        let native = catalog().unfolded("critical_path").unwrap();
        assert!(native.contains("computed in Rust"), "{native}");
        assert!(catalog().unfolded("no_such_view").is_err());
    }
}
