//! Patterns over names, matched once for each distinct value of a dictionary instead of once for each row. DataFusion casts
//! a dictionary to plain text before it matches a regular expression.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, Scalar, StringArray};
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Like, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, not,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use regex::Regex;

/// The syntax of a pattern, and whether case matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternKind {
    Regex,
    RegexIgnoringCase,
    Like,
    LikeIgnoringCase,
}

impl PatternKind {
    const ALL: [Self; 4] =
        [Self::Regex, Self::RegexIgnoringCase, Self::Like, Self::LikeIgnoringCase];

    fn name(self) -> &'static str {
        match self {
            Self::Regex => "regex",
            Self::RegexIgnoringCase => "iregex",
            Self::Like => "like",
            Self::LikeIgnoringCase => "ilike",
        }
    }

    /// The regular expression of a pattern. `None` for the start, the end or a part of a text, which need none.
    fn regex(self, pattern: &str) -> Option<String> {
        match self {
            Self::Regex => Some(pattern.to_owned()),
            Self::RegexIgnoringCase => Some(format!("(?i){pattern}")),
            Self::Like => like_regex(pattern).map(|regex| format!("(?s){regex}")),
            Self::LikeIgnoringCase => like_regex(pattern).map(|regex| format!("(?is){regex}")),
        }
    }

    fn matches(self, texts: &StringArray, pattern: &str) -> Result<BooleanArray> {
        if let Some(regex) = self.regex(pattern) {
            let regex = compiled(regex)?;
            return Ok(texts.iter().map(|text| text.map(|text| regex.is_match(text))).collect());
        }
        let pattern = Scalar::new(StringArray::from_iter_values([pattern]));
        let matches = if self == Self::LikeIgnoringCase { ilike } else { like };
        Ok(matches(&texts, &pattern)?)
    }
}

/// The regular expression of a pattern of `LIKE`, as `arrow::compute::like` has it. `None` if the pattern has `%` at its
/// ends only.
fn like_regex(pattern: &str) -> Option<String> {
    let inner = pattern.strip_prefix('%').unwrap_or(pattern);
    let inner = inner.strip_suffix('%').unwrap_or(inner);
    if !inner.contains(['%', '_', '\\']) {
        return None;
    }
    let mut body = String::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match char {
            '%' => body.push_str(".*"),
            '_' => body.push('.'),
            _ => {
                let literal = if char == '\\' { chars.next().unwrap_or(char) } else { char };
                body.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
            }
        }
    }
    let regex = format!("^{body}$");
    // `.*` at an end costs time and changes nothing.
    let regex = regex.strip_prefix("^.*").unwrap_or(&regex);
    Some(regex.strip_suffix(".*$").unwrap_or(regex).to_owned())
}

/// Maximum number of regular expressions that are kept.
const MAX_REGEXES: usize = 256;

/// The regular expression of a pattern. Compiling one takes longer than matching the names of a trace, and each rank has
/// batches of its own, so they are kept.
fn compiled(pattern: String) -> Result<Regex> {
    static REGEXES: LazyLock<RwLock<HashMap<String, Regex>>> = LazyLock::new(RwLock::default);
    let known = REGEXES.read().unwrap_or_else(PoisonError::into_inner).get(&pattern).cloned();
    if let Some(regex) = known {
        return Ok(regex);
    }
    let regex = match Regex::new(&pattern) {
        Ok(regex) => regex,
        Err(error) => return exec_err!("Regular expression did not compile: {error}"),
    };
    let mut regexes = REGEXES.write().unwrap_or_else(PoisonError::into_inner);
    // Patterns of the views are far fewer; a session with many queries may have any number.
    if regexes.len() >= MAX_REGEXES {
        regexes.clear();
    }
    regexes.insert(pattern, regex.clone());
    Ok(regex)
}

/// `match_dictionary(text, pattern, kind)`: whether a text in a dictionary matches.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MatchDictionary {
    signature: Signature,
}

