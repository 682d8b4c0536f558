//! Expressions and templates over the columns of a row (minijinja with a closed set of filters).
//!
//! Rule files are untrusted: [`template_syntax`](crate::template_syntax) restricts the language, and this module limits
//! the length of a rendered text and the instructions that rendering takes (fuel).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Expression, Template, Value as Jinja};
use trace_model::number::thousands;
use trace_model::time::{NS_PER_MS, NS_PER_US, human};
use trace_model::{Row, Unit, Value};

use crate::language::template_syntax::{
    Mistake, RULES_NEEDING, check_expression, check_template, describe,
};

/// Instructions that one expression or template may take.
const FUEL: u64 = 20_000;

/// Maximum bytes of a rendered text. Texts include values from the row, and names in traces can have any length.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Names that messages may use besides the columns of their row.
pub(crate) const EXTRA_NAMES: [&str; 3] = ["value", "threshold", "severity"];

/// Name of the traits in texts and expressions.
pub(crate) const RUN: &str = "run";

/// The text that stands for a value that the row does not have.
pub(crate) const NO_VALUE: &str = "(not recorded)";

/// The trait that a name refers to: `vendor` for `run.vendor`.
pub(crate) fn trait_of(name: &str) -> Option<&str> {
    name.strip_prefix(RUN)?.strip_prefix('.')
}

/// An environment with the filters of rules only.
pub(crate) fn environment<'s>() -> Environment<'s> {
    let mut env = Environment::empty();
    env.set_fuel(Some(FUEL));
    // If the text of a rule does not handle a missing value, the report does not print `none`.
    env.set_formatter(|out, state, value| {
        if value.is_none() {
            out.write_str(NO_VALUE).map_err(Error::from)
        } else {
            minijinja::escape_formatter(out, state, value)
        }
    });
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
    env.add_filter("count", |v: Jinja| number(&v, |x| thousands(x.round() as i64)));
    env.add_filter("ordinal", |v: Jinja| number(&v, ordinal));
    env.add_filter("plural", |v: Jinja, one: String, many: Option<String>| plural(&v, &one, many));
    env.add_filter("short", |v: Jinja| {
        if v.is_none() || v.is_undefined() {
            NO_VALUE.to_owned()
        } else {
            short(&v.to_string()).into_owned()
        }
    });
    env.add_filter(
        "default",
        |v: Jinja, other: Jinja| {
            if v.is_undefined() || v.is_none() { other } else { v }
        },
    );
    env.add_filter(RULES_NEEDING, |v: Jinja| format!("all whose `needs` list `{v}`"));
    env.add_test("none", |v: Jinja| v.is_none());
    env.add_test("number", |v: Jinja| v.is_number());
    env
}

/// Shortens a name: names of kernels may fill a page, and their beginning distinguishes them.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A formatted number; `-` if the value is not a number.
fn number(value: &Jinja, write: impl Fn(f64) -> String) -> String {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).map_or_else(|_| "-".to_owned(), write),
        _ => "-".to_owned(),
    }
}

/// `1st`, `2nd`, `11th`.
fn ordinal(value: f64) -> String {
    let n = value.round() as i64;
    let suffix = match (n.abs() % 10, n.abs() % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// `1 hole`, `6,093 holes`: a number, also one that a filter has formatted, with its noun.
fn plural(value: &Jinja, one: &str, many: Option<String>) -> String {
    if value.is_none() || value.is_undefined() {
        return format!("an unknown number of {}", many.unwrap_or_else(|| format!("{one}s")));
    }
    let text = value.to_string();
    let text = text.parse().map_or(text, thousands);
    let word = match many {
        _ if text.parse() == Ok(1.0) => one.to_owned(),
        Some(many) => many,
        None => format!("{one}s"),
    };
    format!("{text} {word}")
}

/// At most `digits` decimals, without trailing zeros.
pub(crate) fn decimals(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

pub(crate) fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1024.0 {
            return format!("{} {unit}", decimals(value, usize::from(unit != "B")));
        }
        value /= 1024.0;
    }
    format!("{} TiB", decimals(value, 1))
}

/// The formatted value of a metric.
pub(crate) fn in_words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", decimals(value * 100.0, 1)),
        Unit::Ns => human(value),
        Unit::Bytes => bytes(value),
        Unit::GbPerS => format!("{} GB/s", decimals(value, 1)),
        Unit::None | Unit::Count | Unit::Number => decimals(value, 2),
    }
}

