//! The subset of minijinja's language that rules may use. Rule files are untrusted: loading a file refuses constructs
//! whose time or memory is not bounded by the length of the text and the values of a row.
//!
//! No construct can repeat output: there are no loops, assignments, calls, or products of text or lists. A rendered
//! text is therefore at most as long as its source and the values that it names together.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Stmt};
use minijinja::machinery::{Span, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};
use trace_model::Capability;

use crate::language::problem::did_you_mean;

/// Filters allowed in texts and expressions.
pub(crate) const FILTERS: [&str; 13] = [
    "pct",
    "ms",
    "us",
    "dur",
    "bytes",
    "num",
    "count",
    "short",
    "round",
    "ordinal",
    "plural",
    "default",
    RULES_NEEDING,
];

/// The filter that lists the rules that need a capability: `{{ 'operator_shapes'|rules_needing }}`.
pub(crate) const RULES_NEEDING: &str = "rules_needing";

/// Tests allowed in texts and expressions, as in `x is none`.
const TESTS: [&str; 2] = ["none", "number"];

/// Maximum bytes of a text or expression. The longest in the shipped rules has 500.
const MAX_BYTES: usize = 8 << 10;

/// Maximum tokens of a text or expression, which also bounds its nesting depth. The shipped rules have at most 110.
const MAX_TOKENS: usize = 1_000;

/// A mistake in a text or an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The bytes that contain the mistake, if known.
    pub(crate) bytes: Option<Range<usize>>,
    pub(crate) message: String,
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        Self { bytes: None, message: describe(&error) }
    }
}

/// Properties of a valid text or expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Columns and traits, such as `run.nodes`, that are multiplied. Their values must be numbers, because multiplying
    /// text repeats it.
    pub(crate) factors: Vec<String>,
}

/// Checks a template.
pub(crate) fn check_template(text: &str) -> Result<Checked, Mistake> {
    check_size(text, false)?;
    let mut checker = Checker::default();
    checker.statement(&parse(text, "text", SyntaxConfig::default())?)?;
    Ok(checker.checked)
}

/// Checks an expression.
pub(crate) fn check_expression(text: &str) -> Result<Checked, Mistake> {
    check_size(text, true)?;
    let mut checker = Checker::default();
    checker.expression(&parse_expr(text)?)?;
    Ok(checker.checked)
}

/// Limits the work of the parser and the depth of the syntax tree: chains of operators nest even without brackets.
fn check_size(text: &str, is_expression: bool) -> Result<(), Mistake> {
    let too_large = |count: usize, what: &str, most: usize| Mistake {
        bytes: None,
        message: format!("it has {count} {what}; at most {most} are allowed"),
    };
    if text.len() > MAX_BYTES {
        return Err(too_large(text.len(), "bytes", MAX_BYTES));
    }
    // A token has at least one byte.
    if text.len() <= MAX_TOKENS {
        return Ok(());
    }
    let tokens = tokenize(text, is_expression, SyntaxConfig::default());
    let count = tokens.take_while(Result::is_ok).count();
    if count > MAX_TOKENS {
        return Err(too_large(count, "words and operators", MAX_TOKENS));
    }
    Ok(())
}

#[derive(Default)]
struct Checker {
    checked: Checked,
}

type Outcome = Result<(), Mistake>;

