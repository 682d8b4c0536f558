//! Macros of the SQL views: `name!(argument, ...)`, expanded to plain SQL when `build.rs` embeds a view.
//!
//! | macro | expansion |
//! |---|---|
//! | `ratio!(a, b)` | `CAST(a AS DOUBLE) / nullif(b, 0)` |
//! | `sum_if!(x, condition)` | `sum(CASE WHEN condition THEN x ELSE 0 END)`: 0 where no row meets the condition |
//! | `exact_sum!(x)` | the sum of floating-point numbers in decimal: the order of rows does not change its last digit |
//! | `weighted_mean!(x, weight)` | the mean of floating-point numbers by integer weights, over rows with `x`; exact like that |
//! | `count_if!(condition)` | `sum(CASE WHEN condition THEN 1 ELSE 0 END)` |
//! | `is_gpu_op!(name)` | whether operators of that name run on a GPU only |
//! | `is_collective_range!(name)` | whether ranges of that name are collectives on the host: `nccl:all_reduce` |
//! | `is_attention!(name)` | whether kernels of that name compute attention |
//! | `is_cache_write!(name)` | whether kernels of that name write keys and values into a paged cache |
//! | `is_layout_change!(name)` | whether kernels of that name turn NCHW into NHWC or back |
//! | `is_convolution!(name)` | whether kernels of that name belong to a convolution |
//! | `is_matmul!(name)` | whether kernels of that name multiply matrices, those of convolutions included |
//! | `is_matmul_op!(name)` | whether operators of that name multiply matrices |
//! | `is_pointwise!(name)` | whether kernels of that name are element-wise or reducing ones of PyTorch |
//! | `is_norm!(name)` | whether kernels of that name compute a norm |
//! | `is_norm_op!(name)` | whether operators of that name compute a norm |
//! | `is_of_experts!(name)` | whether kernels of that name belong to a mixture of experts |
//! | `is_copy_op!(name)` | whether operators of that name copy tensors |
//! | `is_launch!(name)` | whether runtime calls of that name launch a kernel or a graph |
//! | `is_compilation!(name)` | whether ranges, operators or Python functions of that name compile: Dynamo, Inductor, Triton |
//! | `is_code_loading!(name)` | whether calls or overheads of that name load or link code for the device |
//! | `is_profiler_overhead!(name)` | whether an overhead of that name is the profiler's own work: neither loading nor a full queue |
//! | `running!(PARTITION BY k ORDER BY t)` | the window from the first row of the partition to the current row, in parentheses |
//! | `running_sum!(x, PARTITION BY k ORDER BY t)` | `sum(x)` over that window; `running_max!` and `running_count!` likewise |
//! | `max_before!(x, PARTITION BY k ORDER BY t)` | `max(x)` over the rows before the current row |
//! | `overlap_counts!(intervals, (k1, k2), (n1, n2))` | one row per start or end of an interval: the keys, `ts_ns`, `dur_ns` until the next one, and the sums of `n1`, `n2` over the intervals that cover that time |
//! | `zero_for_missing!(t, (a, b))` | `coalesce(t.a, 0) AS a, coalesce(t.b, 0) AS b` |
//! | `sum_columns!(a, b)` | `sum(a) AS a, sum(b) AS b` |
//!
//! `overlap_counts!` reads a relation with the columns `ts_ns` and `end_ns`, the keys, and integer weights. Rows with `dur_ns` 0 or
//! absent (the last one of a key) are boundaries that share a moment with the next one; their sums are not complete.
//!
//! Arguments nest, and commas in parentheses, strings and comments do not separate arguments. The last argument of a macro that
//! takes a window extends to the closing parenthesis. An expansion has as many line breaks as its call, so that line numbers in
//! errors are those of the file.

/// A macro call that cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MacroError {
    /// Line of the call, from 1.
    pub(crate) line: usize,
    /// The reason.
    pub(crate) message: String,
}

