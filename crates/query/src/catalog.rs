//! The views of a session in dependency order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hasher as _;

use arrow::datatypes::SchemaRef;
use rayon::prelude::*;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use trace_model::MetricSpec;
use trace_model::tables;

use crate::error::{Error, Result, ViewFailure, similar};
use crate::header;
use crate::known_schemas::KnownSchemas;
use crate::params::{ParamValue, Params};
use crate::plan::query_limits::{self, QueryOrigin};
use crate::plan::references::{References, TableColumns};
use crate::prepared::{PreparedPlans, PreparedQuery};
use crate::rust_view::RustView;
use crate::view::{ViewDef, ViewScope, ViewSource, failure_of};

/// A set of views whose needs are all met.
#[derive(Debug, Clone)]
pub struct Catalog {
    views: Vec<ViewDef>,
    by_name: BTreeMap<String, usize>,
    params: BTreeMap<String, ParamValue>,
    schemas: KnownSchemas,
    plans: PreparedPlans,
}

impl Catalog {
    /// Parses and orders views. `rust_views` are the implementations of the sources that are only a header.
    ///
    /// # Errors
    /// The first view, in the order of the sources, whose header is wrong; names that two views share; unknown or
    /// circular needs; a view of single ranks that needs a view of the whole run.
    pub fn new(sources: &[ViewSource<'_>], rust_views: &'static [RustView]) -> Result<Self> {
        let parsed: Vec<Result<ViewDef>> =
            sources.par_iter().map(|source| ViewDef::parse(*source, rust_views)).collect();
        let catalog = Self::of(topological_sort(parsed.into_iter().collect::<Result<_>>()?)?)?;
        catalog.views.iter().try_for_each(|view| catalog.check_shared_computation(view))?;
        Ok(catalog)
    }

    /// Checks that a view is not built on another one that is computed together with it, and that their inputs of the same
    /// name have the same query.
    fn check_shared_computation(&self, view: &ViewDef) -> Result<()> {
        if view.shared_computation().is_none() {
            return Ok(());
        }
        let needed = self.dependency_closure(&[view]);
        if let Some(other) = needed.iter().find(|other| view.is_computed_with(other)) {
            let message = format!("is computed together with `{}`, which it needs", other.name);
            return Err(header::error_at(&view.path, &view.text, "needs", message));
        }
        let inputs = |view: &ViewDef| view.rust.map_or(&[][..], |rust| rust.inputs);
        for other in self.views.iter().filter(|other| view.is_computed_with(other)) {
            let has_other_query = |(name, sql): &&(&str, &str)| {
                inputs(other).iter().any(|(n, s)| n == name && s != sql)
            };
            if let Some((name, _)) = inputs(view).iter().find(has_other_query) {
                let message = format!("its input `{name}` is another query in `{}`", other.name);
                return Err(header::error_at(&view.path, &view.text, "needs", message));
            }
        }
        Ok(())
    }

    /// The catalog of views of which each comes after those it needs.
    fn of(views: Vec<ViewDef>) -> Result<Self> {
        let mut params: BTreeMap<String, ParamValue> = BTreeMap::new();
        for view in &views {
            for param in &view.params {
                let default =
                    params.entry(param.name.clone()).or_insert_with(|| param.default.clone());
                if *default != param.default {
                    let message =
                        format!("`{}` has the default {default} in another file", param.name);
                    return Err(header::error_at(&view.path, &view.text, &param.name, message));
                }
            }
        }
        let by_name: BTreeMap<String, usize> =
            views.iter().enumerate().map(|(i, view)| (view.name.clone(), i)).collect();
        for view in views.iter().filter(|view| view.scope == ViewScope::Rank) {
            let is_of_run = |need: &&String| {
                by_name.get(*need).is_some_and(|&i| views[i].scope == ViewScope::Run)
            };
            if let Some(need) = view.needs.iter().find(is_of_run) {
                let message = format!(
                    "needs `{need}`, which compares ranks: the header must say `scope = \"run\"`"
                );
                return Err(header::error_at(&view.path, &view.text, need, message));
            }
        }
        let (schemas, plans) = (KnownSchemas::default(), PreparedPlans::default());
        Ok(Self { views, by_name, params, schemas, plans })
    }

    /// Adds the schemas of queries, so that those without rows need no plan: for a view in SQL its own, for a view in Rust
    /// those of its inputs, as `view/input`. The text has a line with each name, followed by a line with each column,
    /// indented: its name and its Arrow type, with a question mark if it may have nulls. A query whose schema is missing is
    /// planned.
    #[must_use]
    pub fn with_schemas(self, text: &'static str) -> Self {
        Self { schemas: KnownSchemas::new(text), ..self }
    }

    /// Sets the plans of the queries of views, as [`crate::prepare_plans`] makes them; an empty file removes them. Runs in
    /// memory use them as long as the parameters that a query mentions have their defaults and no relation has changed its
    /// columns; other queries are planned.
    ///
    /// # Errors
    /// If `file` has another format.
    pub fn with_prepared_plans(self, file: &'static [u8]) -> Result<Self> {
        Ok(Self { plans: PreparedPlans::read(file)?, ..self })
    }

    /// Returns whether all parameters have their default values.
    pub(crate) fn are_defaults(&self, params: &HashMap<String, ParamValue>) -> bool {
        self.changed_params(params).next().is_none()
    }

    /// The names of the parameters whose values are not the defaults.
    pub(crate) fn changed_params<'a>(
        &'a self,
        params: &'a HashMap<String, ParamValue>,
    ) -> impl Iterator<Item = &'a str> {
        let changed = params.iter().filter(|(name, value)| self.param(name) != Some(*value));
        changed.map(|(name, _)| name.as_str())
    }

    /// The prepared plans of a query.
    pub(crate) fn prepared_plans(&self, name: &str) -> &[PreparedQuery] {
        self.plans.of(name)
    }

    /// The schema of a query, if it is known without a plan.
    pub(crate) fn known_schema(&self, name: &str) -> Option<SchemaRef> {
        self.schemas.get(name)
    }

    /// All views; each comes after those it needs.
    pub fn views(&self) -> &[ViewDef] {
        &self.views
    }

    /// The view of that name.
    pub fn find(&self, view: &str) -> Option<&ViewDef> {
        self.position(view).map(|i| &self.views[i])
    }

    /// The position of a view in [`Self::views`].
    pub(crate) fn position(&self, view: &str) -> Option<usize> {
        self.by_name.get(view).copied()
    }

    /// The view of that name, or an error that suggests another name.
    pub fn get(&self, view: &str) -> Result<&ViewDef> {
        self.find(view).ok_or_else(|| Error::UnknownView {
            name: view.to_owned(),
            similar: similar(view, self.by_name.keys().map(String::as_str)),
        })
    }

    /// These views and all views that they are built on, each after what it needs.
    pub(crate) fn dependency_closure<'a>(&'a self, views: &[&ViewDef]) -> Vec<&'a ViewDef> {
        let mut names: BTreeSet<&str> = views.iter().map(|view| view.name.as_str()).collect();
        let mut closure: Vec<&ViewDef> = Vec::new();
        for view in self.views.iter().rev() {
            if names.contains(view.name.as_str()) {
                names.extend(view.needs.iter().map(String::as_str));
                closure.push(view);
            }
        }
        closure.reverse();
        closure
    }

    /// The views of single ranks whose rows a reader of `views` needs: those among `views`, and those that views of the whole
    /// run read. Views come after what they need.
    pub(crate) fn rank_views_read_by(&self, views: &[&ViewDef]) -> Vec<&ViewDef> {
        let all = self.dependency_closure(views);
        let mut read: BTreeSet<&str> = views.iter().map(|view| view.name.as_str()).collect();
        for view in all.iter().filter(|view| view.scope == ViewScope::Run) {
            read.extend(view.needs.iter().map(String::as_str));
        }
        let is_read =
            |view: &&ViewDef| view.scope == ViewScope::Rank && read.contains(view.name.as_str());
        all.into_iter().filter(is_read).collect()
    }

    /// The columns of tables that these views and everything they are built on read.
    pub(crate) fn columns_read_by(
        &self,
        views: &[&ViewDef],
    ) -> std::result::Result<TableColumns, ViewFailure> {
        let mut columns = TableColumns::new();
        for view in self.dependency_closure(views) {
            for query in view.queries() {
                let references = References::parse(query).map_err(|e| failure_of(view, e))?;
                for (table, read) in references.table_columns() {
                    columns.entry(table).or_default().extend(read);
                }
            }
        }
        Ok(columns)
    }

    /// The views among `views`, and those that they are built on, whose rows can be computed from the tables of one rank
    /// before it is known where the rank belongs in its run: those of single ranks that readers of `views` need, except those
    /// that read the clock of the run.
    ///
    /// # Errors
    /// If there is no such view.
    pub fn mappable_views(&self, views: &[&str]) -> Result<Vec<&str>> {
        let views = views.iter().map(|view| self.get(view)).collect::<Result<Vec<_>>>()?;
        let mut on_clock: BTreeSet<&str> = BTreeSet::new();
        for view in &self.views {
            // Views come after what they need.
            if view.needs.iter().any(|need| on_clock.contains(need.as_str())) || view.reads_clock()
            {
                on_clock.insert(&view.name);
            }
        }
        let read = self.rank_views_read_by(&views);
        let mappable = read.into_iter().filter(|view| !on_clock.contains(view.name.as_str()));
        Ok(mappable.map(|view| view.name.as_str()).collect())
    }

    /// Returns whether the schema of a view is known without a plan.
    pub fn is_schema_known(&self, view: &str) -> bool {
        self.known_schema(view).is_some()
    }

    /// Distinguishes catalogs by the texts of their views.
    pub fn fingerprint(&self) -> String {
        let mut hash = SipHasher13::new();
        for view in &self.views {
            for text in [&view.path, &view.text] {
                hash.write(&text.len().to_le_bytes());
                hash.write(text.as_bytes());
            }
        }
        format!("{:032x}", hash.finish128().as_u128())
    }

    /// The base tables that a query reads, directly or through views. `query` is SQL or the name of a view. `None` if it
    /// cannot be parsed.
    pub fn tables_read_by(&self, query: &str) -> Option<BTreeSet<&'static str>> {
        let mut names = self.relations_of(query)?;
        let (mut tables, mut views) = (BTreeSet::new(), BTreeSet::new());
        while let Some(name) = names.pop() {
            if let Some(table) = tables::find(&name) {
                tables.insert(table.name);
            } else if let Some(view) = self.find(&name)
                && views.insert(name)
            {
                names.extend(view.needs.iter().cloned());
            }
        }
        Some(tables)
    }

    /// The views that a query reads directly. `query` is SQL or the name of a view. `None` if it cannot be parsed.
    pub fn views_read_by(&self, query: &str) -> Option<BTreeSet<&str>> {
        let names = self.relations_of(query)?;
        let views = names.iter().filter_map(|name| self.find(name));
        Some(views.map(|view| view.name.as_str()).collect())
    }

    /// The tables and views that a query names.
    fn relations_of(&self, query: &str) -> Option<Vec<String>> {
        if let Some(view) = self.find(query) {
            return Some(vec![view.name.clone()]);
        }
        query_limits::check(query, QueryOrigin::User).ok()?;
        let references = References::parse(query).ok()?;
        Some(references.relations().map(|(name, _)| name.to_owned()).collect())
    }

    /// All metrics, in order of their views.
    pub fn metrics(&self) -> Vec<MetricSpec> {
        self.views.iter().flat_map(ViewDef::metrics).collect()
    }

    /// Default of a parameter.
    pub fn param(&self, name: &str) -> Option<&ParamValue> {
        self.params.get(name)
    }

    /// Names of all parameters, sorted.
    pub fn param_names(&self) -> Vec<&str> {
        self.params.keys().map(String::as_str).collect()
    }

    /// A value for a parameter given as text, as on a command line (`short_kernel_us=10`). Its type is that of
    /// the parameter's default.
    ///
    /// # Errors
    /// If no view has the parameter, or the text is not of its type.
    pub fn parse_param(&self, name: &str, text: &str) -> Result<ParamValue> {
        let default = self.param(name).ok_or_else(|| self.unknown_param(name))?;
        default.parse_as_same_type(text).ok_or_else(|| wrong_type(name, default, text))
    }

    /// The values of all parameters: those given, else the defaults. Integers become floats where the default is
    /// a float.
    ///
    /// # Errors
    /// If no view has a parameter, or a value is of another type than the default.
    pub(crate) fn resolve_params(&self, given: &Params) -> Result<HashMap<String, ParamValue>> {
        let mut values: HashMap<String, ParamValue> =
            self.params.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in given.iter() {
            let Some(default) = values.get_mut(name) else { return Err(self.unknown_param(name)) };
            let value = value.widened_to(default);
            if std::mem::discriminant(default) != std::mem::discriminant(&value) {
                return Err(wrong_type(name, default, &value.to_string()));
            }
            *default = value;
        }
        Ok(values)
    }

    /// The given values that differ from the defaults. Sessions with these have the same rows as with all of them.
    #[must_use]
    pub fn without_defaults(&self, given: &Params) -> Params {
        let mut changed = Params::default();
        for (name, value) in given.iter() {
            let default = self.param(name);
            let value = default.map_or_else(|| value.clone(), |default| value.widened_to(default));
            if default != Some(&value) {
                changed.set(name, value);
            }
        }
        changed
    }

    fn unknown_param(&self, name: &str) -> Error {
        Error::UnknownParam { name: name.to_owned(), known: self.param_names().join(", ") }
    }
}

