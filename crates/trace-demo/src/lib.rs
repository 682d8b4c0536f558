//! Generates realistic multi-rank Kineto traces whose bottleneck is known by construction.
//!
//! The simulation trains a small GPT on H100s under `DistributedDataParallel`, with one clock for the host, one
//! clock per GPU stream, and collectives that end at the same time on all ranks (`sim`). The result looks like a
//! trace that `torch.profiler` recorded with shapes and memory.
//!
//! Shares of the step time by construction, on one rank in the steady state:
//!
//! | bottleneck | loader | forward | backward | optimizer | device busy | peak memory |
//! |---|--:|--:|--:|--:|--:|--:|
//! | none | 2.5 % | 37 % | 43 % | 6 % | > 90 % | 88 % |
//! | data-loading | 36 % | 25 % | 29 % | 4 % | 65 %, idle while loading | 88 % |
//! | small-kernels | 3 % | 40 % | 47 % | 6 % | < 30 %, launches are late | 88 % |
//! | straggler | | on the last rank, 1.6 times that of the others | | | the others wait in all-reduce | 88 % |
//! | sync | | a read of the device after every second layer | | | 70 %, idle after each read | 88 % |
//! | memory | 2.5 % | 37 % | 43 % | 6 % | > 90 % | 98.6 % |
//! | pipeline | | one stage a rank, that in the middle 1.5 times as slow: see `pipeline` | | | idle in the bubble | |
//! | sharding | | no gather of FSDP overlaps with computation: see `sharding` | | | idle while parameters are gathered | |
//! | experts | | the last rank computes twice the tokens: see `experts` | | | the others wait in all-to-all | |
//! | faults | | a slow rank, a slow link and a rank that calls another collective: see `faults` | | | all others wait | |
//! | memory-leak | 2.5 % | 37 % | 43 % | 6 % | > 90 % | 82 %, 168 MB more in each step |

mod experts;
mod faults;
mod json;
mod model;
mod options;
mod pipeline;
mod rank_records;
mod record;
mod rng;
mod sharding;
mod sim;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ingest::OutputFile;
use rayon::prelude::*;

use self::faults::Faults;
use self::json::{Section, Writer};
use self::model::Model;
pub use self::options::{Bottleneck, Fault, Options, PipelineSchedule};
use self::pipeline::Pipeline;
use self::sim::{FIRST_STEP, START_NS, Sim};

/// A simulated run. The end times of its collectives are known, so ranks can be written in any order, or only some of
/// them.
#[derive(Debug)]
pub struct Run {
    options: Options,
    model: Model,
    /// End of each collective, by step.
    ends: Vec<Vec<i64>>,
    parallel: Option<Parallel>,
}

/// A simulation of its own in place of data parallel training.
#[derive(Debug)]
enum Parallel {
    Pipeline(Pipeline),
    Sharding,
    Experts,
    Faults(Faults),
}

impl Run {
    /// Simulates all ranks once to compute when their collectives end.
    ///
    /// # Errors
    /// `InvalidInput` for a run without ranks, steps or layers, and for a straggler without other ranks.
    pub fn new(options: &Options) -> io::Result<Self> {
        let invalid = |message: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if options.ranks == 0 || options.steps == 0 || options.layers == 0 {
            return invalid("a run needs at least one rank, one step and one layer");
        }
        if options.bottleneck == Bottleneck::Straggler && options.ranks == 1 {
            return invalid(
                "a straggler needs other ranks that wait for it: use --ranks 2 or more",
            );
        }
        let is_pipeline = options.bottleneck == Bottleneck::Pipeline;
        if is_pipeline && (options.ranks == 1 || options.microbatches == 0) {
            return invalid("a pipeline needs microbatches and two stages: use --ranks 2 or more");
        }
        if is_pipeline
            && options.schedule == PipelineSchedule::Interleaved
            && !options.microbatches.is_multiple_of(options.ranks)
        {
            return invalid(
                "an interleaved schedule needs a multiple of the ranks as --microbatches",
            );
        }
        let is_faulty = options.bottleneck == Bottleneck::Faults;
        if is_faulty
            && (options.ranks < faults::MIN_RANKS
                || !options.ranks.is_multiple_of(faults::SHARD_RANKS))
        {
            return invalid("groups of 16 ranks need a multiple of 16 as --ranks, 64 or more");
        }
        let parallel = match options.bottleneck {
            Bottleneck::Pipeline => Some(Parallel::Pipeline(Pipeline::new(options))),
            Bottleneck::Sharding => Some(Parallel::Sharding),
            Bottleneck::Experts => Some(Parallel::Experts),
            Bottleneck::Faults => Some(Parallel::Faults(Faults::new(options))),
            _ => None,
        };
        if parallel.is_some() && options.ranks == 1 {
            return invalid(
                "sharded parameters and experts need several ranks: use --ranks 2 or more",
            );
        }
        let model = Model::new(options.layers);
        let ends = if options.ranks == 1 || parallel.is_some() {
            vec![Vec::new(); options.steps as usize]
        } else {
            collective_ends(options, &model)
        };
        Ok(Self { options: options.clone(), model, ends, parallel })
    }

