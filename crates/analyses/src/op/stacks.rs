//! Call stacks as paths in a tree: the text of a stack is built once, however many calls share it.

use rustc_hash::FxHashMap;

/// A frame, by the index of its text in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StackFrame {
    /// A Python frame: the index of its name.
    Python(u32),
    /// The complete stack that an operator carries: the index of its text.
    Recorded(u32),
}

/// Distinct stacks.
#[derive(Debug, Default)]
pub(super) struct StackTree {
    /// For each stack, the stack around its innermost frame, and that frame.
    nodes: Vec<(Option<u32>, StackFrame)>,
    known: FxHashMap<(Option<u32>, StackFrame), u32>,
}

impl StackTree {
    /// The stack with one more frame inside.
    pub(super) fn enter(&mut self, outer: Option<u32>, frame: StackFrame) -> u32 {
        *self.known.entry((outer, frame)).or_insert_with(|| {
            self.nodes.push((outer, frame));
            (self.nodes.len() - 1) as u32
        })
    }

    /// The frames of a stack, innermost first, separated by `;`.
    pub(super) fn text<'t>(
        &self,
        stack: u32,
        frame_text: impl Fn(StackFrame) -> &'t str,
    ) -> String {
        let mut text = String::new();
        let mut next = Some(stack);
        while let Some(stack) = next {
            let (outer, frame) = self.nodes[stack as usize];
            if !text.is_empty() {
                text.push(';');
            }
            text.push_str(frame_text(frame));
            next = outer;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{StackFrame, StackTree};

    #[test]
    fn text_lists_frames_innermost_first() {
        let mut stacks = StackTree::default();
        let main = stacks.enter(None, StackFrame::Python(0));
        let inner = stacks.enter(Some(main), StackFrame::Python(1));
        assert_eq!(stacks.enter(Some(main), StackFrame::Python(1)), inner);
        assert_ne!(stacks.enter(None, StackFrame::Python(1)), inner);
        let names = ["main", "step"];
        let text = |frame| match frame {
            StackFrame::Python(name) | StackFrame::Recorded(name) => names[name as usize],
        };
        assert_eq!(stacks.text(inner, text), "step;main");
    }
}
