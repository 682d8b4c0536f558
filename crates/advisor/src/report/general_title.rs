//! Titles of rules without a row, for lists of rules: `The GPU is idle N % of the time`.

use minijinja::{Environment, Value as Jinja};
use trace_model::Unit;

use crate::language::expr::{self, Context};
use crate::language::rule::Rule;
use crate::language::text::{TextBody, TextPart};

/// Placeholder for a number.
const NUMBER: &str = "N";
/// Columns of identifiers, which are numbers without a unit.
const NUMBERS: [&str; 4] = ["rank", "device", "step", "stream"];

impl Rule {
    /// The title without a row: `N` for numbers, names of columns for names, and of alternatives the one without a
    /// condition.
    pub fn general_title(&self) -> String {
        let env = environment();
        let title: Vec<&str> = self.title.parts.iter().filter_map(template).collect();
        let title = title.join(" ");
        let names = expr::template_reads(&env, &title).unwrap_or_default();
        let context: Context =
            names.into_iter().map(|name| (name.clone(), self.placeholder(&name))).collect();
        expr::render(&env, &title, &context).unwrap_or_else(|_| self.name.clone())
    }

    fn placeholder(&self, name: &str) -> Jinja {
        let unit = self.metric.columns.iter().find(|(column, _)| column == name).map(|(_, u)| *u);
        let is_number = NUMBERS.contains(&name) || unit.is_some_and(|unit| unit != Unit::None);
        if is_number { NUMBER.into() } else { name.to_uppercase().into() }
    }
}

/// The template of a part, or of the alternative that has no condition.
fn template(part: &TextPart) -> Option<&str> {
    match &part.body {
        TextBody::Template(text) => Some(text),
        TextBody::FirstOf(parts) => {
            let general = parts.iter().find(|part| part.when.is_none());
            template(general.or(parts.first())?)
        }
    }
}

/// An environment whose filters write placeholders.
fn environment<'s>() -> Environment<'s> {
    let mut env = Environment::empty();
    env.add_filter("pct", |_: Jinja| "N %");
    for filter in ["ms", "us", "dur", "bytes", "num", "count"] {
        env.add_filter(filter, |_: Jinja| NUMBER);
    }
    env.add_filter("round", |_: Jinja, _: Option<usize>| NUMBER);
    env.add_filter("ordinal", |_: Jinja| "Nth");
    env.add_filter("plural", |_: Jinja, one: String, many: Option<String>| {
        format!("{NUMBER} {}", many.unwrap_or_else(|| format!("{one}s")))
    });
    env.add_filter("short", |v: Jinja| v);
    env.add_filter("rules_needing", |_: Jinja| "rules");
    env.add_filter("default", |_: Jinja, other: Jinja| other);
    env.add_test("none", |v: Jinja| v.is_none() || v.is_undefined());
    env
}
