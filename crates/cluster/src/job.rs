//! What to map: the message that a client sends to executors.

use std::time::Duration;

use datafusion::error::DataFusionError;
use prost::Message;
use trace_advisor::analyses::catalog;
use trace_advisor::ingest::{self, MapSummary, NoProgress, Shard};
use trace_advisor::map_views;
use trace_advisor::trace_model::tables;

use crate::failure::{self, TaskFailure};

/// A run to map, and how: all that an executor needs to know besides the number of a shard.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MapJob {
    /// The program that submits the job, as [`program`] names it.
    #[prost(string, tag = "1")]
    pub program: String,
    /// Path or address of the run.
    #[prost(string, tag = "2")]
    pub run: String,
    /// Path or address of the directory that the mapped ranks are written to.
    #[prost(string, tag = "3")]
    pub to: String,
    /// Number of shards of the run.
    #[prost(uint32, tag = "4")]
    pub shard_count: u32,
    /// Names of the views to compute.
    #[prost(string, repeated, tag = "5")]
    pub views: Vec<String>,
    /// `max_json_bytes` of [`ingest::Options`].
    #[prost(uint64, tag = "6")]
    pub max_json_bytes: u64,
    /// Time limit for a request to a store, in milliseconds.
    #[prost(uint64, optional, tag = "7")]
    pub timeout_ms: Option<u64>,
}

/// Names this program and what it computes. Programs with the same name write the same groups.
pub fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let views = catalog().fingerprint();
    format!("{version} ({:016x}-{})", tables::fingerprint(), &views[..16])
}

impl MapJob {
    /// Reads a job that this program can run.
    pub(crate) fn received(message: &[u8]) -> Result<Self, DataFusionError> {
        let job = Self::decode(message);
        let job = job.map_err(|e| TaskFailure(format!("the job cannot be read: {e}")))?;
        let ours = program();
        if job.program != ours {
            return Err(TaskFailure(format!(
                "an executor is advisor-cluster {ours}, and the job comes from advisor-cluster {}: run the same version \
                 everywhere",
                job.program
            ))
            .into());
        }
        Ok(job)
    }

    /// Maps the traces of a shard.
    pub(crate) fn map(&self, number: u32) -> Result<MapSummary, DataFusionError> {
        let shard = Shard::new(number, self.shard_count);
        let shard = shard.ok_or_else(|| TaskFailure(format!("there is no shard {number}")))?;
        let options = ingest::Options {
            max_json_bytes: self.max_json_bytes,
            timeout: self.timeout_ms.map(Duration::from_millis),
            ..ingest::Options::default()
        };
        let views: Vec<&str> = self.views.iter().map(String::as_str).collect();
        map_views(&self.run, &self.to, &views, shard, &options, &NoProgress)
            .map_err(|error| failure::of_shard(shard, &error))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::{MapJob, program};

    #[test]
    fn job_of_another_program_is_refused() {
        let job = MapJob { program: program(), run: "run".into(), ..MapJob::default() };
        assert_eq!(MapJob::received(&job.encode_to_vec()).unwrap(), job);
        let other = MapJob { program: "0.0.1 (views)".into(), ..job };
        let error = MapJob::received(&other.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains(&program()) && error.contains("0.0.1 (views)"), "{error}");
    }

    /// The package is not in the workspace, and so states its version itself.
    #[test]
    fn version_is_that_of_the_workspace() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"))));
    }
}