    /// Writes the trace of one rank as JSON.
    pub fn render<W: Write>(&self, rank: u32, out: W) -> io::Result<W> {
        let options = &self.options;
        let mut writer = Writer::new(out, rank, options.ranks);
        writer.head(options.stacks);
        if let Some(parallel) = &self.parallel {
            let (records, end) = match parallel {
                Parallel::Pipeline(pipeline) => pipeline.records(rank),
                Parallel::Sharding => sharding::records(options),
                Parallel::Experts => experts::records(options, rank),
                Parallel::Faults(faults) => faults.records(rank),
            };
            for section in [Section::Host, Section::Device] {
                writer.section(section, &records)?;
            }
            return writer.tail(end);
        }
        let mut end = START_NS;
        // Kineto writes host events, then memory, Python and device events. Repeating the
        // simulation costs less than keeping a long recording in memory.
        for section in [Section::Host, Section::Memory, Section::Python, Section::Device] {
            if section == Section::Python && !options.stacks {
                continue;
            }
            let mut sim = Sim::new(&self.model, options, rank, true);
            for (step, ends) in (FIRST_STEP..).zip(&self.ends) {
                sim.forward_backward(step);
                sim.finish(step, ends);
                writer.section(section, &sim.take_records())?;
            }
            sim.stop();
            writer.section(section, &sim.take_records())?;
            end = sim.clock();
            if section == Section::Python {
                writer.outer_frames(START_NS - 20_000, end + 20_000);
            }
        }
        writer.tail(end)
    }

    /// Writes the trace of one rank to a file. Returns its bytes.
    fn write(&self, rank: u32, path: &Path) -> io::Result<u64> {
        let file = OutputFile::create(path, true).map_err(io::Error::other)?;
        let file = if self.options.gzip {
            let gzip = GzEncoder::new(file, Compression::new(6));
            self.render(rank, gzip)?.finish()?
        } else {
            self.render(rank, file)?
        };
        file.complete().map_err(io::Error::other)
    }

    /// File name of the trace of a rank.
    pub fn file_name(&self, rank: u32) -> String {
        file_name(&self.options, rank)
    }
}

/// File name of the trace of a rank.
pub fn file_name(options: &Options, rank: u32) -> String {
    let stamp = json::absolute_ns(START_NS) + i64::from(rank) * 1_737 + options.seed as i64 % 1_000;
    let gz = if options.gzip { ".gz" } else { "" };
    format!("rank-{rank}.{stamp}.pt.trace.json{gz}")
}

/// The files of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// One file per rank, in rank order.
    pub files: Vec<PathBuf>,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Writes all ranks of a run to `directory`, in parallel. Files with the same names are replaced.
///
/// # Errors
/// As [`Run::new`]; if files cannot be created or written.
pub fn write_run(options: &Options, directory: &Path) -> io::Result<Written> {
    write_run_with(options, directory, || ())
}

/// Writes a run as [`write_run`] does; `on_file_done` is called after each file.
///
/// # Errors
/// As [`write_run`].
pub fn write_run_with(
    options: &Options,
    directory: &Path,
    on_file_done: impl Fn() + Sync,
) -> io::Result<Written> {
    let run = Run::new(options)?;
    fs::create_dir_all(directory)?;
    let files: Vec<(PathBuf, u64)> = (0..options.ranks)
        .into_par_iter()
        .map(|rank| {
            let path = directory.join(run.file_name(rank));
            let written = run.write(rank, &path);
            on_file_done();
            Ok((path, written?))
        })
        .collect::<io::Result<_>>()?;
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    Ok(Written { files: files.into_iter().map(|(path, _)| path).collect(), bytes })
}

/// Writes the trace of one rank of a run as JSON, uncompressed.
///
/// For several ranks, create a [`Run`] once.
///
/// # Errors
/// As [`Run::new`]; if writing fails.
pub fn render_rank<W: Write>(options: &Options, rank: u32, out: W) -> io::Result<W> {
    Run::new(options)?.render(rank, out)
}

/// End times of all collectives, by step. A collective starts when the previous one is done and all ranks have
/// arrived.
fn collective_ends(options: &Options, model: &Model) -> Vec<Vec<i64>> {
    let lengths = Sim::collectives(model);
    let mut sims: Vec<_> = (0..options.ranks)
        .into_par_iter()
        .map(|rank| Sim::new(model, options, rank, false))
        .collect();
    let mut free = START_NS;
    (FIRST_STEP..FIRST_STEP + options.steps)
        .map(|step| {
            let arrivals: Vec<Vec<i64>> =
                sims.par_iter_mut().map(|sim| sim.forward_backward(step)).collect();
            let ends: Vec<i64> = lengths
                .iter()
                .enumerate()
                .map(|(i, length)| {
                    let last = arrivals.iter().map(|a| a[i]).max().unwrap_or(free);
                    free = last.max(free) + length;
                    free
                })
                .collect();
            sims.par_iter_mut().for_each(|sim| sim.finish(step, &ends));
            ends
        })
        .collect()
}
