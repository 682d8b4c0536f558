//! Definition of a view: its documentation, and the SQL or Rust that computes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use trace_model::suggest::nearest;
use trace_model::{Capability, MetricSpec, Scope, Unit, tables};

use crate::error::{Error, Result, ViewFailure, similar};

use crate::header::{self, Header};
pub use crate::header::{ViewScope, Window};
use crate::params::ParamValue;
use crate::plan::references::References;
use crate::rust_view::{RustView, SharedComputation};

/// A file that declares a view, before it is parsed.
#[derive(Debug, Clone, Copy)]
pub struct ViewSource<'a> {
    /// Path in the crate, with `/` between folders: `sql/gpu/idle_causes.sql`.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// The definition of a view.
#[derive(Debug, Clone)]
pub struct ViewDef {
    /// View name: `<folder>_<file>`; files in `base/` go without the folder.
    pub name: String,
    /// Path in the crate.
    pub path: String,
    /// The question that the rows answer.
    pub question: String,
    /// Completes "one row is ...".
    pub row: String,
    /// The part of the recording that it counts.
    pub window: Option<Window>,
    /// Tables and views that the query reads.
    pub needs: Vec<String>,
    /// Columns that put the rows in their order.
    pub order: Vec<String>,
    /// The measures by which tables for people are sorted, largest first; without any, they keep `order`.
    pub sort: Vec<String>,
    /// Kinds of data whose absence leaves the view without rows, or may do so.
    pub requires: Vec<Capability>,
    /// Why the view may have no rows, in one sentence: what the header states, else that the first of `requires` was not
    /// recorded.
    pub when_empty: String,
    /// Whether a row depends on one rank or on several.
    pub scope: ViewScope,
    /// Parameters that the query reads as `$name`.
    pub params: Vec<Param>,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// The file as it is; in a SQL file, header lines are comments.
    pub text: String,
    /// The Rust that computes it, if it is not SQL.
    pub rust: Option<&'static RustView>,
}

/// A parameter of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Name, with its unit as suffix where there is one: `short_kernel_us`.
    pub name: String,
    /// Value unless one is given; its type is the parameter's type.
    pub default: ParamValue,
    /// One sentence.
    pub doc: String,
}

/// A column of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name, with its unit as suffix.
    pub name: String,
    /// One sentence.
    pub doc: String,
    /// Unit of the value.
    pub unit: Unit,
    /// What a row describes, for columns that are metrics.
    pub metric: Option<Scope>,
}

/// Columns of `ranks` that say how the clock of a rank relates to that of the run.
const CLOCK_COLUMNS: [&str; 2] = ["base_time_ns", "clock"];

impl ViewDef {
    /// Returns whether the view itself reads how the clock of a rank relates to that of the run, or what is known only when
    /// all ranks are read.
    pub(crate) fn reads_clock(&self) -> bool {
        let reads = |table: &str| self.needs.iter().any(|need| need == table);
        // Most views need not be parsed.
        if reads("reading_warnings") || !reads("ranks") {
            return reads("reading_warnings");
        }
        self.queries().into_iter().any(|query| {
            let read = References::parse(query).map(|query| query.table_columns());
            let is_clock =
                |at: &usize| CLOCK_COLUMNS.contains(&tables::Ranks::SPEC.columns[*at].name);
            read.is_ok_and(|read| read.get("ranks").is_some_and(|read| read.iter().any(is_clock)))
        })
    }

    /// Parses one file. The catalog checks `needs`, because it knows the other files.
    pub fn parse(source: ViewSource<'_>, rust_views: &'static [RustView]) -> Result<Self> {
        let ViewSource { path, text } = source;
        let Header {
            question,
            row,
            window,
            sort,
            needs,
            order,
            requires,
            when_empty,
            scope,
            params,
            columns,
        } = header::parse(path, text)?;
        let wrong = |word: &str, message: String| Err(header::error_at(path, text, word, message));

        let name = view_name(path);
        let rust = if header::is_rust_view(path) {
            let Some(rust) = rust_views.iter().find(|view| view.name == name) else {
                return wrong("row", format!("no Rust view is called `{name}`"));
            };
            Some(rust)
        } else {
            None
        };

        let mut parsed_columns: Vec<Column> = Vec::with_capacity(columns.0.len());
        for (name, column) in columns.0 {
            let Some(unit) = Unit::parse(&column.unit) else {
                let known = Unit::ALL.map(Unit::as_str).join(", ");
                return wrong(
                    &name,
                    format!("`{name}` has unit `{}`; known are{known}", column.unit),
                );
            };
            if let Some(suffix) = unit.suffix()
                && !unit.is_stated_by(&name)
            {
                return wrong(
                    &name,
                    format!("`{name}` has unit `{unit}`: its name must end in `{suffix}`"),
                );
            }
            for other in [Unit::Ns, Unit::Ratio, Unit::Count, Unit::GbPerS] {
                if other != unit && other.is_stated_by(&name) {
                    return wrong(&name, format!("`{name}` must have unit `{other}`"));
                }
            }
            let metric = match column.metric {
                None => None,
                Some(text) => match Scope::parse(&text) {
                    Some(scope) => Some(scope),
                    None => return wrong(&name, format!("`{name}` has an unknown scope `{text}`")),
                },
            };
            parsed_columns.push(Column { name, doc: column.doc, unit, metric });
        }
        for key in parsed_columns.iter().filter_map(|c| c.metric).flat_map(Scope::keys) {
            if !parsed_columns.iter().any(|c| c.name == *key) {
                return wrong("metric", format!("metrics of this scope need a column `{key}`"));
            }
        }
        for (key, names) in [("order", &order), ("sort", &sort)] {
            for column in names {
                if !parsed_columns.iter().any(|c| c.name == *column) {
                    return wrong(key, format!("{key} names `{column}`, which is not a column"));
                }
            }
        }
        let mut capabilities = Vec::with_capacity(requires.len());
        for need in &requires {
            let Some(capability) = Capability::parse(need) else {
                let help = nearest(need, Capability::ALL.iter().map(|known| known.as_str()));
                let help = help.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return wrong(need, format!("there is no capability `{need}`{help}"));
            };
            capabilities.push(capability);
        }
        let has_metric = parsed_columns.iter().any(|c| c.metric.is_some());
        if has_metric && when_empty.is_none() && capabilities.is_empty() {
            return wrong(
                "row",
                "a view with metrics must state in `requires` or `when_empty` why it may have no rows"
                    .to_owned(),
            );
        }
        let not_recorded = || capabilities.first().map(|first| first.reason());
        let when_empty = when_empty.or_else(not_recorded).unwrap_or_default();
        let mut parsed_params = Vec::with_capacity(params.0.len());
        for (name, param) in params.0 {
            let Some(default) = ParamValue::from_toml(&param.default) else {
                return wrong(
                    &name,
                    format!("`{name}`: a default is an integer, a float, a boolean or a string"),
                );
            };
            parsed_params.push(Param { name, default, doc: param.doc });
        }
        Ok(Self {
            name,
            path: path.to_owned(),
            question,
            row,
            window,
            needs,
            order,
            sort,
            requires: capabilities,
            when_empty,
            scope,
            params: parsed_params,
            columns: parsed_columns,
            text: text.to_owned(),
            rust,
        })
    }