/// A macro: its parameters, and the function from arguments to SQL.
struct Macro {
    name: &'static str,
    params: &'static [&'static str],
    last: Last,
    /// Whether the expansion is a quotient, which needs parentheses after `*`, `/` and `%`.
    is_quotient: bool,
    expand: fn(&[String]) -> String,
}

/// The extent of the last argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Up to a comma: one argument more is an error.
    One,
    /// The rest of the call, with its commas.
    Rest,
    /// Any number of arguments, at least one.
    Many,
}

/// As in `trace_model::vocabulary::COLLECTIVE_RANGE_PREFIXES`, which a build script does not depend on.
const COLLECTIVE_LIBRARIES: [&str; 9] =
    ["nccl", "ncclx", "nccl2", "rccl", "gloo", "mpi", "ucc", "hccl", "xccl"];

/// A macro that holds a name against a regular expression.
macro_rules! name_test {
    ($name:literal, $pattern:literal) => {
        Macro {
            name: $name,
            params: &["name"],
            last: Last::One,
            is_quotient: false,
            expand: |args| format!(concat!("regexp_like({}, '", $pattern, "')"), args[0]),
        }
    };
}

const MACROS: &[Macro] = &[
    Macro {
        name: "ratio",
        params: &["numerator", "denominator"],
        last: Last::One,
        is_quotient: true,
        expand: |args| format!("CAST({} AS DOUBLE) / nullif({}, 0)", args[0], args[1]),
    },
    Macro {
        name: "sum_if",
        params: &["value", "condition"],
        last: Last::One,
        is_quotient: false,
        expand: |args| format!("sum(CASE WHEN {} THEN {} ELSE 0 END)", args[1], args[0]),
    },
    Macro {
        name: "exact_sum",
        params: &["value"],
        last: Last::One,
        is_quotient: false,
        expand: |args| exact_sum(&args[0]),
    },
    Macro {
        name: "weighted_mean",
        params: &["value", "weight"],
        last: Last::One,
        is_quotient: true,
        expand: |args| {
            let (value, weight) = (&args[0], &args[1]);
            let sum = exact_sum(&format!("({value}) * ({weight})"));
            format!("{sum} / nullif(sum(CASE WHEN {value} IS NOT NULL THEN {weight} END), 0)")
        },
    },
    Macro {
        name: "count_if",
        params: &["condition"],
        last: Last::One,
        is_quotient: false,
        expand: |args| format!("sum(CASE WHEN {} THEN 1 ELSE 0 END)", args[0]),
    },
    Macro {
        name: "is_launch",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| format!("({0} LIKE '%Launch%Kernel%' OR {0} LIKE '%GraphLaunch%')", args[0]),
    },
    Macro {
        name: "is_collective_range",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            let is_range = |library| format!("{} LIKE '{library}:%'", args[0]);
            format!("({})", COLLECTIVE_LIBRARIES.map(is_range).join(" OR "))
        },
    },
    Macro {
        name: "is_attention",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            format!(
                "(regexp_like({0}, '(?i)flash|fmha|attention|attn|mla_|reduce_segments') \
                 AND NOT regexp_like({0}, '(?i)cache_kernel|reshape_and_cache|concat_and_cache|kv_indices'))",
                args[0]
            )
        },
    },
    name_test!(
        "is_cache_write",
        "(?i)reshape_and_cache|concat_and_cache|store_kv_?cache|set_kv_buffer|append_?paged_?kv"
    ),
    name_test!(
        "is_layout_change",
        "(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|nhwc_?2_?nchw|nchw_?2_?nhwc|batched_transpose|SubTensorOpWithTransform"
    ),
    name_test!(
        "is_convolution",
        "(?i)conv|implicit_?gemm|winograd|igemm|[dw]grad|fprop|miopen|Im2(d2)?Col|Col2Im"
    ),
    name_test!(
        "is_matmul",
        "(?i)gemm|gemv|matmul|^bmm_|^Cijk_|nvjet|splitk_?reduce|wvsplitk|marlin|cublas.*(dot_kernel|epilogue)|^triton_tem|^triton_mm"
    ),
    name_test!(
        "is_matmul_op",
        "^aten::(mm|addmm_?|_addmm_activation|bmm|baddbmm_?|addbmm_?|matmul|linear|mv|addmv_?|dot|vdot\
                 |_scaled_mm|_int_mm|_grouped_mm|_scaled_grouped_mm)\\z"
    ),
    name_test!(
        "is_pointwise",
        "(?i)elementwise_kernel|reduce_kernel|softmax|layer_norm|LayerNorm|RowwiseMoments|batch_norm|multi_tensor_apply|CatArray|index_elementwise"
    ),
    // Excludes kernels that draw from a normal distribution.
    name_test!("is_norm", "(?i)norm([^a]|\\z)|rsqrt"),
    name_test!("is_norm_op", "(batch_norm|layer_norm|group_norm|instance_norm|rms_norm)"),
    name_test!(
        "is_of_experts",
        "(?i)moe|expert|grouped_gemm|matmul_ogs|bitmatrix|_routing|finalize_matmul|topk_?(gating|softmax|forward)"
    ),
    Macro {
        name: "is_copy_op",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            format!(
                "{} IN ('aten::copy_', 'aten::clone', 'aten::contiguous', 'aten::_to_copy', 'aten::to', 'aten::_foreach_copy_')",
                args[0]
            )
        },
    },
    Macro {
        name: "is_gpu_op",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            // Operators that ask whether a library is usable, and those that choose a kernel, also run on the CPU.
            format!(
                "(regexp_like({0}, '^aten::_?(cudnn|miopen)|^Cudnn|^Miopen|^(nccl|ncclx|nccl2|rccl|hccl|xccl):|^aten::_cuda_|^aten::_?pin_memory\\z\
                 |^aten::_scaled_dot_product_(efficient|cudnn)_attention|^aten::_(flash|efficient)_attention_forward') \
                 AND {0} NOT LIKE '%\\_is\\_acceptable' AND {0} NOT LIKE 'aten::\\_use\\_%')",
                args[0]
            )
        },
    },
    Macro {
        name: "is_compilation",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            // Dynamo, AOTAutograd and Inductor mark what they do with `(dynamo_timed)`; stacks name the functions of older
            // versions and of Triton.
            format!(
                "({0} LIKE '%(dynamo\\_timed)' OR regexp_like({0}, \
                 '(torch/_dynamo/convert_frame\\.py\\(\\d+\\): (_compile|compile_inner)|torch/_inductor/compile_fx\\.py\\(\\d+\\): compile_fx\
                 |triton/compiler/compiler\\.py\\(\\d+\\): compile|triton/runtime/autotuner\\.py\\(\\d+\\): (_bench|benchmark)\
                 |triton_heuristics\\.py\\(\\d+\\): (benchmark_all_configs|autotune_to_one_config)\
                 |torch/utils/cpp_extension\\.py\\(\\d+\\): _jit_compile)\\z'))",
                args[0]
            )
        },
    },
    name_test!(
        "is_code_loading",
        "^((cu|hip|cuda)(Module|Library)Load|nvrtcCompile|hiprtcCompile|cuLink(Create|Add|Complete)\
                 |(Lazy Function|Runtime Triggered Module) Loading\\z|Driver Compiler\\z)"
    ),
    Macro {
        name: "is_profiler_overhead",
        params: &["name"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            format!(
                "{} NOT IN ('Lazy Function Loading', 'Runtime Triggered Module Loading', 'Driver Compiler', 'Command Buffer Full')",
                args[0]
            )
        },
    },
    Macro {
        name: "running",
        params: &["window"],
        last: Last::Rest,
        is_quotient: false,
        expand: |args| running(&args[0]),
    },
    Macro {
        name: "running_sum",
        params: &["value", "window"],
        last: Last::Rest,
        is_quotient: false,
        expand: |args| format!("sum({}) OVER {}", args[0], running(&args[1])),
    },
    Macro {
        name: "running_max",
        params: &["value", "window"],
        last: Last::Rest,
        is_quotient: false,
        expand: |args| format!("max({}) OVER {}", args[0], running(&args[1])),
    },
    Macro {
        name: "running_count",
        params: &["value", "window"],
        last: Last::Rest,
        is_quotient: false,
        expand: |args| format!("count({}) OVER {}", args[0], running(&args[1])),
    },
    Macro {
        name: "max_before",
        params: &["value", "window"],
        last: Last::Rest,
        is_quotient: false,
        expand: |args| {
            let [value, window] = [&args[0], &args[1]];
            format!("max({value}) OVER ({window} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)")
        },
    },
    Macro {
        name: "overlap_counts",
        params: &["intervals", "(keys)", "(weights)"],
        last: Last::One,
        is_quotient: false,
        expand: |args| overlap_counts(&args[0], &list(&args[1]), &list(&args[2])),
    },
    Macro {
        name: "zero_for_missing",
        params: &["relation", "(columns)"],
        last: Last::One,
        is_quotient: false,
        expand: |args| {
            let relation = &args[0];
            each(&list(&args[1]), |column| format!("coalesce({relation}.{column}, 0) AS {column}"))
        },
    },
    Macro {
        name: "sum_columns",
        params: &["column"],
        last: Last::Many,
        is_quotient: false,
        expand: |args| each(args, |column| format!("sum({column}) AS {column}")),
    },
];

