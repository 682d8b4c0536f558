//! Graph breaks, as `dynamo_graph_break_reason` describes them.

use trace_model::tables::GraphBreak;
use trace_model::{StrId, Strings};

use super::source_line::{SourceLine, optional};

const PLACE: &str = "Graph break in user code at ";
/// Labels before the reason: since 2.8, and earlier.
const REASONS: [&str; 2] = ["Graph Break Reason: ", "Reason: "];
const STACK: &str = "User code traceback:";
/// Says where, not why: the reason is the paragraph after it.
const ATTEMPT: &str = "Encountered graph break when attempting to trace";

/// The row of a graph break, without its rank and its compilation.
pub(super) fn parse(text: &str, strings: &mut Strings) -> GraphBreak {
    let mut row = GraphBreak::null_row();
    if let Some((file, line)) = text
        .lines()
        .find_map(|line| line.strip_prefix(PLACE))
        .and_then(|place| place.trim().rsplit_once(':'))
        && let Ok(line) = line.parse()
    {
        row.file = strings.intern(file);
        row.line = line;
    }
    let (description, stack) = text.split_once(STACK).unwrap_or((text, ""));
    // What follows the user's stack is that of Dynamo itself.
    let stack = stack.split("\nTraceback (most recent call last)").next().unwrap_or_default();
    stack.trim_matches('\n').trim_end().clone_into(&mut row.stack);
    if let Some(line) = SourceLine::innermost(stack, strings) {
        row.function = line.function;
        row.code = line.code;
        if row.file == StrId::NULL {
            row.file = line.file;
            row.line = line.line;
        }
    }
    let mut lines = description.lines().filter(|line| !line.starts_with(PLACE)).map(|line| {
        let line = line.trim();
        REASONS.iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line)
    });
    let reason = lines.find(|line| !line.is_empty() && !line.starts_with(ATTEMPT));
    row.reason = optional(reason.unwrap_or_default(), strings);
    let (mut explanation, mut hints) = (Vec::new(), Vec::new());
    for line in lines {
        if let Some(text) = line.strip_prefix("Explanation: ") {
            explanation.push(text);
        } else if let Some(hint) = line.strip_prefix("Hint: ") {
            hints.push(hint);
        }
    }
    row.explanation = explanation.join(" ");
    row.hint = hints.join(" ");
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_both_generations() {
        let mut strings = Strings::default();
        let new = "Graph break in user code at /a/rec.py:17
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`.
  Hint: Avoid calling `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print [] True

User code traceback:
  File \"/a/rec.py\", line 25, in <module>
    m(x)
  File \"/a/rec.py\", line 17, in forward
    print(end=\"\")
    ~~~~~^^^^^^^^

Traceback (most recent call last):
  File \"/site-packages/torch/_dynamo/symbolic_convert.py\", line 1123, in wrapper
";
        let row = parse(new, &mut strings);
        assert_eq!((strings.get(row.file), row.line), ("/a/rec.py", 17));
        assert_eq!(strings.get(row.reason), "Failed to trace builtin operator");
        assert_eq!(strings.get(row.function), "forward");
        assert_eq!(strings.get(row.code), "print(end=\"\")");
        assert_eq!(row.hint, "Avoid calling `print`. Please report an issue to PyTorch.");
        assert!(row.explanation.starts_with("Dynamo does not know"));
        assert!(!row.stack.contains("symbolic_convert") && row.stack.starts_with("  File"));

        let old = "Graph break in user code at b.py:3\nReason: Unsupported: Tensor.item\nUser code traceback:\n  \
                   File \"b.py\", line 3, in f\n    x.item()\n";
        let row = parse(old, &mut strings);
        assert_eq!(strings.get(row.reason), "Unsupported: Tensor.item");
        assert_eq!((row.line, strings.get(row.code)), (3, "x.item()"));
        assert_eq!(row.hint, "");

        let none = parse("", &mut strings);
        assert_eq!((none.file, none.reason), (StrId::NULL, StrId::NULL));
    }
}