/// The names that an expression sees.
pub(crate) trait Names {
    fn lookup(&self, name: &str) -> Option<Jinja>;
}

/// The names that a template sees.
pub(crate) type Context = BTreeMap<String, Jinja>;

impl Names for Context {
    fn lookup(&self, name: &str) -> Option<Jinja> {
        self.get(name).cloned()
    }
}

/// The columns of a row, and the traits of the run. Expressions read few columns, so no map of all columns is built.
pub(crate) struct RowNames<'r> {
    pub(crate) row: Row<'r>,
    pub(crate) run: &'r Jinja,
}

impl Names for RowNames<'_> {
    fn lookup(&self, name: &str) -> Option<Jinja> {
        if name == RUN {
            return Some(self.run.clone());
        }
        self.row.get(name).map(value)
    }
}

/// The context as a minijinja value.
fn values(context: &Context) -> Jinja {
    Jinja::from_pairs(context.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

/// The columns of a row.
pub(crate) fn context(row: Row<'_>) -> Context {
    row.cells().map(|(name, cell)| (name.to_owned(), value(cell))).collect()
}

/// A value of a row.
pub(crate) fn value(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(v) => Jinja::from(*v),
        Value::Int(v) => Jinja::from(*v),
        Value::Float(v) => Jinja::from(*v),
        Value::Text(v) => Jinja::from(v.as_str()),
    }
}

/// Returns the value of a column or of a trait such as `run.vendor`.
fn value_of(context: &Context, name: &str) -> Option<Jinja> {
    match trait_of(name) {
        Some(name) => context.get(RUN).and_then(|run| run.get_attr(name).ok()),
        None => context.get(name).cloned(),
    }
}

/// Returns whether a column or trait has a value.
fn has_value(context: &Context, name: &str) -> bool {
    value_of(context, name).is_some_and(|v| !v.is_none() && !v.is_undefined())
}

/// Fails if any factor is text, because minijinja multiplies text by repeating it.
fn check_factors(factors: &[String], context: &Context) -> Result<(), String> {
    let is_text =
        |name: &&String| value_of(context, name).is_some_and(|v| v.kind() == ValueKind::String);
    match factors.iter().find(is_text) {
        Some(name) => Err(format!("`{name}` is text, which cannot be multiplied")),
        None => Ok(()),
    }
}

/// A compiled expression and the columns that it reads.
pub(crate) struct Formula<'e, 's> {
    expression: Expression<'e, 's>,
    reads: Vec<String>,
    factors: Vec<String>,
    handles_null: bool,
}

/// Reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// The row has no value in this column.
    Null(String),
    /// The evaluation failed.
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
    pub(crate) fn new(env: &'e Environment<'s>, text: &'s str) -> Result<Self, Mistake> {
        let factors = check_expression(text)?.factors;
        let expression = env.compile_expression(text)?;
        let mut reads: Vec<String> = expression.undeclared_variables(true).into_iter().collect();
        reads.sort();
        let handles_null = ["is none", "is not none", "default"].iter().any(|w| text.contains(w));
        Ok(Self { expression, reads, factors, handles_null })
    }

    /// Names it uses, sorted: columns, and traits of the run as `run.vendor`.
    pub(crate) fn reads(&self) -> &[String] {
        &self.reads
    }

    /// Its value. An expression that reads a column without a value has none, unless it handles that
    /// (`is none`, `default`): a comparison with a missing value must not decide anything.
    fn eval(&self, names: &dyn Names) -> Result<Jinja, NoValue> {
        let mut values = Context::new();
        for name in &self.reads {
            let name = if trait_of(name).is_some() { RUN } else { name };
            if !values.contains_key(name)
                && let Some(value) = names.lookup(name)
            {
                values.insert(name.to_owned(), value);
            }
        }
        if !self.handles_null {
            let null = self.reads.iter().find(|name| !has_value(&values, name));
            if let Some(name) = null {
                return Err(NoValue::Null(name.clone()));
            }
        }
        check_factors(&self.factors, &values).map_err(NoValue::Failed)?;
        self.expression.eval(Jinja::from_pairs(values)).map_err(|e| NoValue::Failed(describe(&e)))
    }

    pub(crate) fn truth(&self, names: &dyn Names) -> Result<bool, NoValue> {
        self.eval(names).map(|v| v.is_true())
    }

    /// Its number; infinite and undefined results are failures.
    pub(crate) fn number(&self, names: &dyn Names) -> Result<f64, NoValue> {
        let value = self.eval(names)?;
        f64::try_from(value)
            .ok()
            .filter(|v| v.is_finite())
            .ok_or_else(|| NoValue::Failed("the estimate is not a number".to_owned()))
    }
}

