//! `advisor-cluster map`: maps a run on the executors of a cluster.

use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::path::{Path, absolute};

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;
use trace_advisor::advisor::{RuleSet, RuleSource};
use trace_advisor::analyses::catalog;
use trace_advisor::ingest::{self, Location, MapSummary, Mapper, Shard};
use trace_advisor::{load_only, load_rules, mapped_views};

use crate::args::MapArgs;
use crate::client::Session;
use crate::job::{MapJob, program};

/// Tasks that a run has unless they would be too small or too large: each lists the run.
const TASKS: usize = 64;
/// Ranks of a task. A group of mapped ranks has at most as many as the largest task.
const RANKS_PER_TASK: std::ops::RangeInclusive<usize> = 4..=64;

pub(crate) fn run(args: &MapArgs, runtime: &Runtime) -> anyhow::Result<()> {
    let rules = rules(args)?;
    let options = ingest::Options {
        max_json_bytes: args.max_json_bytes,
        timeout: args.timeout,
        ..ingest::Options::default()
    };
    let (run, to) = (shared_path(&args.run)?, shared_path(&args.to)?);
    let before = mapped(&run, &to, &options)?;
    let job = MapJob {
        program: program(),
        shard_count: shard_count(before.files, args.ranks_per_task),
        views: mapped_views(&rules, page::VIEWS)?.into_iter().map(str::to_owned).collect(),
        max_json_bytes: args.max_json_bytes,
        timeout_ms: args.timeout.map(|time| time.as_millis() as u64),
        run,
        to,
    };
    // Runs and directories are read outside of the runtime: stores have their own.
    let rows = runtime
        .block_on(async { Session::open(&args.scheduler, args.wait).await?.run(&job).await })?;

    let mut sum = MapSummary::default();
    for MapSummary { files, known_files, left_files, groups, json_bytes, bytes } in
        rows.iter().map(|row| row.summary)
    {
        sum.files += files;
        sum.known_files += known_files;
        sum.left_files += left_files;
        sum.groups += groups;
        sum.json_bytes += json_bytes;
        sum.bytes += bytes;
    }
    if sum.files != before.files {
        bail!(
            "executors found {} traces, and there were {} here: all machines must read the same directory, which must \
             not change meanwhile",
            sum.files,
            before.files
        );
    }
    let after = mapped(&job.run, &job.to, &options)?;
    if after.known_files < before.files {
        bail!(
            "executors mapped {} traces, and {} of them are in the directory here: it must be an address, or on a file \
             system that all machines share",
            sum.files,
            after.known_files
        );
    }
    writeln!(io::stdout(), "{}", args.to.display())?;
    let known = match sum.known_files {
        0 => String::new(),
        known => format!(", {known} of which were mapped before"),
    };
    writeln!(
        io::stderr(),
        "{} tasks: {} traces{known}; {:.1} MB of Parquet from {:.1} MB",
        job.shard_count,
        sum.files,
        sum.bytes as f64 / 1e6,
        sum.json_bytes as f64 / 1e6
    )?;
    if sum.left_files > 0 {
        writeln!(
            io::stderr(),
            "{} traces cannot be mapped, as no rank is known or the file cannot be read; `check` reads what is left itself",
            sum.left_files
        )?;
    }
    Ok(())
}

/// What there is to map, and what is mapped already.
fn mapped(run: &str, to: &str, options: &ingest::Options) -> anyhow::Result<MapSummary> {
    let (run, to) = (Location::parse(run)?, Location::parse(to)?);
    Ok(Mapper::open(&run, &to, Shard::ALL, options, &catalog().fingerprint())?.summary())
}

/// A path or an address as executors understand it: they run in other directories.
fn shared_path(path: &Path) -> anyhow::Result<String> {
    let path = if Location::is_address(path) { path.to_owned() } else { absolute(path)? };
    let shown = || format!("{} is not Unicode text", path.display());
    Ok(path.to_str().with_context(shown)?.to_owned())
}

fn shard_count(ranks: usize, ranks_per_task: Option<NonZeroU32>) -> u32 {
    let default = || ranks.div_ceil(TASKS).clamp(*RANKS_PER_TASK.start(), *RANKS_PER_TASK.end());
    let ranks_per_task = ranks_per_task.map_or_else(default, |ranks| ranks.get() as usize);
    u32::try_from(ranks.div_ceil(ranks_per_task)).unwrap_or(u32::MAX).max(1)
}

fn rules(args: &MapArgs) -> anyhow::Result<RuleSet> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(name);
        text.with_context(|| format!("cannot read rule file {name}"))
    };
    let mut sources = Vec::new();
    for file in &args.rules {
        sources.extend(RuleSource::read_with_includes(&file.display().to_string(), &read)?);
    }
    let rules = if args.no_default_rules { load_only(&sources) } else { load_rules(&sources) };
    rules.map_err(|problems| {
        let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::Error::msg(list.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::shard_count;

    #[test]
    fn shard_count_grows_slower_than_the_run() {
        for (ranks, shards) in
            [(0, 1), (1, 1), (16, 4), (64, 16), (1024, 64), (4096, 64), (16384, 256)]
        {
            assert_eq!(shard_count(ranks, None), shards, "{ranks} ranks");
        }
        assert_eq!(shard_count(7, std::num::NonZeroU32::new(2)), 4);
    }
}
