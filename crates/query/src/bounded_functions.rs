//! Functions whose result may be much longer than their arguments, with a limit: `lpad('x', 2147483647)` would take all
//! memory, and a program that cannot get memory ends. Functions whose time grows with the product of the lengths of their
//! arguments also have a limit, because a query cannot be canceled within a batch of rows or while it is planned.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry as _, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use crate::plan::plan_limits::MAX_CONSTANT_BYTES;

/// Bytes of one value.
const MAX_VALUE_BYTES: u64 = 16 << 20;

/// Bytes of the values of one batch of rows.
const MAX_BATCH_BYTES: u64 = 256 << 20;

/// Maximum steps of a function in an untrusted query for one batch of rows. They take some seconds.
const MAX_BATCH_STEPS: u64 = 1 << 32;

/// Maximum steps of a function with constant arguments in an untrusted query. They take some hundredths of a second: a query may
/// have thousands of such calls, and the planner computes them.
const MAX_CONSTANT_STEPS: u64 = 1 << 24;

/// Bytes of an element of a list.
const ELEMENT_BYTES: u64 = 16;

/// How the length of a result follows from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// `lpad(text, characters, fill)`.
    Pad,
    /// `repeat(text, times)`.
    Repeat,
    /// `array_repeat(element, times)`.
    RepeatElement,
    /// `array_resize(list, elements, value)`.
    Resize,
    /// `range(start, stop, step)`, and with one argument `range(stop)`.
    Count,
    /// `replace(text, pattern, replacement)`.
    Replace,
    /// The lengths of all arguments together: a chain of subqueries may double a text each time.
    Sum,
    /// `levenshtein(text, text)`: the result is short, but the number of steps is the product of both lengths.
    Steps,
}

const FUNCTIONS: [(&str, Growth); 17] = [
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("repeat", Growth::Repeat),
    ("array_repeat", Growth::RepeatElement),
    ("array_resize", Growth::Resize),
    ("range", Growth::Count),
    ("generate_series", Growth::Count),
    ("replace", Growth::Replace),
    ("regexp_replace", Growth::Replace),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::Sum),
    ("levenshtein", Growth::Steps),
    ("array_has_all", Growth::Steps),
    ("array_has_any", Growth::Steps),
    ("btrim", Growth::Steps),
    ("ltrim", Growth::Steps),
    ("rtrim", Growth::Steps),
];

/// Limits that depend on who wrote a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FunctionLimits {
    /// Maximum bytes of the result of a function with constant arguments. Each row may repeat it.
    constant_bytes: u64,
    constant_steps: u64,
    batch_steps: u64,
}

impl FunctionLimits {
    /// Limits of queries of the person who runs the program, who may wait for them and can end the program.
    pub(crate) const OF_USERS: Self =
        Self { constant_bytes: MAX_VALUE_BYTES, constant_steps: u64::MAX, batch_steps: u64::MAX };

    /// Limits of untrusted queries.
    pub(crate) const OF_STRANGERS: Self = Self {
        constant_bytes: MAX_CONSTANT_BYTES,
        constant_steps: MAX_CONSTANT_STEPS,
        batch_steps: MAX_BATCH_STEPS,
    };
}

/// Replaces the functions of a session by those with a limit.
pub(crate) fn register(state: &mut SessionState, limits: FunctionLimits) -> Result<()> {
    for (name, growth) in FUNCTIONS {
        let function = Bounded { inner: state.udf(name)?, growth, limits };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(function)))?;
    }
    Ok(())
}

/// A function with a limit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    limits: FunctionLimits,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { inner, growth: self.growth, limits: self.limits }))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        if self.growth == Growth::Steps {
            self.check_steps(&args.args, rows, is_constant)?;
        } else {
            self.check_bytes(&args.args, rows, is_constant)?;
        }
        self.inner.invoke_with_args(args)
    }
}

impl Bounded {
    fn check_bytes(&self, args: &[ColumnarValue], rows: usize, is_constant: bool) -> Result<()> {
        let bytes = self.growth.amount(args, rows)?;
        let (mut most, mut sum) = (0, 0_u64);
        for row in 0..rows {
            let bytes = bytes(row);
            most = bytes.max(most);
            sum = sum.saturating_add(bytes);
        }
        let name = self.inner.name();
        let constant_bytes = self.limits.constant_bytes;
        if most > MAX_VALUE_BYTES {
            return exec_err!(
                "`{name}` would produce a value of up to {most} bytes; at most {MAX_VALUE_BYTES} are allowed"
            );
        }
        if is_constant && most > constant_bytes {
            return exec_err!(
                "`{name}` would produce a constant of up to {most} bytes; at most {constant_bytes} are allowed"
            );
        }
        if sum > MAX_BATCH_BYTES {
            return exec_err!(
                "`{name}` would produce values of up to {sum} bytes for {rows} rows; at most {MAX_BATCH_BYTES} are allowed"
            );
        }
        Ok(())
    }

