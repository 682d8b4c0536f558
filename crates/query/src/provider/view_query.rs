//! The queries that views consist of.

use std::borrow::Cow;

use bytes::Bytes;

use crate::prepared;
use crate::view::ViewDef;

/// A query that a view consists of: its own, or the input of that name of a view in Rust.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewQuery {
    pub(super) view: &'static ViewDef,
    pub(super) input: Option<&'static (&'static str, &'static str)>,
}

impl ViewQuery {
    /// All queries of a view.
    pub(crate) fn of(view: &'static ViewDef) -> Vec<Self> {
        match view.rust {
            Some(_) => Self::inputs(view).map(|(_, query)| query).collect(),
            None => vec![Self::of_sql(view)],
        }
    }

    /// The inputs of a view in Rust by name.
    pub(super) fn inputs(view: &'static ViewDef) -> impl Iterator<Item = (&'static str, Self)> {
        let inputs = view.rust.map_or(&[][..], |rust| rust.inputs);
        inputs.iter().map(move |input| (input.0, Self { view, input: Some(input) }))
    }

    /// The query of a view in SQL.
    pub(super) fn of_sql(view: &'static ViewDef) -> Self {
        Self { view, input: None }
    }

    /// Its name among the schemas and prepared plans of the catalog.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self.input {
            Some((name, _)) => Cow::Owned(format!("{}/{name}", self.view.name)),
            None => Cow::Borrowed(&self.view.name),
        }
    }

    pub(super) fn sql(self) -> Cow<'static, str> {
        match self.input {
            Some((_, sql)) => Cow::Borrowed(sql),
            None => Cow::Owned(self.view.sql_text()),
        }
    }

    /// The text of the query. The text of a SQL view begins with its header.
    pub(super) fn text(self) -> &'static str {
        self.input.map_or(self.view.text.as_str(), |&(_, sql)| sql)
    }

    /// The columns by which its rows are sorted.
    pub(super) fn order(self) -> &'static [String] {
        match self.input {
            Some(_) => &[],
            None => &self.view.order,
        }
    }

    pub(super) fn digest(self) -> Bytes {
        // The number of lines of the header does not matter.
        prepared::digest(self.sql().trim_start(), self.order())
    }
}