fn wrong_type(name: &str, default: &ParamValue, got: &str) -> Error {
    Error::ParamType { name: name.to_owned(), expected: default.type_name(), got: got.to_owned() }
}

/// Topological order by `needs`; ties keep the order of paths.
fn topological_sort(views: Vec<ViewDef>) -> Result<Vec<ViewDef>> {
    let mut position: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, view) in views.iter().enumerate() {
        let other = position.insert(&view.name, i).map(|other| views[other].path.clone());
        let table = tables::find(&view.name).map(|_| "a table".to_owned());
        if let Some(by) = other.or(table) {
            return Err(Error::DuplicateName {
                path: view.path.clone(),
                name: view.name.clone(),
                by,
            });
        }
    }
    let names: Vec<&str> = position.keys().copied().collect();
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(views.len());
    for view in &views {
        let mut needed = Vec::new();
        for need in &view.needs {
            match position.get(need.as_str()) {
                Some(&view) => needed.push(view),
                None if tables::find(need).is_some() => {}
                None => return Err(view.unknown_need(need, &names)),
            }
        }
        needs.push(needed);
    }
    let mut order = Vec::with_capacity(views.len());
    let mut marks = vec![Mark::New; views.len()];
    for start in 0..views.len() {
        let mut path = Vec::new();
        if let Err(circle) = visit(start, &needs, &mut marks, &mut path, &mut order) {
            return Err(Error::Cycle(circle.into_iter().map(|i| views[i].name.clone()).collect()));
        }
    }
    let mut slots: Vec<Option<ViewDef>> = views.into_iter().map(Some).collect();
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
    use super::{Catalog, ViewSource};

    fn module(needs: &str) -> String {
        format!(
            "--! row = \"x\"\n--! needs = [{needs}]\n--! [columns]\n--! rank = \"rank\"\nSELECT 1 AS rank"
        )
    }

    fn error(sources: &[(&str, &str)]) -> String {
        let sources: Vec<ViewSource<'_>> =
            sources.iter().map(|&(path, text)| ViewSource { path, text }).collect();
        Catalog::new(&sources, &[]).unwrap_err().to_string()
    }

    #[test]
    fn a_need_comes_first_and_names_come_from_paths() {
        let (a, b) = (module("\"b_late\", \"kernels\""), module(""));
        let sources = [
            ViewSource { path: "src/a/early.sql", text: &a },
            ViewSource { path: "src/b/late.sql", text: &b },
        ];
        let catalog = Catalog::new(&sources, &[]).unwrap();
        let names: Vec<&str> = catalog.views().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["b_late", "a_early"]);
    }

    #[test]
    fn a_query_reads_the_tables_of_all_that_its_views_need() {
        let (a, b) = (module("\"b_late\", \"kernels\""), module("\"steps\""));
        let sources = [
            ViewSource { path: "src/a/early.sql", text: &a },
            ViewSource { path: "src/b/late.sql", text: &b },
        ];
        let catalog = Catalog::new(&sources, &[]).unwrap();
        for (query, tables) in [
            ("SELECT 1", &[][..]),
            ("SELECT count(*) FROM Ranks r", &["ranks"]),
            ("SELECT * FROM \"a_early\", ranks", &["kernels", "ranks", "steps"]),
            ("WITH x AS (SELECT * FROM b_late) SELECT 'memcpys' FROM x", &["steps"]),
            ("SELECT * FROM my_kernels", &[]),
        ] {
            assert!(
                catalog.tables_read_by(query).unwrap().into_iter().eq(tables.iter().copied()),
                "{query}"
            );
        }
    }

    #[test]
    fn new_names_the_views_of_a_cycle() {
        let (a, b) = (module("\"y_b\""), module("\"x_a\""));
        assert_eq!(
            error(&[("src/x/a.sql", &a), ("src/y/b.sql", &b)]),
            "views need each other in a cycle: x_a -> y_b -> x_a"
        );
    }

    #[test]
    fn unknown_needs_name_file_line_and_what_was_meant() {
        let a = module("\"kernel\"");
        assert_eq!(
            error(&[("src/x/a.sql", &a)]),
            "src/x/a.sql:2: needs `kernel`, which is neither a table nor a view (did you mean `kernels`?)"
        );
    }

    #[test]
    fn mistakes_in_headers_name_file_and_line() {
        let ok = "--! row = \"x\"\n--! [columns]\n";
        for (text, expected) in [
            ("SELECT 1", "src/x/a.sql:1: a view begins with its header"),
            ("--! row = \"x\"\n--! colour = 1\n", "src/x/a.sql:2: unknown field `colour`"),
            (
                &format!("{ok}--! time = {{ doc = \"t\", unit = \"ns\" }}"),
                "src/x/a.sql:3: `time` has unit `ns`",
            ),
            (&format!("{ok}--! time_ns = \"t\""), "src/x/a.sql:3: `time_ns` must have unit `ns`"),
            (
                &format!("{ok}--! a = {{ doc = \"t\", metric = \"galaxy\" }}"),
                "src/x/a.sql:3: `a` has an unknown scope",
            ),
            (&format!("{ok}--! a = {{ doc = \"t\", metric = \"rank\" }}"), "need a column `rank`"),
            (&format!("--! order = [\"b\"]\n{ok}--! a = \"t\""), "src/x/a.sql:1: order names `b`"),
            (&format!("--! sort = [\"b\"]\n{ok}--! a = \"t\""), "src/x/a.sql:1: sort names `b`"),
            (
                &format!("--! window = \"b\"\n{ok}--! a = \"t\""),
                "src/x/a.sql:1: unknown variant `b`",
            ),
            (
                &format!("{ok}--! rank = {{ doc = \"t\", metric = \"rank\" }}"),
                "must state in `requires` or `when_empty`",
            ),
            (
                &format!("--! requires = [\"operator_shape\"]\n{ok}--! a = \"t\""),
                "src/x/a.sql:1: there is no capability `operator_shape`; did you mean `operator_shapes`?",
            ),
        ] {
            let message = error(&[("src/x/a.sql", text)]);
            assert!(message.contains(expected), "{message}\n  does not contain\n{expected}");
        }
    }

    #[test]
    fn a_name_belongs_to_one_view() {
        let a = module("");
        assert!(error(&[("src/base/kernels.sql", &a)]).ends_with("`kernels` is taken by a table"));
        assert!(
            error(&[("src/a/b_c.sql", &a), ("src/a_b/c.sql", &a)])
                .ends_with("taken by src/a/b_c.sql")
        );
    }
}
