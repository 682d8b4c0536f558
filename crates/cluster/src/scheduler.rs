//! `advisor-cluster scheduler`: Ballista's scheduler, with our operator.

use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::Context as _;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;

use crate::args::SchedulerArgs;
use crate::codec::MapCodec;
use crate::{exposure, signals};

/// Attempts to run a task, counting those that fail with an error of the system. Those of lost executors do not count.
const TASK_ATTEMPTS: usize = 4;
/// Timeouts of executors that may pass without any executor before a job fails.
const TIMEOUTS_WITHOUT_EXECUTORS: u64 = 3;
/// Checks for lost executors in the time after which one is lost.
const CHECKS_PER_TIMEOUT: u64 = 5;

pub(crate) async fn run(args: &SchedulerArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.bind).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.bind))?;
    let address = listener.local_addr()?;
    let timeout_s = args.executor_timeout.as_secs();
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        // Executors ask for tasks: they are found again after a restart of the scheduler, and need no port for orders.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: timeout_s,
        expire_dead_executor_interval_seconds: timeout_s / CHECKS_PER_TIMEOUT,
        no_executors_grace_period_seconds: timeout_s * TIMEOUTS_WITHOUT_EXECUTORS,
        task_max_failures: TASK_ATTEMPTS,
        // Clients reach the scheduler, and maybe not the executors.
        enable_embedded_flight_proxy: true,
        override_physical_codec: Some(Arc::new(MapCodec::default())),
        ..SchedulerConfig::default()
    };
    config.validate()?;
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let scheduler =
        create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    let anyone_can = "run queries on the executors, and read and write what these can, the files of runs included";
    if let Some(warning) = exposure::warning(address, anyone_can) {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    writeln!(io::stderr(), "scheduler: listens on {address}")?;
    tokio::select! {
        served = start_grpc_service_with_listener(listener, scheduler) => Ok(served?),
        () = signals::ended() => Ok(()),
    }
}