/// The sum of floating-point numbers below 10^26 in steps of 10^-12. Numbers beyond are left out.
fn exact_sum(value: &str) -> String {
    format!("CAST(sum(TRY_CAST({value} AS DECIMAL(38, 12))) AS DOUBLE)")
}

fn running(window: &str) -> String {
    format!("({window} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)")
}

/// A sweep: each interval adds its weights at its start and takes them off at its end.
fn overlap_counts(intervals: &str, keys: &[String], weights: &[String]) -> String {
    let key_list = keys.join(", ");
    let sums = each(weights, |weight| format!("sum({weight}) OVER sweep AS {weight}"));
    let starts = weights.join(", ");
    let ends = each(weights, |weight| format!("-{weight}"));
    format!(
        "SELECT {key_list}, ts_ns, lead(ts_ns) OVER sweep - ts_ns AS dur_ns, {sums}\n\
         FROM (\n\
         SELECT {key_list}, ts_ns, {starts} FROM {intervals}\n\
         UNION ALL\n\
         SELECT {key_list}, end_ns, {ends} FROM {intervals}\n\
         )\n\
         WINDOW sweep AS {}",
        running(&format!("PARTITION BY {key_list} ORDER BY ts_ns"))
    )
}

fn each(items: &[String], text: impl Fn(&String) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The items of `(a, b)`, or of a single `a`.
fn list(arg: &str) -> Vec<String> {
    let inner = arg.strip_prefix('(').and_then(|arg| arg.strip_suffix(')')).unwrap_or(arg);
    inner.split(',').map(|item| item.trim().to_owned()).collect()
}

/// Replaces all macro calls in `sql`.
///
/// # Errors
/// For an unknown macro, a wrong number of arguments, or a call without its closing parenthesis.
pub(crate) fn expand(sql: &str) -> Result<String, MacroError> {
    expand_from(sql, 1)
}

/// Replaces all macro calls in `sql`, which begins on line `line` of its file.
fn expand_from(sql: &str, line: usize) -> Result<String, MacroError> {
    let mut expanded = String::with_capacity(sql.len());
    let mut at = 0;
    while at < sql.len() {
        let token = Token::at(sql, at);
        let end = at + token.len;
        if token.kind != TokenKind::Word || !sql[end..].starts_with("!(") {
            expanded.push_str(&sql[at..end]);
            at = end;
            continue;
        }
        let name = &sql[at..end];
        let call_line = line + line_breaks(&sql[..at]);
        let error = |message: String| MacroError { line: call_line, message };
        let Some(found) = MACROS.iter().find(|known| known.name == name) else {
            return Err(error(format!("there is no macro `{name}!`")));
        };
        let open = end + 2;
        let Some((ranges, close)) = arguments(sql, open) else {
            return Err(error(format!("`{name}!(` has no closing parenthesis")));
        };
        let mut args = Vec::new();
        for range in merged(&ranges, found) {
            let arg = expand_from(&sql[range.0..range.1], line + line_breaks(&sql[..range.0]))?;
            args.push(one_line(&arg));
        }
        let (expected, got) = (found.params.len(), args.len());
        if got < expected || (got > expected && found.last != Last::Many) {
            let usage = found.params.join(", ");
            return Err(error(format!("`{name}!({usage})` takes {expected} arguments, not {got}")));
        }
        if args.iter().any(String::is_empty) {
            return Err(error(format!("an argument of `{name}!` is empty")));
        }
        let text = (found.expand)(&args);
        let text =
            if found.is_quotient && follows_factor(&expanded) { format!("({text})") } else { text };
        push_lines(&mut expanded, &text, line_breaks(&sql[at..close]));
        at = close + 1;
    }
    Ok(expanded)
}

/// Whether the text before a quotient multiplies or divides by it.
fn follows_factor(before: &str) -> bool {
    before.trim_end().ends_with(['*', '/', '%'])
}

/// Appends an expansion with exactly `breaks` line breaks: its own as far as they go, and the others at its end.
fn push_lines(expanded: &mut String, text: &str, breaks: usize) {
    let last_line = expanded.rsplit('\n').next().unwrap_or_default();
    let indent: String = last_line.chars().take_while(|c| *c == ' ').collect();
    let mut left = breaks;
    for (i, part) in text.split('\n').enumerate() {
        if i > 0 && left > 0 {
            left -= 1;
            expanded.push('\n');
            expanded.push_str(&indent);
        } else if i > 0 {
            expanded.push(' ');
        }
        expanded.push_str(part);
    }
    for _ in 0..left {
        expanded.push('\n');
    }
}

/// Joins the arguments that belong to the last parameter, if that takes the rest of the call.
fn merged(ranges: &[(usize, usize)], found: &Macro) -> Vec<(usize, usize)> {
    let mut merged = ranges.to_vec();
    if found.last == Last::Rest && ranges.len() > found.params.len() {
        let end = ranges[ranges.len() - 1].1;
        merged.truncate(found.params.len());
        if let Some(last) = merged.last_mut() {
            last.1 = end;
        }
    }
    merged
}

/// The arguments of a call whose first one begins at `open`, and the place of its closing parenthesis.
fn arguments(sql: &str, open: usize) -> Option<(Vec<(usize, usize)>, usize)> {
    let (mut ranges, mut start, mut depth, mut at) = (Vec::new(), open, 0_usize, open);
    while at < sql.len() {
        let token = Token::at(sql, at);
        match token.kind {
            TokenKind::Symbol('(') => depth += 1,
            TokenKind::Symbol(')') if depth == 0 => {
                ranges.push((start, at));
                return Some((ranges, at));
            }
            TokenKind::Symbol(')') => depth -= 1,
            TokenKind::Symbol(',') if depth == 0 => {
                ranges.push((start, at));
                start = at + 1;
            }
            _ => {}
        }
        at += token.len;
    }
    None
}

/// `sql` without comments, and with one space in place of each stretch of white space outside quotes.
fn one_line(sql: &str) -> String {
    let mut line = String::with_capacity(sql.len());
    let mut at = 0;
    while at < sql.len() {
        let token = Token::at(sql, at);
        match token.kind {
            TokenKind::Space | TokenKind::Comment => {
                if !line.is_empty() && !line.ends_with([' ', '(']) {
                    line.push(' ');
                }
            }
            TokenKind::Symbol(')') => {
                line.truncate(line.trim_end().len());
                line.push(')');
            }
            _ => line.push_str(&sql[at..at + token.len]),
        }
        at += token.len;
    }
    line.truncate(line.trim_end().len());
    line
}

fn line_breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Word,
    Quoted,
    Comment,
    Space,
    Symbol(char),
}

