//! Call stacks as paths in a tree, so that each is put into words once however many calls share it.

use rustc_hash::FxHashMap;

/// A frame as a table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// A Python frame: the index of its name.
    Call(u32),
    /// A whole stack that an operator carries: the index of its text.
    Stack(u32),
}

/// Distinct stacks.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// The stack around, and the innermost frame.
    nodes: Vec<(Option<u32>, Frame)>,
    known: FxHashMap<(Option<u32>, Frame), u32>,
}

impl Stacks {
    /// The stack with one more frame inside.
    pub(super) fn enter(&mut self, around: Option<u32>, frame: Frame) -> u32 {
        *self.known.entry((around, frame)).or_insert_with(|| {
            self.nodes.push((around, frame));
            (self.nodes.len() - 1) as u32
        })
    }

    /// Its frames, innermost first, `;` between them.
    pub(super) fn text<'t>(&self, stack: u32, of: impl Fn(Frame) -> &'t str) -> String {
        let mut text = String::new();
        let mut next = Some(stack);
        while let Some(stack) = next {
            let (around, frame) = self.nodes[stack as usize];
            if !text.is_empty() {
                text.push(';');
            }
            text.push_str(of(frame));
            next = around;
        }
        text
    }
}