impl MatchDictionary {
    pub(crate) fn function() -> ScalarUDF {
        let signature = Signature::any(3, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { signature })
    }
}

impl ScalarUDFImpl for MatchDictionary {
    fn name(&self) -> &'static str {
        "match_dictionary"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, pattern, kind] = args.args.as_slice() else {
            return exec_err!("match_dictionary takes a text, a pattern and its kind");
        };
        let literal = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => value.try_as_str().flatten().map(str::to_owned),
            ColumnarValue::Array(_) => None,
        };
        let kind = literal(kind)
            .and_then(|name| PatternKind::ALL.into_iter().find(|kind| kind.name() == name));
        let (Some(pattern), Some(kind)) = (literal(pattern), kind) else {
            return exec_err!(
                "match_dictionary takes a literal as pattern, and the name of its kind"
            );
        };
        let rows = args.number_rows;
        let texts = texts.to_array(rows)?;
        let matches: ArrayRef = match texts.as_any_dictionary_opt() {
            // A dictionary of many more values than a batch has rows is shared by many batches.
            Some(dictionary) if dictionary.values().len() <= rows => {
                let values = cast(dictionary.values(), &DataType::Utf8)?;
                take(&kind.matches(values.as_string(), &pattern)?, dictionary.keys(), None)?
            }
            _ => {
                let texts = cast(&texts, &DataType::Utf8)?;
                Arc::new(kind.matches(texts.as_string(), &pattern)?)
            }
        };
        Ok(ColumnarValue::Array(matches))
    }
}

/// Replaces `text ~ 'pattern'` and `text LIKE 'pattern'`, where `text` is a dictionary or the cast of one.
#[derive(Debug)]
pub(crate) struct MatchDictionaries {
    function: Arc<ScalarUDF>,
}

impl MatchDictionaries {
    pub(crate) fn new() -> Self {
        Self { function: Arc::new(MatchDictionary::function()) }
    }

    fn replaced(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Some((text, pattern, kind, is_negated)) = pattern_of(&expr) else {
            return Ok(Transformed::no(expr));
        };
        let text = match text {
            Expr::Cast(Cast { expr, field }) if field.data_type().is_string() => expr.as_ref(),
            text => text,
        };
        let DataType::Dictionary(_, values) = text.get_type(schema)? else {
            return Ok(Transformed::no(expr));
        };
        let Expr::Literal(pattern, _) = pattern else { return Ok(Transformed::no(expr)) };
        let Some(pattern) = pattern.try_as_str().flatten().filter(|_| values.is_string()) else {
            return Ok(Transformed::no(expr));
        };
        let args = vec![text.clone(), lit(pattern), lit(ScalarValue::from(kind.name()))];
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.function), args));
        Ok(Transformed::yes(if is_negated { not(call) } else { call }))
    }
}

/// Text, pattern, kind of pattern, and whether texts match that do not have it.
fn pattern_of(expr: &Expr) -> Option<(&Expr, &Expr, PatternKind, bool)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (kind, is_negated) = match op {
                Operator::RegexMatch => (PatternKind::Regex, false),
                Operator::RegexIMatch => (PatternKind::RegexIgnoringCase, false),
                Operator::RegexNotMatch => (PatternKind::Regex, true),
                Operator::RegexNotIMatch => (PatternKind::RegexIgnoringCase, true),
                _ => return None,
            };
            Some((left, right, kind, is_negated))
        }
        Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive }) => {
            let kind =
                if *case_insensitive { PatternKind::LikeIgnoringCase } else { PatternKind::Like };
            Some((expr, pattern, kind, *negated))
        }
        _ => None,
    }
}

impl OptimizerRule for MatchDictionaries {
    fn name(&self) -> &'static str {
        "match_dictionaries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let replaced = |expr: Expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| self.replaced(expr, &schema))?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        };
        plan.map_expressions(|expr| match expr {
            // Their parts have names of their own.
            Expr::GroupingSet(_) => expr.map_children(replaced),
            expr => replaced(expr),
        })
    }
}