/// Renders a template and trims it.
pub(crate) fn render(
    env: &Environment<'_>,
    text: &str,
    context: &Context,
) -> Result<String, String> {
    // Most texts contain no products, so parsing them again is unnecessary.
    if text.contains('*') {
        let checked = check_template(text).map_err(|mistake| mistake.message)?;
        check_factors(&checked.factors, context)?;
    }
    let mut output = LimitedText::default();
    let rendered = env
        .template_from_str(text)
        .and_then(|template| template.render_captured_to(values(context), &mut output).map(drop));
    if output.is_full {
        return Err(format!("the text is longer than {MAX_TEXT_BYTES} bytes"));
    }
    rendered.map_err(|e| describe(&e))?;
    let text = String::from_utf8(output.bytes).map_err(|e| e.to_string())?;
    Ok(text.trim().to_owned())
}

/// A writer that fails beyond [`MAX_TEXT_BYTES`].
#[derive(Default)]
struct LimitedText {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_TEXT_BYTES {
            self.is_full = true;
            return Err(io::Error::other("the text is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds mistakes that show only when a template is rendered, such as an unknown filter. Renders it with a
/// number under each of `names`.
fn probe(template: &Template<'_, '_>, names: &[String]) -> Result<(), Error> {
    let traits = names.iter().filter_map(|n| trait_of(n)).map(|n| (n, Jinja::from(1.5)));
    let run = Jinja::from_pairs(traits);
    let mut context: Context = names.iter().map(|n| (n.clone(), 1.5.into())).collect();
    context.insert(RUN.to_owned(), run);
    match template.render(values(&context)) {
        Err(error) if is_mistake(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Checks a template. Returns the names that it uses, like [`template_reads`].
pub(crate) fn checked_reads(env: &Environment<'_>, text: &str) -> Result<Vec<String>, Mistake> {
    check_template(text)?;
    // Most texts are only text.
    if !text.contains('{') {
        return Ok(Vec::new());
    }
    let template = env.template_from_named_str("text", text)?;
    let names = names_in(&template);
    probe(&template, &names)?;
    Ok(names)
}

/// Names a template uses, sorted: columns, and traits of the run as `run.vendor`.
pub(crate) fn template_reads(env: &Environment<'_>, text: &str) -> Result<Vec<String>, Error> {
    Ok(names_in(&env.template_from_named_str("text", text)?))
}

fn names_in(template: &Template<'_, '_>) -> Vec<String> {
    let mut names: Vec<String> = template.undeclared_variables(true).into_iter().collect();
    names.sort();
    names
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
            (
                "run".to_owned(),
                Jinja::from_pairs([
                    ("vendor", Jinja::from("amd")),
                    ("is_training", Jinja::from(())),
                ]),
            ),
        ]
        .into()
    }

    #[test]
    fn filters_format_units() {
        for (text, expected) in [
            ("{{ share_ratio|pct }}", "28.5 %"),
            ("{{ dur_ns|dur }} {{ dur_ns|ms }} {{ dur_ns|us }}", "28.5 ms 28.5 ms 28500 us"),
            ("{{ used_bytes|bytes }}", "3 GiB"),
            ("{{ 0.5|pct }} {{ 2.0|num }} {{ 2.345|num }}", "50 % 2 2.35"),
            ("{{ absent|pct }} {{ name|ms }} {{ absent|default('?') }}", "- - ?"),
            ("{{ 2|ordinal }} {{ 13|ordinal }} {{ 21|ordinal }}", "2nd 13th 21st"),
            (
                "{{ 1|plural('batch', 'batches') }} {{ 25.2|round|plural('copy', 'copies') }}",
                "1 batch 25 copies",
            ),
            (
                "{{ 6093|plural('kernel') }} {{ 1234567|count }} {{ 999|count }}",
                "6,093 kernels 1,234,567 999",
            ),
            ("`{{ absent }}` {{ absent|short }}", "`(not recorded)` (not recorded)"),
            ("{{ absent|plural('hole') }}", "an unknown number of holes"),
            ("{% if absent is none %}a{% else %}b{% endif %}", "a"),
        ] {
            assert_eq!(render(&environment(), text, &row()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn formula_with_a_missing_value_has_no_result() {
        let env = environment();
        let formula = Formula::new(&env, "absent < 1").unwrap();
        assert_eq!(formula.truth(&row()), Err(NoValue::Null("absent".to_owned())));
        let formula = Formula::new(&env, "absent is none or absent < 1").unwrap();
        assert_eq!(formula.truth(&row()), Ok(true));
        let formula = Formula::new(&env, "share_ratio / 0").unwrap();
        assert!(formula.number(&row()).is_err());
    }

    #[test]
    fn traits_of_the_run_are_read_like_columns() {
        let env = environment();
        let truth = |text| Formula::new(&env, text).unwrap().truth(&row());
        assert_eq!(truth("run.vendor == 'amd' and share_ratio > 0.2"), Ok(true));
        // Unknown is not false.
        assert_eq!(truth("not run.is_training"), Err(NoValue::Null("run.is_training".to_owned())));
        assert_eq!(truth("run.unheard_of"), Err(NoValue::Null("run.unheard_of".to_owned())));
        assert_eq!(truth("run.is_training is none"), Ok(true));
        assert_eq!(truth("run.is_training|default(true)"), Ok(true));
        let formula = Formula::new(&env, "run.vendor == name").unwrap();
        assert_eq!(formula.reads(), ["name", "run.vendor"]);
        let text =
            "{{ 'HIP' if run.vendor == 'amd' else 'CUDA' }} {{ run.is_training|default('?') }}";
        assert_eq!(render(&env, text, &row()).as_deref(), Ok("HIP ?"));
    }

    #[test]
    fn render_stops_long_texts_and_texts_that_would_be_repeated() {
        let row = |name: &str| Context::from([("name".to_owned(), Jinja::from(name))]);
        let kernel = "k".repeat(40_000);
        assert!(render(&environment(), "{{ name }}", &row(&kernel)).is_ok());
        let error = render(&environment(), "{{ name }}{{ name }}", &row(&kernel)).unwrap_err();
        assert_eq!(error, "the text is longer than 65536 bytes");
        let error = render(&environment(), "{{ 9000 * name }}", &row("gemm")).unwrap_err();
        assert_eq!(error, "`name` is text, which cannot be multiplied");
        let env = environment();
        let formula = Formula::new(&env, "100000000 * (1 + name) > 1").unwrap();
        let failed = NoValue::Failed("`name` is text, which cannot be multiplied".to_owned());
        assert_eq!(formula.truth(&row("gemm")), Err(failed));
    }
}
