//! Submits jobs to a scheduler, and waits for their rows.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use ballista_core::client::BallistaClient;
use ballista_core::config::{BALLISTA_JOB_NAME, BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK};
use ballista_core::ids::new_instance_id;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, GetJobStatusParams, KeyValuePair, PartitionLocation,
    execute_query_failure_result::Failure, execute_query_params::Query, execute_query_result,
    job_status::Status,
};
use ballista_core::version::insert_version_header;
use datafusion::physical_plan::common::collect;
use datafusion_proto::physical_plan::AsExecutionPlan as _;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message as _;
use tonic::client::GrpcService as _;
use tonic::codegen::http;
use tonic::transport::{Channel, Endpoint};

use crate::address::SchedulerAddress;
use crate::codec::MapCodec;
use crate::failure;
use crate::job::MapJob;
use crate::operator::plan;
use crate::rows::ShardRow;
use crate::signals;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for an answer of the scheduler.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between questions to the scheduler.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time in which the scheduler may say nothing about a job before it counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Longest message, in bytes: all places of results, or one result.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Attempts to run a job whose results are lost with executors.
const JOB_ATTEMPTS: usize = 3;
/// Attempts to fetch a result, and the time between them in milliseconds.
const FETCH_ATTEMPTS: u8 = 3;
const FETCH_RETRY_MS: u64 = 500;

type Client = SchedulerGrpcClient<Channel>;

/// A connection to a scheduler that has executors.
#[derive(Debug)]
pub struct Session {
    address: SchedulerAddress,
    client: Client,
}

/// The last cause of an error: the others only say which layer failed.
fn root(error: &dyn Error) -> &dyn Error {
    error.source().map_or(error, root)
}

