//! `advisor-cluster executor`: Ballista's executor, with our operator.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context as _;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use trace_advisor::ingest::TemporaryFolder;

use crate::args::ExecutorArgs;
use crate::codec::MapCodec;
use crate::exposure;

/// Any number but 0 makes an executor wait for its scheduler, for any time.
const WAIT_FOR_SCHEDULER: u16 = 1;

pub(crate) async fn run(args: &ExecutorArgs) -> anyhow::Result<()> {
    let ExecutorArgs { scheduler, bind, port, tasks, work_dir } = args;
    let parent = work_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Ballista creates its files with the umask, but only the owner can enter the folder.
    let results = TemporaryFolder::create_in(&parent)?;
    let port = if *port == 0 { free_port(*bind)? } else { *port };
    let config = ExecutorProcessConfig {
        bind_host: bind.to_string(),
        port,
        scheduler_host: scheduler.host.clone(),
        scheduler_port: scheduler.port,
        scheduler_connect_timeout_seconds: WAIT_FOR_SCHEDULER,
        vcores: tasks.get(),
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(results.path().to_string_lossy().into_owned()),
        // Our operator takes no memory from DataFusion's pool.
        memory_pool_size: Some(0),
        override_physical_codec: Some(Arc::new(MapCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    let address = SocketAddr::new(*bind, port);
    if let Some(warning) = exposure::warning(address, "read the results of shards") {
        writeln!(io::stderr(), "warning: {warning}")?;
    } else if !scheduler.is_this_machine() {
        writeln!(
            io::stderr(),
            "warning: a scheduler on another machine cannot fetch results from {address}: add `--bind 0.0.0.0`, or an \
             address of this machine"
        )?;
    }
    writeln!(io::stderr(), "executor: works for {scheduler}, results are on {address}")?;
    // Ends after Ctrl-C, or a request to end, once its tasks are done.
    Ok(start_executor_process(Arc::new(config)).await?)
}

/// A port that nothing listens on.
fn free_port(address: IpAddr) -> anyhow::Result<u16> {
    let listener = TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    Ok(listener.local_addr()?.port())
}
