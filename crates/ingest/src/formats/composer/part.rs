//! The events of one process in one Composer file.

use trace_model::vocabulary::COMPOSER_BATCH;

use crate::timeline::columns::Columns;

/// Events of one process in one file. All times are nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rank: i32,
    /// Process id as written.
    pub(crate) process: String,
    /// Number of entries of the file's event list that belong to it.
    pub(crate) events: u64,
    /// Composer's markers, instants and counters.
    pub(crate) own: Columns,
    /// The copied PyTorch trace.
    pub(crate) torch: Option<Columns>,
    /// Time of the barrier by which Composer compares the clocks of ranks, on the clock of this file.
    pub(crate) sync_ns: Option<i64>,
}

impl Part {
    /// Drops the copied PyTorch trace, and its counts.
    pub(crate) fn drop_torch(&mut self) {
        if self.torch.take().is_some() {
            self.own.count_only_own_phases();
        }
    }

    /// Number of Composer's own markers, instants and samples.
    pub(crate) fn own_len(&self) -> usize {
        self.own.begin_end_events.len() + self.own.counters.len() + self.own.instants.len()
    }

    /// Number of marked batches.
    pub(crate) fn batches(&self) -> usize {
        let Some(batch) = self.own.strings.find(COMPOSER_BATCH) else { return 0 };
        self.own.begin_end_events.iter().filter(|event| event.begin && event.name == batch).count()
    }

    /// First and last time of Composer's own events.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        extent(&self.own)
    }
}

pub(super) fn extent(own: &Columns) -> Option<(i64, i64)> {
    let times = || {
        let begin_end_events = own.begin_end_events.iter().map(|event| event.ts_ns);
        begin_end_events
            .chain(own.counters.ts_ns.0.iter().copied())
            .chain(own.instants.ts_ns.0.iter().copied())
    };
    Some((times().min()?, times().max()?))
}
