//! Which steps the views behind a pane count, in words: once for the pane, and for each of its blocks that counts others.

use trace_advisor::query::Window;
use trace_advisor::trace_model::number::plural;
use trace_advisor::{Error, Run, analyses};

use crate::blocks::Block;
use crate::queries::query;

/// The steps of the rank that panes show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Steps in the recording.
    recorded: usize,
    /// If true, the recording may end before the work of its last step has.
    is_cut: bool,
    /// Steps that count: complete ones without warm-up.
    counted: usize,
    /// Numbers of the first and the last of these.
    ends: Option<(i64, i64)>,
}

impl Steps {
    pub(super) fn of(run: &Run, rank: i64) -> Result<Self, Error> {
        let sql = format!(
            "SELECT r.step_count AS recorded, r.cut_ns IS NOT NULL AS is_cut, count(d.step) AS counted, \
             min(d.step) AS first_step, max(d.step) AS last_step \
             FROM ranks r LEFT JOIN (SELECT rank, step FROM device_steps WHERE source <> 'trace') d ON d.rank = r.rank \
             WHERE r.rank = {rank} GROUP BY r.step_count, r.cut_ns"
        );
        let table = query(run, &sql)?;
        let Some(row) = table.first_row() else { return Ok(Self::default()) };
        Ok(Self {
            recorded: row.count("recorded") as usize,
            is_cut: row.is_true("is_cut"),
            counted: row.count("counted") as usize,
            ends: row.integer("first_step").zip(row.integer("last_step")),
        })
    }

    /// What a window counts of these steps; completes "counts ...". Empty if it has no time span.
    fn counted_in(&self, window: Window) -> String {
        match window {
            Window::CountedSteps if self.counted > 0 => self.counted_steps(),
            Window::BeforeLastStep | Window::ActivitySpan if self.is_cut => {
                format!("what was launched before the last of {} began", self.all())
            }
            Window::Recording
            | Window::CountedSteps
            | Window::BeforeLastStep
            | Window::ActivitySpan => match self.recorded {
                0 => "the whole recording".to_owned(),
                _ => format!("the whole recording, {}", self.all()),
            },
            Window::AllSteps if self.recorded > 0 => self.all(),
            Window::NotTimed => String::new(),
            other => other.doc().to_owned(),
        }
    }

    fn all(&self) -> String {
        plural(self.recorded, "step")
    }

    fn counted_steps(&self) -> String {
        let share = if self.counted < self.recorded {
            format!("{} of {}", self.counted, self.all())
        } else {
            plural(self.counted, "step")
        };
        match self.ends {
            Some((first, last)) if first < last => format!("{share}: {first} to {last}"),
            Some((first, _)) => format!("{share}: number {first}"),
            None => share,
        }
    }
}

/// Blocks, each with the view that it shows.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<(&'static str, Block)>);

impl Blocks {
    pub(super) fn add(&mut self, view: &'static str, blocks: impl IntoIterator<Item = Block>) {
        self.0.extend(blocks.into_iter().map(|block| (view, block)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blocks of a pane that says what `view` counts. Below each block that counts something else, a caption says what.
    pub(super) fn with_captions(self, view: &str, steps: &Steps) -> Vec<Block> {
        let usual = sentence(view, steps);
        let mut blocks = Vec::new();
        for (view, block) in self.0 {
            let caption = sentence(view, steps).filter(|own| usual.as_ref() != Some(own));
            let caption = caption.map(|counts| Block::Caption {
                text: format!("The {} above counts {counts}.", block.noun()),
            });
            blocks.push(block);
            blocks.extend(caption);
        }
        blocks
    }
}

/// What a view counts; completes "counts ...".
pub(super) fn sentence(view: &str, steps: &Steps) -> Option<String> {
    let window = analyses::catalog().find(view)?.window?;
    Some(steps.counted_in(window)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use trace_advisor::query::Window;

    use super::{Blocks, Steps, sentence};
    use crate::blocks::Block;

    fn steps() -> Steps {
        Steps { recorded: 6, is_cut: true, counted: 5, ends: Some((6, 10)) }
    }

    fn note() -> Block {
        Block::Note { text: "none".to_owned() }
    }

    #[test]
    fn windows_name_their_steps_and_how_many() {
        let counted = |steps: &Steps, window| steps.counted_in(window);
        let steps = steps();
        assert_eq!(counted(&steps, Window::CountedSteps), "5 of 6 steps: 6 to 10");
        assert_eq!(counted(&steps, Window::Recording), "the whole recording, 6 steps");
        assert_eq!(
            counted(&steps, Window::BeforeLastStep),
            "what was launched before the last of 6 steps began"
        );
        let one = Steps { recorded: 1, is_cut: false, counted: 1, ends: Some((3, 3)) };
        assert_eq!(counted(&one, Window::CountedSteps), "1 step: number 3");
        assert_eq!(counted(&one, Window::BeforeLastStep), "the whole recording, 1 step");
        let none = Steps::default();
        for window in [Window::CountedSteps, Window::BeforeLastStep, Window::Recording] {
            assert_eq!(counted(&none, window), "the whole recording");
        }
        assert_eq!(counted(&none, Window::NotTimed), "");
    }

    #[test]
    fn only_blocks_of_another_window_have_a_caption() {
        let mut blocks = Blocks::default();
        blocks.add("kernel_by_name", [note()]);
        blocks.add("op_roofline", [note()]);
        blocks.add("source_lines", [note()]);
        let captions: Vec<String> = blocks
            .with_captions("kernel_by_name", &steps())
            .into_iter()
            .filter_map(|block| match block {
                Block::Caption { text } => Some(text),
                _ => None,
            })
            .collect();
        assert_eq!(captions, ["The note above counts the whole recording, 6 steps."]);
    }

    #[test]
    fn every_view_of_the_page_says_what_it_counts() {
        for view in crate::views::VIEWS {
            assert!(sentence(view, &steps()).is_some(), "{view}");
        }
    }
}
