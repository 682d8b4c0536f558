//! Why a task failed, in words that survive Ballista.

use std::fmt;

use ballista_core::serde::protobuf::FailedJob;
use datafusion::error::DataFusionError;
use trace_advisor::{Error, ingest};

const OPEN: char = '«';
const CLOSE: char = '»';

/// The reason for which a task failed. Ballista hands on the debug formats of nested errors, so both formats of this one mark
/// where the reason begins and ends.
pub(crate) struct TaskFailure(pub(crate) String);

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPEN}{}{CLOSE}", self.0)
    }
}

impl fmt::Debug for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TaskFailure {}

impl From<TaskFailure> for DataFusionError {
    fn from(failure: TaskFailure) -> Self {
        Self::External(Box::new(failure))
    }
}

/// The failure of a task that maps a shard. Ballista repeats tasks that fail with an error of the system: another executor
/// may have what this one lacks.
pub(crate) fn of_shard(shard: ingest::Shard, error: &Error) -> DataFusionError {
    let failure = TaskFailure(format!("shard {shard}: {error}"));
    match error {
        Error::Ingest(
            ingest::Error::Io { .. }
            | ingest::Error::Store { .. }
            | ingest::Error::Write { .. }
            | ingest::Error::StoreOutput { .. },
        ) => std::io::Error::other(failure).into(),
        _ => failure.into(),
    }
}

/// The reason for which a job failed: that of its task, or all that Ballista says.
pub(crate) fn reason(job: &FailedJob) -> String {
    let text = job.error.trim();
    let marked = || Some(&text[text.find(OPEN)? + OPEN.len_utf8()..text.rfind(CLOSE)?]);
    // The last of several attempts is quoted.
    marked()
        .map_or_else(|| text.to_owned(), |text| text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use ballista_core::error::BallistaError;
    use ballista_core::serde::protobuf::{FailedJob, FailedTask};
    use trace_advisor::{Error, ingest};

    use super::{of_shard, reason};

    fn failed(error: ingest::Error) -> FailedTask {
        let shard = ingest::Shard::new(2, 8).unwrap();
        FailedTask::from(BallistaError::from(of_shard(shard, &Error::Ingest(error))))
    }

    fn reason_of(error: String) -> String {
        reason(&FailedJob { error, ..FailedJob::default() })
    }

    #[test]
    fn reason_is_that_of_the_task() {
        let refused = ingest::Error::NotMappable { path: "\"run\"".into(), reason: "no".into() };
        let task = failed(refused);
        assert!(!task.retryable);
        let job = format!("Job failed due to stage 1 failed: {}\n", task.error);
        assert_eq!(reason_of(job), "shard 2/8: \"run\" cannot be mapped: no");
        assert_eq!(reason_of("all executors were lost\n".into()), "all executors were lost");
    }

    #[test]
    fn errors_of_the_system_are_repeated() {
        let source = std::io::Error::other("disk full");
        let task = failed(ingest::Error::Write { path: "a \"b\"".into(), source });
        assert!(task.retryable && task.count_to_failures);
        let job = format!("failed 4 times, most recent failure reason: {:?}", task.error);
        assert_eq!(reason_of(job), "shard 2/8: cannot write a \"b\": disk full");
    }
}
