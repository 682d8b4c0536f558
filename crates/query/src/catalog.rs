//! All modules, in an order in which each comes after what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rayon::prelude::*;
use trace_model::{MetricSpec, tables};

use crate::error::{Error, Result, similar};
use crate::header;
use crate::module::{Module, Source};
use crate::params::ParamValue;

const SOURCES: &[Source<'static>] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The views that come with the program.
///
/// # Panics
/// If an embedded file is not a valid module, which the tests of this crate rule out.
pub fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> =
        LazyLock::new(|| Catalog::new(SOURCES).unwrap_or_else(|e| panic!("embedded SQL: {e}")));
    &CATALOG
}

/// A set of views whose needs are all met.
#[derive(Debug, Clone)]
pub struct Catalog {
    modules: Vec<Module>,
    by_name: BTreeMap<String, usize>,
    params: BTreeMap<String, ParamValue>,
}

impl Catalog {
    /// Parses and orders modules.
    pub fn new(sources: &[Source<'_>]) -> Result<Self> {
        let parsed: Vec<Result<Module>> = sources.par_iter().map(|s| Module::parse(*s)).collect();
        let modules = in_order(parsed.into_iter().collect::<Result<_>>()?)?;
        let mut params: BTreeMap<String, ParamValue> = BTreeMap::new();
        for module in &modules {
            for param in &module.params {
                let default =
                    params.entry(param.name.clone()).or_insert_with(|| param.default.clone());
                if *default != param.default {
                    let message =
                        format!("`{}` has the default {default} in another file", param.name);
                    return Err(header::error_at(&module.path, &module.text, &param.name, message));
                }
            }
        }
        let by_name = modules.iter().enumerate().map(|(i, m)| (m.name.clone(), i)).collect();
        Ok(Self { modules, by_name, params })
    }

    /// All modules; each comes after those it needs.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The module of a view.
    pub fn find(&self, view: &str) -> Option<&Module> {
        self.by_name.get(view).map(|&i| &self.modules[i])
    }

    /// The module of a view, or an error that suggests another name.
    pub fn get(&self, view: &str) -> Result<&Module> {
        self.find(view).ok_or_else(|| Error::UnknownView {
            name: view.to_owned(),
            similar: similar(view, self.by_name.keys().map(String::as_str)),
        })
    }

    /// The tables that a query may read: those that it names, and those that the views need which it names. Words are looked
    /// at, not SQL, so a name in a text counts as well.
    pub fn tables_read_by(&self, query: &str) -> BTreeSet<&'static str> {
        let query = query.to_lowercase();
        let mut names: Vec<&str> =
            query.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let (mut tables, mut views) = (BTreeSet::new(), BTreeSet::new());
        while let Some(name) = names.pop() {
            if let Some(table) = tables::find(name) {
                tables.insert(table.name);
            } else if let Some(view) = self.find(name)
                && views.insert(name)
            {
                names.extend(view.needs.iter().map(String::as_str));
            }
        }
        tables
    }

    /// All metrics, in order of their views.
    pub fn metrics(&self) -> Vec<MetricSpec> {
        self.modules.iter().flat_map(Module::metrics).collect()
    }

    /// Default of a parameter.
    pub fn param(&self, name: &str) -> Option<&ParamValue> {
        self.params.get(name)
    }

    /// Names of all parameters, sorted.
    pub fn param_names(&self) -> Vec<&str> {
        self.params.keys().map(String::as_str).collect()
    }
}

/// Topological order by `needs`; ties keep the order of paths.
fn in_order(modules: Vec<Module>) -> Result<Vec<Module>> {
    let mut position: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, module) in modules.iter().enumerate() {
        let other = position.insert(&module.name, i).map(|other| modules[other].path.clone());
        let table = tables::find(&module.name).map(|_| "a table".to_owned());
        if let Some(by) = other.or(table) {
            return Err(Error::DuplicateName {
                path: module.path.clone(),
                name: module.name.clone(),
                by,
            });
        }
    }
    let names: Vec<&str> = position.keys().copied().collect();
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(modules.len());
    for module in &modules {
        let mut views = Vec::new();
        for need in &module.needs {
            match position.get(need.as_str()) {
                Some(&view) => views.push(view),
                None if tables::find(need).is_some() => {}
                None => return Err(module.unknown_need(need, &names)),
            }
        }
        needs.push(views);
    }
    let mut order = Vec::with_capacity(modules.len());
    let mut marks = vec![Mark::New; modules.len()];
    for start in 0..modules.len() {
        let mut path = Vec::new();
        if let Err(circle) = visit(start, &needs, &mut marks, &mut path, &mut order) {
            return Err(Error::Cycle(
                circle.into_iter().map(|i| modules[i].name.clone()).collect(),
            ));
        }
    }
    let mut slots: Vec<Option<Module>> = modules.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|i| slots[i].take()).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Depth first; the error is the circle, its first element repeated at the end.