impl Checker {
    fn statement(&mut self, statement: &Stmt<'_>) -> Outcome {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr)?;
                self.statements(&condition.true_body)?;
                self.statements(&condition.false_body)
            }
            Stmt::ForLoop(s) => refuse(s.span(), "`for`"),
            Stmt::WithBlock(s) => refuse(s.span(), "`with`"),
            Stmt::Set(s) => refuse(s.span(), "`set`"),
            Stmt::SetBlock(s) => refuse(s.span(), "`set`"),
            Stmt::AutoEscape(s) => refuse(s.span(), "`autoescape`"),
            Stmt::FilterBlock(s) => refuse(s.span(), "`filter`"),
            Stmt::Do(s) => refuse(s.span(), "`do`"),
            // Further variants depend on the features of minijinja.
            #[allow(unreachable_patterns)]
            _ => Err(Mistake { bytes: None, message: "only `if` is allowed here".to_owned() }),
        }
    }

    fn statements(&mut self, statements: &[Stmt<'_>]) -> Outcome {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn expression(&mut self, expr: &Expr<'_>) -> Outcome {
        match expr {
            Expr::Var(_) | Expr::Const(_) => Ok(()),
            Expr::UnaryOp(unary) => self.expression(&unary.expr),
            Expr::BinOp(binary) => match binary.op {
                BinOpKind::In => {
                    self.expression(&binary.left)?;
                    self.choices(&binary.right)
                }
                BinOpKind::Concat => refuse(expr.span(), "`~`"),
                BinOpKind::Pow => refuse(expr.span(), "`**`"),
                BinOpKind::Mul => {
                    self.factor(&binary.left)?;
                    self.factor(&binary.right)
                }
                _ => {
                    self.expression(&binary.left)?;
                    self.expression(&binary.right)
                }
            },
            Expr::Compare(compare) => {
                self.expression(&compare.expr)?;
                compare.ops.iter().try_for_each(|operand| match operand.op {
                    CompareOpKind::In | CompareOpKind::NotIn => self.choices(&operand.expr),
                    _ => self.expression(&operand.expr),
                })
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr)?;
                self.expression(&choice.true_expr)?;
                choice.false_expr.iter().try_for_each(|other| self.expression(other))
            }
            Expr::Filter(filter) => {
                if !FILTERS.contains(&filter.name) {
                    return Err(unknown(
                        expr.span(),
                        ErrorKind::UnknownFilter,
                        "filter",
                        filter.name,
                    ));
                }
                if filter.name == RULES_NEEDING {
                    check_capability(expr.span(), filter.expr.as_ref())?;
                }
                filter.expr.iter().try_for_each(|input| self.expression(input))?;
                self.arguments(expr.span(), &filter.args)
            }
            Expr::Test(test) => {
                if !TESTS.contains(&test.name) {
                    return Err(unknown(expr.span(), ErrorKind::UnknownTest, "test", test.name));
                }
                self.expression(&test.expr)?;
                self.arguments(expr.span(), &test.args)
            }
            Expr::GetAttr(attribute) => self.expression(&attribute.expr),
            Expr::GetItem(_) | Expr::Slice(_) => refuse(expr.span(), "indexing (`x[...]`)"),
            Expr::Call(_) => refuse(expr.span(), "a call"),
            Expr::List(_) | Expr::Tuple(_) => {
                mistake(expr.span(), "a list is allowed only after `in`".to_owned())
            }
            Expr::Map(_) => refuse(expr.span(), "a map"),
        }
    }

    /// Checks the right operand of `in`: a list or a text.
    fn choices(&mut self, expr: &Expr<'_>) -> Outcome {
        match expr {
            Expr::List(list) => list.items.iter().try_for_each(|item| self.expression(item)),
            Expr::Tuple(tuple) => tuple.items.iter().try_for_each(|item| self.expression(item)),
            text => self.expression(text),
        }
    }

    fn arguments(&mut self, span: Span, arguments: &[CallArg<'_>]) -> Outcome {
        arguments.iter().try_for_each(|argument| match argument {
            CallArg::Pos(value) | CallArg::Kwarg(_, value) => self.expression(value),
            CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
                refuse(span, "argument unpacking (`*`)")
            }
        })
    }

    /// Checks an operand of a product, which must be a number.
    fn factor(&mut self, expr: &Expr<'_>) -> Outcome {
        match expr {
            Expr::Const(constant) if constant.value.is_number() => Ok(()),
            Expr::Var(variable) => {
                self.checked.factors.push(variable.id.to_owned());
                Ok(())
            }
            Expr::GetAttr(attribute) => match &attribute.expr {
                Expr::Var(variable) => {
                    self.checked.factors.push(format!("{}.{}", variable.id, attribute.name));
                    Ok(())
                }
                _ => refuse_factor(expr.span()),
            },
            Expr::UnaryOp(unary) => self.factor(&unary.expr),
            Expr::BinOp(binary)
                if matches!(
                    binary.op,
                    BinOpKind::Add
                        | BinOpKind::Sub
                        | BinOpKind::Mul
                        | BinOpKind::Div
                        | BinOpKind::FloorDiv
                        | BinOpKind::Rem
                ) =>
            {
                self.factor(&binary.left)?;
                self.factor(&binary.right)
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr)?;
                self.factor(&choice.true_expr)?;
                choice.false_expr.iter().try_for_each(|other| self.factor(other))
            }
            Expr::Filter(filter) if filter.name == "default" => {
                filter.expr.iter().try_for_each(|input| self.factor(input))?;
                filter.args.iter().try_for_each(|argument| match argument {
                    CallArg::Pos(value) => self.factor(value),
                    _ => refuse_factor(expr.span()),
                })
            }
            _ => refuse_factor(expr.span()),
        }
    }
}

/// Checks the input of [`RULES_NEEDING`]: the name of a capability, so that a typo is found when the file is loaded.
fn check_capability(span: Span, input: Option<&Expr<'_>>) -> Outcome {
    let name = match input {
        Some(Expr::Const(constant)) => constant.value.as_str(),
        _ => None,
    };
    let Some(name) = name else {
        return mistake(
            span,
            format!("`{RULES_NEEDING}` takes the name of a capability in quotes"),
        );
    };
    if Capability::parse(name).is_some() {
        return Ok(());
    }
    let help = did_you_mean(name, Capability::ALL.iter().map(|capability| capability.as_str()));
    let help = help.map(|help| format!("; {help}")).unwrap_or_default();
    mistake(span, format!("there is no capability `{name}`{help}"))
}

fn refuse(span: Span, what: &str) -> Outcome {
    mistake(span, format!("{what} is not allowed in rules"))
}

fn refuse_factor(span: Span) -> Outcome {
    mistake(span, "only numbers can be multiplied in rules; this may be text".to_owned())
}

fn mistake(span: Span, message: String) -> Outcome {
    Err(Mistake { bytes: Some(bytes(span)), message })
}

