//! Source lines as logs write them: in comments of graphs, and in Python stacks.

use trace_model::{StrId, Strings};

/// A line of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SourceLine {
    pub(super) file: StrId,
    pub(super) line: i64,
    pub(super) function: StrId,
    pub(super) code: StrId,
}

impl SourceLine {
    /// The line that a comment in a graph names: `# File: a/b.py:12 in forward, code: x = self.fc(x)`, with text before it
    /// in graphs of a backward pass.
    pub(super) fn of_comment(comment: &str, strings: &mut Strings) -> Option<Self> {
        let (_, rest) = comment.split_once("File: ")?;
        let (place, code) = rest.split_once(", code: ").unwrap_or((rest, ""));
        let (place, function) = place.rsplit_once(" in ")?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self {
            file: strings.intern(file),
            line: line.parse().ok()?,
            function: strings.intern(function),
            code: optional(code, strings),
        })
    }

    /// The innermost frame of a Python stack, as `traceback` formats it.
    pub(super) fn innermost(stack: &str, strings: &mut Strings) -> Option<Self> {
        let mut lines = stack.lines();
        let mut last = None;
        while let Some(line) = lines.next() {
            let Some(frame) = line.trim_start().strip_prefix("File \"") else { continue };
            let Some((file, rest)) = frame.split_once("\", line ") else { continue };
            let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
            let Ok(number) = number.trim().parse() else { continue };
            let code = lines.clone().next().unwrap_or_default().trim();
            let code = if code.starts_with("File \"") { "" } else { code };
            last = Some((file, number, function.trim(), code));
        }
        let (file, line, function, code) = last?;
        Some(Self {
            file: strings.intern(file),
            line,
            function: optional(function, strings),
            code: optional(code, strings),
        })
    }
}

/// A text that is null if it is empty.
pub(super) fn optional(text: &str, strings: &mut Strings) -> StrId {
    if text.is_empty() { StrId::NULL } else { strings.intern(text) }
}