/// A piece of SQL, as far as macros need to distinguish pieces.
#[derive(Debug, Clone, Copy)]
struct Token {
    kind: TokenKind,
    /// Length in bytes, at least 1.
    len: usize,
}

impl Token {
    /// The token that begins at byte `at`, which is a character boundary before the end.
    fn at(sql: &str, at: usize) -> Self {
        let rest = &sql[at..];
        let until = |from: usize, end: &str| {
            rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len())
        };
        let run =
            |belongs: fn(char) -> bool| rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
        let first = rest.chars().next().unwrap_or(' ');
        let (kind, len) = match first {
            // A doubled quote inside a string reads as two strings in a row, which makes no difference here.
            '\'' => (TokenKind::Quoted, until(1, "'")),
            '"' => (TokenKind::Quoted, until(1, "\"")),
            '-' if rest.starts_with("--") => (TokenKind::Comment, run(|c| c != '\n')),
            '/' if rest.starts_with("/*") => (TokenKind::Comment, until(2, "*/")),
            c if c.is_whitespace() => (TokenKind::Space, run(char::is_whitespace)),
            c if is_word(c) => (TokenKind::Word, run(is_word)),
            c => (TokenKind::Symbol(c), c.len_utf8()),
        };
        Self { kind, len }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::{MacroError, expand};

