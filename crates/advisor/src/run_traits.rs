//! Traits of the run that all texts and expressions of rules may read: `run.vendor`, `run.is_training`.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value as Jinja;
use minijinja::value::Object;
use trace_model::{MetricTable, Unit, Value};

use crate::expr::{self, Context, RUN};
use crate::file_schema::Cell;

/// The view whose one row describes the run.
pub(crate) const RUN_TRAITS_VIEW: &str = "run_traits";

/// What is known of a run. A trait that is unknown has no value, like a column of a row without one.
#[derive(Debug)]
pub(crate) struct RunTraits(Jinja);

impl Default for RunTraits {
    fn default() -> Self {
        Self::of(Context::new())
    }
}

impl RunTraits {
    /// The row of [`RUN_TRAITS_VIEW`]; without it nothing is known.
    pub(crate) fn read(tables: &[MetricTable]) -> Self {
        let table = tables.iter().find(|t| t.view == RUN_TRAITS_VIEW);
        let row = table.and_then(|t| Some((t, t.rows.first()?)));
        row.map_or_else(Self::default, |(table, row)| Self::of(expr::context(&table.columns, row)))
    }

    /// The traits that a test of a rule states.
    pub(crate) fn of_test(stated: &BTreeMap<String, Cell>) -> Self {
        Self::of(stated.iter().map(|(name, c)| (name.clone(), expr::value(&c.value()))).collect())
    }

    fn of(traits: Context) -> Self {
        Self(Jinja::from_object(Traits(traits)))
    }

    /// The names that texts and expressions see for a row.
    pub(crate) fn context(&self, columns: &[(String, Unit)], row: &[Value]) -> Context {
        let mut context = expr::context(columns, row);
        context.insert(RUN.to_owned(), self.0.clone());
        context
    }
}

/// A trait that is not there has no value, rather than being undefined: `is none` holds.
#[derive(Debug)]
struct Traits(Context);

impl Object for Traits {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let known = key.as_str().and_then(|name| self.0.get(name));
        Some(known.cloned().unwrap_or_else(|| Jinja::from(())))
    }
}

#[cfg(test)]
mod tests {
    use super::RunTraits;
    use crate::expr::{environment, render};

    #[test]
    fn unknown_trait_is_none() {
        let context = RunTraits::default().context(&[], &[]);
        let text = "{{ run.is_training is none }} {{ 1 if run.is_training is not none else 2 }}";
        assert_eq!(render(&environment(), text, &context).as_deref(), Ok("True 2"));
    }
}
