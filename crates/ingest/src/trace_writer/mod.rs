//! Writing traces: copies with added events, parts of them, and the timelines of all ranks merged into one file.

mod augment;
mod cut;
mod event_writer;
mod events;
mod merge;
mod source;
mod splice;

pub use self::augment::{Copy, Packing, copy_with};
pub use self::cut::{Cut, CutOut, cut};
pub use self::event_writer::{CATEGORY, EventWriter, Lane};
pub use self::merge::{Merge, Merged, merge};