    fn expanded(sql: &str) -> String {
        expand(sql).unwrap()
    }

    fn error(sql: &str) -> MacroError {
        expand(sql).unwrap_err()
    }

    #[test]
    fn expand_replaces_each_macro() {
        for (call, sql) in [
            ("ratio!(a, b)", "CAST(a AS DOUBLE) / nullif(b, 0)"),
            ("sum_if!(x, a IN (1, 2))", "sum(CASE WHEN a IN (1, 2) THEN x ELSE 0 END)"),
            ("exact_sum!(a * b)", "CAST(sum(TRY_CAST(a * b AS DECIMAL(38, 12))) AS DOUBLE)"),
            (
                "weighted_mean!(a, n)",
                "CAST(sum(TRY_CAST((a) * (n) AS DECIMAL(38, 12))) AS DOUBLE) / \
                 nullif(sum(CASE WHEN a IS NOT NULL THEN n END), 0)",
            ),
            ("count_if!(a > 0)", "sum(CASE WHEN a > 0 THEN 1 ELSE 0 END)"),
            (
                "WINDOW w AS running!(PARTITION BY a, b ORDER BY t, u)",
                "WINDOW w AS (PARTITION BY a, b ORDER BY t, u ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            ),
            (
                "running_sum!(x, PARTITION BY a, b ORDER BY t)",
                "sum(x) OVER (PARTITION BY a, b ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            ),
            (
                "running_max!(x, PARTITION BY a ORDER BY t)",
                "max(x) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            ),
            (
                "running_count!(x, PARTITION BY a ORDER BY t)",
                "count(x) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            ),
            (
                "max_before!(x, PARTITION BY a ORDER BY t)",
                "max(x) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
            ),
            ("zero_for_missing!(s, (a, b))", "coalesce(s.a, 0) AS a, coalesce(s.b, 0) AS b"),
            ("sum_columns!(a, b)", "sum(a) AS a, sum(b) AS b"),
            (
                "overlap_counts!(i, (rank, device), (a, b))",
                "SELECT rank, device, ts_ns, lead(ts_ns) OVER sweep - ts_ns AS dur_ns, \
                 sum(a) OVER sweep AS a, sum(b) OVER sweep AS b \
                 FROM ( SELECT rank, device, ts_ns, a, b FROM i \
                 UNION ALL SELECT rank, device, end_ns, -a, -b FROM i ) \
                 WINDOW sweep AS (PARTITION BY rank, device ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            ),
        ] {
            assert_eq!(expanded(call), sql);
        }
    }

    #[test]
    fn collective_ranges_are_those_of_the_vocabulary() {
        let prefixes = trace_model::vocabulary::COLLECTIVE_RANGE_PREFIXES;
        let tests: Vec<String> =
            prefixes.iter().map(|prefix| format!("x LIKE '{prefix}%'")).collect();
        assert_eq!(expanded("is_collective_range!(x)"), format!("({})", tests.join(" OR ")));
    }

    #[test]
    fn expand_nests() {
        assert_eq!(
            expanded("ratio!(sum_if!(x, a), ratio!(b, c))"),
            "CAST(sum(CASE WHEN a THEN x ELSE 0 END) AS DOUBLE) / nullif(CAST(b AS DOUBLE) / nullif(c, 0), 0)"
        );
    }

    #[test]
    fn ratio_has_parentheses_only_after_a_factor() {
        assert_eq!(expanded("x * ratio!(a, b)"), "x * (CAST(a AS DOUBLE) / nullif(b, 0))");
        assert_eq!(expanded("1 - ratio!(a, b) * x"), "1 - CAST(a AS DOUBLE) / nullif(b, 0) * x");
    }

    #[test]
    fn expand_leaves_strings_and_comments() {
        let sql = "--! doc = \"ratio!(a, b)\"\nSELECT 'it''s ratio!(a, b)', \"sum_if!(\" /* count_if!(x) */ -- ratio!(\n";
        assert_eq!(expanded(sql), sql);
        assert_eq!(
            expanded("count_if!(a = ',)' -- a, b)\n)"),
            "sum(CASE WHEN a = ',)' THEN 1 ELSE 0 END)\n"
        );
        assert_eq!(expanded("SELECT a != (b)"), "SELECT a != (b)");
    }

    #[test]
    fn expand_keeps_the_number_of_lines() {
        assert_eq!(
            expanded("x,\n  ratio!(\n    a,\n    b\n  ) AS r,\ny"),
            "x,\n  CAST(a AS DOUBLE) / nullif(b, 0)\n\n\n AS r,\ny"
        );
        let sql = "SELECT\n  overlap_counts!(i, (k),\n (a)\n )\nFROM t";
        assert_eq!(expanded(sql).lines().count(), sql.lines().count());
        assert!(expanded(sql).contains("AS a\n  FROM (\n  SELECT k, ts_ns"), "{}", expanded(sql));
    }

    #[test]
    fn errors_name_the_line_of_the_call() {
        let at = |line: usize, message: &str| MacroError { line, message: message.to_owned() };
        assert_eq!(error("a\nrate!(b, c)"), at(2, "there is no macro `rate!`"));
        assert_eq!(
            error("a\n\nratio!(b)"),
            at(3, "`ratio!(numerator, denominator)` takes 2 arguments, not 1")
        );
        assert_eq!(
            error("ratio!(a, b, c)"),
            at(1, "`ratio!(numerator, denominator)` takes 2 arguments, not 3")
        );
        assert_eq!(error("count_if!(\n a,\n ratio!(x))").line, 3);
        assert_eq!(error("\nratio!(a, b"), at(2, "`ratio!(` has no closing parenthesis"));
        assert_eq!(error("count_if!()"), at(1, "an argument of `count_if!` is empty"));
    }
}