    fn check_steps(&self, args: &[ColumnarValue], rows: usize, is_constant: bool) -> Result<()> {
        let FunctionLimits { constant_steps, batch_steps, .. } = self.limits;
        let limit = if is_constant { constant_steps } else { batch_steps };
        let steps = self.growth.amount(args, rows)?;
        let sum = (0..rows).fold(0, |sum: u64, row| sum.saturating_add(steps(row)));
        if sum > limit {
            let name = self.inner.name();
            let of_rows = if is_constant { String::new() } else { format!(" for {rows} rows") };
            return exec_err!(
                "`{name}` would take up to {sum} steps{of_rows}; at most {limit} are allowed"
            );
        }
        Ok(())
    }
}

impl Growth {
    /// Returns an upper bound of the bytes of the result in each row, or of the steps.
    fn amount(self, args: &[ColumnarValue], rows: usize) -> Result<Box<dyn Fn(usize) -> u64>> {
        let number = |at: usize| args.get(at).map_or(Ok(Numbers::Same(0)), numbers);
        let length = |at: usize| args.get(at).map_or(Ok(Numbers::Same(0)), lengths);
        Ok(match self {
            Self::Pad => {
                let characters = number(1)?;
                Box::new(move |row| characters.count(row).saturating_mul(4))
            }
            Self::Repeat => {
                let (text, times) = (length(0)?, number(1)?);
                Box::new(move |row| text.count(row).saturating_mul(times.count(row)))
            }
            Self::RepeatElement => {
                let element = args.first().map_or(Ok(0), |arg| mean_bytes(arg, rows))?;
                let times = number(1)?;
                Box::new(move |row| times.count(row).saturating_mul(element.max(ELEMENT_BYTES)))
            }
            Self::Resize => {
                let elements = number(1)?;
                Box::new(move |row| elements.count(row).saturating_mul(ELEMENT_BYTES))
            }
            Self::Count => {
                let (first, second) = (number(0)?, args.get(1).map(numbers).transpose()?);
                let step = args.get(2).map_or(Ok(Numbers::Same(1)), numbers)?;
                Box::new(move |row| {
                    let (start, stop) = match &second {
                        Some(stop) => (first.get(row), stop.get(row)),
                        None => (0, first.get(row)),
                    };
                    let step = step.get(row).unsigned_abs().max(1);
                    (stop.abs_diff(start) / step).saturating_mul(ELEMENT_BYTES)
                })
            }
            Self::Replace => {
                let (text, replacement) = (length(0)?, length(2)?);
                Box::new(move |row| {
                    // A replacement may repeat what was found.
                    let longest = replacement.count(row).saturating_mul(2);
                    let text = text.count(row);
                    text.saturating_add((text + 1).saturating_mul(longest))
                })
            }
            Self::Steps => {
                let (first, second) = (length(0)?, length(1)?);
                Box::new(move |row| first.count(row).saturating_mul(second.count(row)))
            }
            Self::Sum => {
                let lengths = args.iter().map(lengths).collect::<Result<Vec<_>>>()?;
                Box::new(move |row| {
                    lengths.iter().fold(0, |sum, length| length.count(row).saturating_add(sum))
                })
            }
        })
    }
}

/// A number of each row.
enum Numbers {
    Same(i64),
    Each(Vec<i64>),
}

impl Numbers {
    fn get(&self, row: usize) -> i64 {
        match self {
            Self::Same(number) => *number,
            Self::Each(numbers) => numbers.get(row).copied().unwrap_or_default(),
        }
    }

    /// The number as a size: negative numbers are none.
    fn count(&self, row: usize) -> u64 {
        u64::try_from(self.get(row)).unwrap_or_default()
    }
}

/// The values of an argument that is a number; 0 for others, such as dates.
fn numbers(arg: &ColumnarValue) -> Result<Numbers> {
    of_array(arg, |array| {
        if !array.data_type().is_integer() {
            return Ok(vec![0; array.len()]);
        }
        let numbers = cast(array, &DataType::Int64)?;
        Ok(numbers.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
    })
}

/// The lengths of an argument: bytes of a text, elements of a list.
fn lengths(arg: &ColumnarValue) -> Result<Numbers> {
    of_array(arg, |array| {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values)?,
            _ => array.slice(0, array.len()),
        };
        // Numbers become short texts.
        let Ok(lengths) = length(&array) else { return Ok(vec![64; array.len()]) };
        let lengths = cast(&lengths, &DataType::Int64)?;
        Ok(lengths.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
    })
}

fn of_array(arg: &ColumnarValue, of: impl Fn(&dyn Array) -> Result<Vec<i64>>) -> Result<Numbers> {
    Ok(match arg {
        ColumnarValue::Array(array) => Numbers::Each(of(array)?),
        ColumnarValue::Scalar(scalar) => {
            Numbers::Same(of(&scalar.to_array()?)?.first().copied().unwrap_or_default())
        }
    })
}

/// The mean size of a value.
fn mean_bytes(arg: &ColumnarValue, rows: usize) -> Result<u64> {
    Ok(match arg {
        ColumnarValue::Array(array) => array.get_buffer_memory_size() as u64 / rows.max(1) as u64,
        ColumnarValue::Scalar(scalar) => scalar.to_array()?.get_buffer_memory_size() as u64,
    })
}
