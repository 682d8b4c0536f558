//! `advisor cache`: shows and cleans the cache.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use trace_advisor::ingest::{Cache, CachedRun};

use crate::args::{CacheCommand, CacheCommandArgs, CacheDirArg};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::render::sanitize::sanitize;
use crate::render::value::plural;

pub(crate) fn run(args: &CacheCommandArgs, console: &mut Console) -> anyhow::Result<Exit> {
    match &args.command {
        CacheCommand::Dir(directory) => {
            let cache = cache(directory)?;
            writeln!(console.out, "{}", sanitize(&cache.folder.display().to_string()))?;
        }
        CacheCommand::Info(directory) => info(&cache(directory)?, console)?,
        CacheCommand::Clean { directory, older_than } => {
            let cache = cache(directory)?;
            let removed = cache.clean(older_than.unwrap_or_default());
            let removed = removed.with_context(|| cannot("clean", &cache.folder))?;
            let size = size(bytes(&removed));
            writeln!(console.out, "removed {}, {size}", plural(removed.len(), "run"))?;
        }
    }
    Ok(Exit::Clean)
}

fn cache(directory: &CacheDirArg) -> anyhow::Result<Cache> {
    crate::run::cache(directory).ok_or_else(|| {
        with_help("the cache is disabled", "name a directory with --cache-dir or ADVISOR_CACHE_DIR")
    })
}

fn info(cache: &Cache, console: &mut Console) -> anyhow::Result<()> {
    let runs = cache.runs().with_context(|| cannot("read", &cache.folder))?;
    let out = &mut console.out;
    writeln!(out, "directory  {}", sanitize(&cache.folder.display().to_string()))?;
    writeln!(out, "runs       {}", runs.len())?;
    writeln!(out, "size       {} of at most {}", size(bytes(&runs)), size(cache.max_bytes))?;
    if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
        let ages = [last, first].map(|run| age(run.last_used));
        writeln!(out, "last use   {} (least recently used run: {})", ages[0], ages[1])?;
    }
    Ok(())
}

fn bytes(runs: &[CachedRun]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

fn cannot(verb: &str, folder: &Path) -> String {
    format!("cannot {verb} the cache directory {}", folder.display())
}

/// `3.2 GiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return plural(usize::try_from(bytes).unwrap_or_default(), "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `3 days ago`.
fn age(time: SystemTime) -> String {
    let age = SystemTime::now().duration_since(time).unwrap_or(Duration::ZERO);
    let minutes = usize::try_from(age.as_secs() / 60).unwrap_or(usize::MAX);
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{} ago", plural(minutes, "minute")),
        60..1440 => format!("{} ago", plural(minutes / 60, "hour")),
        _ => format!("{} ago", plural(minutes / 1440, "day")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{age, size};

    #[test]
    fn size_and_age_are_for_people() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(10 << 30), "10.0 GiB");
        let ago = |seconds| age(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!(ago(5), "just now");
        assert_eq!(ago(61), "1 minute ago");
        assert_eq!(ago(7300), "2 hours ago");
        assert_eq!(ago(3 * 86_400 + 10), "3 days ago");
    }
}
