//! Expressions and templates over the columns of a row (minijinja with a closed set of filters).
//!
//! Rule files come from strangers: there are no loops to speak of (fuel), no includes, no globals.

use std::borrow::Cow;
use std::collections::BTreeMap;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Expression, Value as Jinja};
use trace_model::time::{NS_PER_MS, NS_PER_US, human};
use trace_model::{Unit, Value};

/// Instructions that one expression or template may take.
const FUEL: u64 = 20_000;

/// Names that messages may use besides the columns of their row.
pub(crate) const EXTRA_NAMES: [&str; 3] = ["value", "threshold", "severity"];

/// An environment with our filters only.
pub(crate) fn environment<'s>() -> Environment<'s> {
    let mut env = Environment::empty();
    env.set_fuel(Some(FUEL));
    env.add_filter("pct", |v: Jinja| number(&v, |x| format!("{} %", decimals(x * 100.0, 1))));
    env.add_filter("ms", |v: Jinja| {
        number(&v, |x| format!("{} ms", decimals(x / NS_PER_MS as f64, 2)))
    });
    env.add_filter("us", |v: Jinja| {
        number(&v, |x| format!("{} us", decimals(x / NS_PER_US as f64, 1)))
    });
    env.add_filter("dur", |v: Jinja| number(&v, human));
    env.add_filter("bytes", |v: Jinja| number(&v, bytes));
    env.add_filter("num", |v: Jinja| number(&v, |x| decimals(x, 2)));
    env.add_filter("round", |v: Jinja, digits: Option<usize>| {
        number(&v, |x| decimals(x, digits.unwrap_or(0).min(9)))
    });
    env.add_filter("short", |v: Jinja| short(&v.to_string()).into_owned());
    env.add_filter(
        "default",
        |v: Jinja, other: Jinja| {
            if v.is_undefined() || v.is_none() { other } else { v }
        },
    );
    env.add_test("none", |v: Jinja| v.is_none());
    env.add_test("number", |v: Jinja| v.is_number());
    env
}

/// Names of kernels may fill a page: their beginning tells them apart.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A number in words; `-` where there is none.
fn number(value: &Jinja, write: impl Fn(f64) -> String) -> String {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).map_or_else(|_| "-".to_owned(), write),
        _ => "-".to_owned(),
    }
}

/// At most `digits` decimals, none of them a trailing zero.
fn decimals(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1024.0 {
            return format!("{} {unit}", decimals(value, usize::from(unit != "B")));
        }
        value /= 1024.0;
    }
    format!("{} TiB", decimals(value, 1))
}

/// A metric's value as a person reads it.
pub(crate) fn in_words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", decimals(value * 100.0, 1)),
        Unit::Ns => human(value),
        Unit::Bytes => bytes(value),
        Unit::GbPerS => format!("{} GB/s", decimals(value, 1)),
        Unit::None | Unit::Count | Unit::Number => decimals(value, 2),
    }
}

/// The names an expression or template sees.
pub(crate) type Context = BTreeMap<String, Jinja>;

/// The context as a minijinja value.
fn values(context: &Context) -> Jinja {
    Jinja::from_pairs(context.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

/// The columns of a row.
pub(crate) fn context(columns: &[(String, Unit)], row: &[Value]) -> Context {
    columns
        .iter()
        .zip(row)
        .map(|((name, _), value)| {
            let value = match value {
                Value::Null => Jinja::from(()),
                Value::Bool(v) => Jinja::from(*v),
                Value::Int(v) => Jinja::from(*v),
                Value::Float(v) => Jinja::from(*v),
                Value::Text(v) => Jinja::from(v.as_str()),
            };
            (name.clone(), value)
        })
        .collect()
}

/// A compiled expression that knows which columns it reads.
pub(crate) struct Formula<'e, 's> {
    expression: Expression<'e, 's>,
    reads: Vec<String>,
    handles_null: bool,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// The row has no value in this column.
    Null(String),
    /// It could not be computed.
    Failed(String),
}

impl NoValue {
    /// As part of a sentence.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Null(column) => format!("`{column}` has no value"),
            Self::Failed(error) => error.clone(),
        }
    }
}

impl<'e, 's> Formula<'e, 's> {
    pub(crate) fn new(env: &'e Environment<'s>, text: &'s str) -> Result<Self, Error> {
        let expression = env.compile_expression(text)?;
        let mut reads: Vec<String> = expression.undeclared_variables(false).into_iter().collect();
        reads.sort();
        let handles_null = ["is none", "is not none", "default"].iter().any(|w| text.contains(w));
        Ok(Self { expression, reads, handles_null })
    }

