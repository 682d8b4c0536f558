//! An event that begins or ends a range.

use trace_model::StrId;

/// A begin (`B`, `b`, `S`) or end (`E`, `e`, `F`) event.
#[derive(Debug, Clone)]
pub(crate) struct BeginEndEvent {
    pub(crate) begin: bool,
    /// What an asynchronous event belongs to, which need not be a thread; [`StrId::NULL`] for `B` and `E`.
    pub(crate) async_id: StrId,
    pub(crate) event_id: i64,
    pub(crate) name: StrId,
    pub(crate) category: StrId,
    pub(crate) ts_ns: i64,
    pub(crate) thread: i32,
    pub(crate) args: String,
    /// The range is an annotation of the user, not only a span.
    pub(crate) is_annotation: bool,
}