fn visit(
    at: usize,
    needs: &[Vec<usize>],
    marks: &mut [Mark],
    path: &mut Vec<usize>,
    order: &mut Vec<usize>,
) -> Result<(), Vec<usize>> {
    match marks[at] {
        Mark::Done => return Ok(()),
        Mark::Open => {
            let from = path.iter().position(|&i| i == at).unwrap_or(0);
            let mut circle = path[from..].to_vec();
            circle.push(at);
            return Err(circle);
        }
        Mark::New => {}
    }
    marks[at] = Mark::Open;
    path.push(at);
    for &need in &needs[at] {
        visit(need, needs, marks, path, order)?;
    }
    path.pop();
    marks[at] = Mark::Done;
    order.push(at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Catalog, Source};

    fn module(needs: &str) -> String {
        format!(
            "--! row = \"x\"\n--! needs = [{needs}]\n--! [columns]\n--! rank = \"rank\"\nSELECT 1 AS rank"
        )
    }

    fn error(sources: &[(&str, &str)]) -> String {
        let sources: Vec<Source<'_>> =
            sources.iter().map(|&(path, text)| Source { path, text }).collect();
        Catalog::new(&sources).unwrap_err().to_string()
    }

    #[test]
    fn a_need_comes_first_and_names_come_from_paths() {
        let (a, b) = (module("\"b_late\", \"kernels\""), module(""));
        let sources = [
            Source { path: "sql/a/early.sql", text: &a },
            Source { path: "sql/b/late.sql", text: &b },
        ];
        let catalog = Catalog::new(&sources).unwrap();
        let names: Vec<&str> = catalog.modules().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["b_late", "a_early"]);
    }

    #[test]
    fn a_query_reads_the_tables_of_all_that_its_views_need() {
        let (a, b) = (module("\"b_late\", \"kernels\""), module("\"steps\""));
        let sources = [
            Source { path: "sql/a/early.sql", text: &a },
            Source { path: "sql/b/late.sql", text: &b },
        ];
        let catalog = Catalog::new(&sources).unwrap();
        for (query, tables) in [
            ("SELECT 1", &[][..]),
            ("SELECT count(*) FROM Ranks r", &["ranks"]),
            ("SELECT * FROM \"a_early\", ranks", &["kernels", "ranks", "steps"]),
            ("WITH x AS (SELECT * FROM b_late) SELECT 'memcpys' FROM x", &["memcpys", "steps"]),
            ("SELECT * FROM my_kernels", &[]),
        ] {
            assert!(
                catalog.tables_read_by(query).into_iter().eq(tables.iter().copied()),
                "{query}"
            );
        }
    }

    #[test]
    fn circles_are_named() {
        let (a, b) = (module("\"y_b\""), module("\"x_a\""));
        assert_eq!(
            error(&[("sql/x/a.sql", &a), ("sql/y/b.sql", &b)]),
            "views need each other in a circle: x_a -> y_b -> x_a"
        );
    }

    #[test]
    fn unknown_needs_name_file_line_and_what_was_meant() {
        let a = module("\"kernel\"");
        assert_eq!(
            error(&[("sql/x/a.sql", &a)]),
            "sql/x/a.sql:2: needs `kernel`, which is neither a table nor a view (did you mean `kernels`?)"
        );
    }

    #[test]
    fn mistakes_in_headers_name_file_and_line() {
        let ok = "--! row = \"x\"\n--! [columns]\n";
        for (text, expected) in [
            ("SELECT 1", "sql/x/a.sql:1: a module begins with its header"),
            ("--! row = \"x\"\n--! colour = 1\n", "sql/x/a.sql:2: unknown field `colour`"),
            (
                &format!("{ok}--! time = {{ doc = \"t\", unit = \"ns\" }}"),
                "sql/x/a.sql:3: `time` has unit `ns`",
            ),
            (&format!("{ok}--! time_ns = \"t\""), "sql/x/a.sql:3: `time_ns` must have unit `ns`"),
            (
                &format!("{ok}--! a = {{ doc = \"t\", metric = \"galaxy\" }}"),
                "sql/x/a.sql:3: `a` has an unknown scope",
            ),
            (&format!("{ok}--! a = {{ doc = \"t\", metric = \"rank\" }}"), "need a column `rank`"),
            (&format!("--! order = [\"b\"]\n{ok}--! a = \"t\""), "sql/x/a.sql:1: order names `b`"),
            (
                &format!("{ok}--! rank = {{ doc = \"t\", metric = \"rank\" }}"),
                "says in `when_empty`",
            ),
        ] {
            let message = error(&[("sql/x/a.sql", text)]);
            assert!(message.contains(expected), "{message}\n  does not contain\n{expected}");
        }
    }

    #[test]
    fn a_name_belongs_to_one_view() {
        let a = module("");
        assert!(
            error(&[("sql/prelude/kernels.sql", &a)]).ends_with("`kernels` is taken by a table")
        );
        assert!(
            error(&[("sql/a/b_c.sql", &a), ("sql/a_b/c.sql", &a)])
                .ends_with("taken by sql/a/b_c.sql")
        );
    }
}