/// Returns the error that minijinja reports when it renders the text.
fn unknown(span: Span, kind: ErrorKind, what: &str, name: &str) -> Mistake {
    let error = Error::new(kind, format!("{what} {name} is unknown"));
    Mistake { bytes: Some(bytes(span)), message: describe(&error) }
}

/// Formats an error of minijinja in one line.
pub(crate) fn describe(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, check_expression, check_template};

    fn message(text: &str) -> String {
        check_template(text).unwrap_err().message
    }

    #[test]
    fn whatever_repeats_is_refused_with_its_place() {
        for (text, what, part) in [
            ("{% set a = 'x' %}{% set a = a ~ a %}", "`set`", "set a = 'x'"),
            ("{% set a %}x{% endset %}{{ a }}", "`set`", "set a"),
            ("{% for a in b %}x{% endfor %}", "`for`", "for a in b"),
            ("{% with a = 'x' %}{{ a }}{% endwith %}", "`with`", "with a"),
            ("{% filter short %}x{% endfilter %}", "`filter`", "filter short"),
            ("{% autoescape true %}x{% endautoescape %}", "`autoescape`", "autoescape true"),
            ("{{ 'x' ~ 'x' }}", "`~`", "'x' ~ 'x'"),
            ("{{ 9 ** 9 }}", "`**`", "9 ** 9"),
            ("{{ range(100000000) }}", "a call", ""),
            ("{{ name.upper() }}", "a call", ""),
            ("{{ [1, 2] }}", "a list is allowed only after `in`", ""),
            ("{{ (1, 2)|short }}", "a list is allowed only after `in`", ""),
            ("{{ {'a': 1} }}", "a map", ""),
            ("{{ name[:80] }}", "indexing (`x[...]`) is not allowed", ""),
            ("{{ 'x' * 100000000 }}", "only numbers", "'x'"),
            ("{{ 100000000 * ('x' if a else 'y') }}", "only numbers", "'x'"),
            ("{{ (a|pct) * 100000000 }}", "only numbers", ""),
            ("{{ [1] * 100000000 }}", "only numbers", ""),
        ] {
            let mistake = check_template(text).unwrap_err();
            assert!(mistake.message.contains(what), "{text}: {}", mistake.message);
            let place = mistake.bytes.and_then(|bytes| text.get(bytes)).unwrap_or_default();
            assert!(!place.is_empty() && place.contains(part), "{text}: {place}");
        }
        assert!(check_template("{{ 'operator_shapes'|rules_needing }}").is_ok());
        let typo = message("{{ 'operator_shape'|rules_needing }}");
        assert_eq!(
            typo,
            "there is no capability `operator_shape`; did you mean `operator_shapes`?"
        );
        assert!(message("{{ name|rules_needing }}").contains("in quotes"));
        assert!(check_expression("[1, 2] == a").is_err());
        assert!(message("{% include 'x' %}").contains("unknown statement include"));
        assert!(message("{% macro m() %}x{% endmacro %}").contains("unknown statement macro"));
        assert!(message("{{ a|join }}").contains("filter join is unknown"));
        assert!(message("{{ a|replace('a', 'aa') }}").contains("filter replace is unknown"));
        assert!(message("{{ a is divisibleby 2 }}").contains("test divisibleby is unknown"));
    }

    #[test]
    fn what_rules_need_is_allowed() {
        for text in [
            "{{ 2 * n }} of {{ a|default(0) * b }} {{ run.nodes * (c - 1) }}",
            "{% if a > 1 and not b %}x{% elif run.vendor in ['amd', 'intel'] %}y{% else %}z{% endif %}",
            "{{ a|round(1)|plural('copy', 'copies') }} {{ 'HIP' if run.vendor == 'amd' else 'CUDA' }}",
            "{{ a - 5 // 2 % 3 / -b }} {{ a is not none }} {# why #} {{ a not in ('x', 'y') }}",
        ] {
            assert_eq!(check_template(text).map(drop), Ok(()), "{text}");
        }
        let checked = check_template("{{ a|default(0) * b }} {{ run.nodes * (c - 1) }}").unwrap();
        assert_eq!(checked.factors, ["a", "b", "run.nodes", "c"]);
    }

    #[test]
    fn long_and_deep_texts_are_refused_before_they_are_parsed() {
        let long = "x".repeat(MAX_BYTES + 1);
        assert_eq!(message(&long), "it has 8193 bytes; at most 8192 are allowed");
        for text in [
            format!("1{}", "+1".repeat(4_000)),
            format!("a{}", "|num".repeat(2_000)),
            format!("a{}", ".b".repeat(4_000)),
            format!("{}1", "-".repeat(8_000)),
            format!("{}1{}", "(".repeat(4_000), ")".repeat(4_000)),
        ] {
            let mistake = check_expression(&text).unwrap_err();
            assert!(mistake.message.contains("at most 1000 are allowed"), "{}", mistake.message);
        }
        let branches = "{% elif a %}".repeat(600);
        assert!(message(&format!("{{% if a %}}{branches}{{% endif %}}")).contains("at most 1000"));
    }
}