    /// Folder of the file: `gpu`, `comm`, `base`.
    pub fn topic(&self) -> &str {
        self.path.rsplit('/').nth(1).unwrap_or_default()
    }

    /// The queries it consists of: its own text, or the inputs of its Rust.
    pub fn queries(&self) -> Vec<&str> {
        match self.rust {
            Some(rust) => rust.inputs.iter().map(|(_, sql)| *sql).collect(),
            None => vec![&self.text],
        }
    }

    /// The computation that it shares with other views.
    pub(crate) fn shared_computation(&self) -> Option<&'static SharedComputation> {
        self.rust?.shared_computation()
    }

    /// Returns whether another view shares its computation.
    pub(crate) fn is_computed_with(&self, other: &Self) -> bool {
        let name = |view: &Self| view.shared_computation().map(|shared| shared.name);
        self.name != other.name && name(self).is_some() && name(self) == name(other)
    }

    /// The text of a SQL view with empty lines in place of the header, so that places in it stay what they are.
    pub(crate) fn sql_text(&self) -> String {
        let mut sql = String::with_capacity(self.text.len());
        for line in self.text.split_inclusive('\n') {
            sql.push_str(if line.starts_with("--!") { "\n" } else { line });
        }
        sql
    }

    /// Names of the tables and views that its queries read.
    ///
    /// # Errors
    /// If a query cannot be parsed.
    pub fn relations_read(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for query in self.queries() {
            let references = References::parse(query).map_err(Error::Engine)?;
            names.extend(references.unqualified_relations().map(str::to_owned));
        }
        Ok(names)
    }

    /// The metrics among the columns.
    pub fn metrics(&self) -> impl Iterator<Item = MetricSpec> {
        self.columns.iter().filter_map(|column| {
            Some(MetricSpec {
                view: self.name.clone(),
                column: column.name.clone(),
                unit: column.unit,
                scope: column.metric?,
                doc: column.doc.clone(),
                columns: self.units(),
                requires: self.requires.clone(),
            })
        })
    }

    /// The unit that the header declares for a column; of a column that it does not declare, the unit that the name states.
    pub fn unit_of(&self, column: &str) -> Unit {
        let declared = self.columns.iter().find(|declared| declared.name == column);
        declared.map_or_else(|| Unit::of_undeclared(column), |declared| declared.unit)
    }

    /// Names and units of all columns, in order.
    pub fn units(&self) -> Vec<(String, Unit)> {
        self.columns.iter().map(|c| (c.name.clone(), c.unit)).collect()
    }

    pub(crate) fn unknown_need(&self, need: &str, views: &[&str]) -> Error {
        let names = tables::TABLES.iter().map(|t| t.name).chain(views.iter().copied());
        Error::UnknownNeed {
            path: self.path.clone(),
            line: header::line_of_word(&self.path, &self.text, need),
            need: need.to_owned(),
            similar: similar(need, names),
        }
    }
}

/// `src/gpu/idle_causes.sql` is `gpu_idle_causes`, `src/base/events.sql` is `events`.
fn view_name(path: &str) -> String {
    let path = path.strip_prefix("src/").unwrap_or(path);
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    stem.strip_prefix("base/").unwrap_or(stem).replace('/', "_")
}

/// Adds the name of the view whose query or code failed. The innermost view is the one to name.
pub(crate) fn in_view(view: &ViewDef, error: DataFusionError) -> DataFusionError {
    failure_of(view, error).into()
}

/// As [`in_view`], as what can be kept and returned again.
pub(crate) fn failure_of(view: &ViewDef, error: DataFusionError) -> ViewFailure {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<ViewFailure>() {
            Ok(failure) => *failure,
            Err(inner) => new_failure(view, DataFusionError::External(inner)),
        },
        source => new_failure(view, source),
    }
}

fn new_failure(view: &ViewDef, source: DataFusionError) -> ViewFailure {
    ViewFailure { view: view.name.clone(), source: Arc::new(source) }
}