    /// Names it uses, sorted.
    pub(crate) fn reads(&self) -> &[String] {
        &self.reads
    }

    /// Its value. Reading a column without a value gives none, unless the expression provides for
    /// it (`is none`, `default`): a comparison with nothing must not pass for an answer.
    fn eval(&self, context: &Context) -> Result<Jinja, NoValue> {
        if !self.handles_null {
            let null = self.reads.iter().find(|n| context.get(*n).is_none_or(Jinja::is_none));
            if let Some(name) = null {
                return Err(NoValue::Null(name.clone()));
            }
        }
        self.expression.eval(values(context)).map_err(|e| NoValue::Failed(describe(&e)))
    }

    pub(crate) fn truth(&self, context: &Context) -> Result<bool, NoValue> {
        self.eval(context).map(|v| v.is_true())
    }

    /// Its number; infinite and undefined results are failures.
    pub(crate) fn number(&self, context: &Context) -> Result<f64, NoValue> {
        let value = self.eval(context)?;
        f64::try_from(value)
            .ok()
            .filter(|v| v.is_finite())
            .ok_or_else(|| NoValue::Failed("the estimate is not a number".to_owned()))
    }
}

/// Fills a template; surrounding white space goes.
pub(crate) fn render(
    env: &Environment<'_>,
    text: &str,
    context: &Context,
) -> Result<String, String> {
    env.render_str(text, values(context)).map(|s| s.trim().to_owned()).map_err(|e| describe(&e))
}

/// The mistake in a template that shows only when it is filled, such as an unknown filter: tried
/// with a number under each of `names`.
pub(crate) fn probe(env: &Environment<'_>, text: &str, names: &[String]) -> Option<Error> {
    let context: Context = names.iter().map(|n| (n.clone(), 1.5.into())).collect();
    env.render_str(text, values(&context)).err().filter(is_mistake)
}

/// Names a template uses, sorted.
pub(crate) fn template_reads(env: &Environment<'_>, text: &str) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = env
        .template_from_named_str("text", text)?
        .undeclared_variables(false)
        .into_iter()
        .collect();
    names.sort();
    Ok(names)
}

/// Whether an error shows a mistake in the text, not in the values it was tried with.
fn is_mistake(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod
            | ErrorKind::SyntaxError
            | ErrorKind::MissingArgument
            | ErrorKind::TooManyArguments
            | ErrorKind::OutOfFuel
    )
}

/// An error of minijinja in one line.
pub(crate) fn describe(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, Formula, NoValue, environment, render};
    use minijinja::Value as Jinja;

    fn row() -> Context {
        [
            ("share_ratio".to_owned(), Jinja::from(0.285)),
            ("dur_ns".to_owned(), Jinja::from(28_500_000_i64)),
            ("used_bytes".to_owned(), Jinja::from(3_i64 << 30)),
            ("name".to_owned(), Jinja::from("gemm")),
            ("absent".to_owned(), Jinja::from(())),
        ]
        .into()
    }

    #[test]
    fn filters_speak_in_units() {
        for (text, expected) in [
            ("{{ share_ratio|pct }}", "28.5 %"),
            ("{{ dur_ns|dur }} {{ dur_ns|ms }} {{ dur_ns|us }}", "28.5 ms 28.5 ms 28500 us"),
            ("{{ used_bytes|bytes }}", "3 GiB"),
            ("{{ 0.5|pct }} {{ 2.0|num }} {{ 2.345|num }}", "50 % 2 2.35"),
            ("{{ absent|pct }} {{ name|ms }} {{ absent|default('?') }}", "- - ?"),
            ("{% if absent is none %}a{% else %}b{% endif %}", "a"),
        ] {
            assert_eq!(render(&environment(), text, &row()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nothing_compared_is_no_answer() {
        let env = environment();
        let formula = Formula::new(&env, "absent < 1").unwrap();
        assert_eq!(formula.truth(&row()), Err(NoValue::Null("absent".to_owned())));
        let formula = Formula::new(&env, "absent is none or absent < 1").unwrap();
        assert_eq!(formula.truth(&row()), Ok(true));
        let formula = Formula::new(&env, "share_ratio / 0").unwrap();
        assert!(formula.number(&row()).is_err());
    }

    #[test]
    fn a_hostile_template_ends() {
        let nested = "{% for a in [1]*90 %}{% for b in [1]*90 %}{% for c in [1]*90 %}x\
                      {% endfor %}{% endfor %}{% endfor %}";
        assert!(render(&environment(), nested, &row()).unwrap_err().contains("fuel"));
    }
}