impl Session {
    /// Connects to a scheduler, and waits for both it and the first executor.
    ///
    /// # Errors
    /// If no scheduler answers in this time, or no executor is there.
    pub async fn open(address: &SchedulerAddress, wait: Duration) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(address.url())?
            .connect_timeout(CONNECT_TIMEOUT.min(wait))
            .timeout(ANSWER_TIMEOUT.min(wait));
        let end = Instant::now() + wait;
        let mut is_told = false;
        loop {
            let problem = match connect_ready(&endpoint, address).await {
                Ok(channel) => {
                    let client = Client::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
                    return Ok(Self { address: address.clone(), client });
                }
                Err(problem) => problem,
            };
            if Instant::now() >= end {
                return Err(problem);
            }
            if !is_told {
                writeln!(io::stderr(), "waiting: {problem}")?;
                is_told = true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Runs a job. Returns a row for each shard, in order. Ctrl-C cancels the job: tasks that run already are completed.
    ///
    /// # Errors
    /// If a task fails, the scheduler is lost, or the job is canceled.
    pub async fn run(&mut self, job: &MapJob) -> anyhow::Result<Vec<ShardRow>> {
        for _ in 0..JOB_ATTEMPTS {
            let job_id = self.submit(job).await?;
            let rows = tokio::select! {
                rows = self.rows(&job_id) => rows?,
                () = signals::ended() => {
                    self.cancel(job_id).await?;
                    bail!("canceled; the same command continues");
                }
            };
            if let Some(rows) = rows {
                return in_order(rows, job.shard_count);
            }
        }
        bail!("executors die before they report; the same command continues")
    }

    /// Hands a job to the scheduler. Returns its ID.
    async fn submit(&mut self, job: &MapJob) -> anyhow::Result<String> {
        let plan = PhysicalPlanNode::try_from_physical_plan(plan(job)?, &MapCodec::default())?;
        let setting = |key: &str, value: &str| KeyValuePair {
            key: key.to_owned(),
            value: Some(value.to_owned()),
        };
        let mut request = tonic::Request::new(ExecuteQueryParams {
            session_id: new_instance_id(),
            operation_id: new_instance_id(),
            settings: vec![
                setting(BALLISTA_JOB_NAME, "map"),
                // What is lost with an executor is one shard.
                setting(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, "1"),
            ],
            query: Some(Query::PhysicalPlan(plan.encode_to_vec())),
        });
        insert_version_header(request.metadata_mut());
        let refused = |reason: &str| anyhow!("{} refuses the job: {reason}", self.address);
        let answer = self.client.execute_query(request).await.map_err(|e| refused(e.message()))?;
        match answer.into_inner().result {
            Some(execute_query_result::Result::Success(accepted)) => Ok(accepted.job_id),
            Some(execute_query_result::Result::Failure(failure)) => Err(match failure.failure {
                Some(Failure::PlanParsingFailure(reason)) => refused(&reason),
                _ => refused("it gives no reason"),
            }),
            None => Err(refused("it gives no reason")),
        }
    }

    async fn cancel(&mut self, job_id: String) -> anyhow::Result<()> {
        let answer = self.client.cancel_job(CancelJobParams { job_id }).await;
        answer.map_err(|e| anyhow!("cannot cancel the job: {}", root(&e)))?;
        Ok(())
    }

    /// Waits for the end of a job. Returns its rows, as [`Session::fetch`] does.
    async fn rows(&self, job_id: &str) -> anyhow::Result<Option<Vec<ShardRow>>> {
        let locations = self.finished(job_id).await?;
        self.fetch(locations).await
    }

    /// Waits for the end of a job. Returns where its rows are.
    async fn finished(&self, job_id: &str) -> anyhow::Result<Vec<PartitionLocation>> {
        let mut client = self.client.clone();
        let mut heard = Instant::now();
        loop {
            let question = GetJobStatusParams { job_id: job_id.to_owned() };
            let silence = match client.get_job_status(question).await {
                Ok(answer) => match answer.into_inner().status.and_then(|status| status.status) {
                    Some(Status::Successful(job)) => return Ok(job.partition_location),
                    Some(Status::Failed(job)) => bail!("{}", failure::reason(&job)),
                    Some(Status::Queued(_) | Status::Running(_)) => {
                        heard = Instant::now();
                        None
                    }
                    None => Some("it does not know the job, as after a restart".to_owned()),
                },
                Err(status) => Some(format!("it does not answer: {}", root(&status))),
            };
            if let Some(reason) = silence.filter(|_| heard.elapsed() > LOST_AFTER) {
                bail!("{} has lost the job: {reason}; the same command continues", self.address);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Fetches rows, which the scheduler passes on from executors. `None` if an executor died with its rows: what it mapped
    /// is there, and others can report it.
    async fn fetch(
        &self,
        locations: Vec<PartitionLocation>,
    ) -> anyhow::Result<Option<Vec<ShardRow>>> {
        let SchedulerAddress { host, port } = &self.address;
        let connected = BallistaClient::try_new(
            host,
            *port,
            MAX_MESSAGE_BYTES,
            false,
            None,
            FETCH_ATTEMPTS,
            FETCH_RETRY_MS,
            0,
            0,
        );
        let mut client =
            connected.await.map_err(|_| anyhow!("{} does not answer", self.address))?;
        let mut rows = Vec::new();
        for location in locations {
            let layout = location.layout();
            let (Some(executor), Some(partition)) = (location.executor_meta, location.partition_id)
            else {
                bail!("{} does not say where results are", self.address);
            };
            let (partition, port) = (partition.into(), executor.port as u16);
            let fetched = async {
                let stream = client.fetch_partition_proxied(
                    &executor.id,
                    &partition,
                    location.file_id,
                    layout,
                    &executor.host,
                    port,
                    true,
                );
                anyhow::Ok(collect(stream.await?).await?)
            };
            let Ok(Ok(batches)) = tokio::time::timeout(ANSWER_TIMEOUT, fetched).await else {
                return Ok(None);
            };
            for batch in batches {
                rows.extend(ShardRow::rows(&batch).context("an executor reports something else")?);
            }
        }
        Ok(Some(rows))
    }
}

/// Connects to a scheduler that has executors.
async fn connect_ready(endpoint: &Endpoint, address: &SchedulerAddress) -> anyhow::Result<Channel> {
    let silent = |e: &dyn Error| anyhow!("no scheduler answers at {address}: {}", root(e));
    let mut channel = endpoint.connect().await.map_err(|e| silent(&e))?;
    let question = http::Request::get("/readyz").body(tonic::body::Body::empty())?;
    poll_fn(|context| channel.poll_ready(context)).await.map_err(|e| silent(&e))?;
    let answer = channel.call(question).await.map_err(|e| silent(&e))?;
    match answer.status() {
        http::StatusCode::OK => Ok(channel),
        http::StatusCode::SERVICE_UNAVAILABLE => {
            bail!("{address} has no executors: start some with `advisor-cluster executor`")
        }
        status => bail!("{address} is not a scheduler of Ballista: it answers {status}"),
    }
}

/// The rows of all shards, in order.
fn in_order(rows: Vec<ShardRow>, shard_count: u32) -> anyhow::Result<Vec<ShardRow>> {
    let mut by_shard = BTreeMap::new();
    for row in rows {
        if by_shard.insert(row.shard, row).is_some() {
            bail!("shard {} is reported twice", row.shard);
        }
    }
    match (1..=shard_count).find(|shard| !by_shard.contains_key(shard)) {
        Some(missing) => bail!("no executor reports shard {missing}"),
        None if by_shard.len() > shard_count as usize => bail!("executors report unknown shards"),
        None => Ok(by_shard.into_values().collect()),
    }
}

#[cfg(test)]
mod tests {
    use trace_advisor::ingest::MapSummary;

    use super::{ShardRow, in_order};

    #[test]
    fn every_shard_is_reported_once() {
        let rows = |shards: &[u32]| {
            let row = |&shard| ShardRow { shard, summary: MapSummary::default() };
            shards.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(in_order(rows(&[2, 3, 1]), 3).unwrap(), rows(&[1, 2, 3]));
        for (shards, reason) in [
            (&[1, 3, 1][..], "shard 1 is reported twice"),
            (&[3, 1], "no executor reports shard 2"),
            (&[1, 2, 3, 4], "executors report unknown shards"),
        ] {
            assert_eq!(in_order(rows(shards), 3).unwrap_err().to_string(), reason);
        }
    }
}
