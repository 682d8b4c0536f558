//! `advisor analyze PATH`: where the time of a run goes, on one screen.

use std::io::Write;
use std::path::Path;

use trace_advisor::Run;
use trace_advisor::analyses::catalog;
use trace_advisor::query::{Window, query_table};
use trace_advisor::trace_model::{Row, Unit};

use super::window;
use crate::args::{AnalyzeArgs, RowFormat};
use crate::console::{Console, Terminal};
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::output::write_output;
use crate::render::bar::bar;
use crate::render::layout::{Layout, wrapped_for};
use crate::render::rows::shorten;
use crate::render::sanitize::sanitize;
use crate::render::value::{plural, value};
use crate::run::{finish, open};
use crate::runs::{note_left_out_below, print_run_heading, query_each_run};

/// Lines of a section that lists the largest of many.
const LARGEST: usize = 5;
/// Characters of the longest bar; on a narrow terminal there is none.
const BAR: usize = 24;
/// Characters of a value or a share.
const VALUE: usize = 8;
/// Names are not cut to fewer characters while there is a bar.
const MIN_NAME: usize = 24;

pub(super) fn run(path: &Path, args: &AnalyzeArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if args.rows.format() != RowFormat::Table || args.sort.is_some() || !args.columns.is_empty() {
        return Err(with_help(
            "the overview is text for people: name an analysis to choose format, columns or order",
            format!("advisor analyze step_breakdown {} --format json", path.display()),
        ));
    }
    if args.each.each {
        return run_each(path, args, console);
    }
    note_left_out_below(path, console)?;
    let (run, progress) = open(path, &args.read, console)?;
    let overview = Overview::of_run(&run)?;
    drop(progress);
    write_output(&args.rows.output, args.rows.format().audience(), console, |out, terminal| {
        overview.write(out, terminal)?;
        write_help(path, out, terminal)
    })?;
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

/// Prints the overview of each run at or below the path.
fn run_each(path: &Path, args: &AnalyzeArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let mut overviews = Vec::new();
    let read = query_each_run(path, None, &args.read, console, |path, run| {
        overviews.push((path.to_owned(), Overview::of_run(run)?));
        Ok(())
    })?;
    write_output(&args.rows.output, args.rows.format().audience(), console, |out, terminal| {
        for (i, (path, overview)) in overviews.iter().enumerate() {
            print_run_heading(path, i == 0, out)?;
            overview.write(out, terminal)?;
        }
        let Some((path, _)) = overviews.first() else { return Ok(()) };
        write_help(path, out, terminal)
    })?;
    Ok(read.finish(console)?)
}

/// Writes how to print more.
fn write_help(path: &Path, out: &mut dyn Write, terminal: Option<Terminal>) -> anyhow::Result<()> {
    let more = format!(
        "`advisor analyze NAME {}` prints the analysis in brackets, `advisor analyze --list` lists all.",
        sanitize(&path.display().to_string())
    );
    Ok(writeln!(out, "\n{}", wrapped_for(terminal, &more, 0))?)
}

/// The overview of a run.
struct Overview {
    header: String,
    sections: Vec<Section>,
}

impl Overview {
    fn of_run(run: &Run) -> anyhow::Result<Self> {
        Ok(Self { header: header(run), sections: sections(run)? })
    }

    fn write(&self, out: &mut dyn Write, terminal: Option<Terminal>) -> anyhow::Result<()> {
        writeln!(out, "{}", sanitize(&self.header))?;
        for section in &self.sections {
            section.write(out, terminal)?;
        }
        Ok(())
    }
}

/// Ranks, steps and length of the recording.
fn header(run: &Run) -> String {
    let info = run.info();
    let steps = match info.steps {
        0 => "no steps".to_owned(),
        count => plural(count, "step"),
    };
    format!(
        "run: {}, {steps}, {}",
        plural(info.ranks.len(), "rank"),
        value(info.wall_ns as f64, Unit::Ns)
    )
}

/// A part of the overview, read from one view.
struct Section {
    title: &'static str,
    view: &'static str,
    /// What is counted, if the view says.
    window: Option<String>,
    lines: Vec<Line>,
}

/// A name with its share of the whole, or a sentence.
enum Line {
    Text(String),
    Bar { name: String, value: String, ratio: f64 },
}

/// The title of a section, the view behind it, and its lines.
type Part<'a> = (&'static str, &'static str, &'a dyn Fn() -> anyhow::Result<Vec<Line>>);

/// Returns the non-empty sections. A section whose view failed contains the reason.
fn sections(run: &Run) -> anyhow::Result<Vec<Section>> {
    let is_one_rank = run.info().ranks.len() == 1;
    let parts: [Part<'_>; 9] = [
        ("Step time", "step_time_summary", &|| step_time(run, is_one_rank)),
        ("What a step is made of", "step_breakdown", &|| step_breakdown(run)),
        ("GPU use", "gpu_utilization", &|| gpu_use(run)),
        ("Why the GPU is idle", "gpu_idle_causes", &|| idle_causes(run)),
        ("Kernels that take the most time", "gpu_kernels", &|| kernels(run)),
        ("Operators that take the most time", "op_device_time", &|| operators(run)),
        ("Collectives", "comm_by_name", &|| collectives(run)),
        ("Memory", "memory_peak", &|| memory(run)),
        ("Waiting for other ranks", "comm_stragglers", &|| stragglers(run)),
    ];
    let mut sections = Vec::new();
    for (title, view, lines) in parts {
        let made = lines().and_then(|lines| Ok((section_window(run, view, &lines)?, lines)));
        let (window, lines) = match made {
            Ok(made) => made,
            Err(error) => {
                let failed = error.downcast_ref::<trace_advisor::Error>();
                let Some(reason) = failed.and_then(trace_advisor::Error::failed_query) else {
                    return Err(error);
                };
                (None, vec![Line::Text(format!("not available: {reason}"))])
            }
        };
        if !lines.is_empty() {
            sections.push(Section { title, view, window, lines });
        }
    }
    Ok(sections)
}

/// Returns the time window that the lines of a section cover, if there are any lines and the view states it.
fn section_window(run: &Run, view: &str, lines: &[Line]) -> anyhow::Result<Option<String>> {
    let view = catalog().find(view).filter(|v| v.window != Some(Window::NotTimed));
    match view.filter(|_| !lines.is_empty()) {
        Some(view) => window::of_run(run, view),
        None => Ok(None),
    }
}

fn step_time(run: &Run, is_one_rank: bool) -> anyhow::Result<Vec<Line>> {
    let query = "SELECT avg(mean_ns) AS mean_ns, avg(median_ns) AS median_ns, min(min_ns) AS min_ns, \
                 max(max_ns) AS max_ns FROM step_time_summary";
    let of_ranks = if is_one_rank { "" } else { " of all ranks" };
    lines(run, query, |row| {
        let time = |name: &str| Some(value(row.number(name)?, Unit::Ns));
        Some(Line::Text(format!(
            "mean{of_ranks} {}, median {}, from {} to {}",
            time("mean_ns")?,
            time("median_ns")?,
            time("min_ns")?,
            time("max_ns")?,
        )))
    })
}

fn step_breakdown(run: &Run) -> anyhow::Result<Vec<Line>> {
    const PARTS: [(&str, &str); 8] = [
        ("kernel", "kernels"),
        ("memcpy", "copies"),
        ("memset", "fills"),
        ("communication", "communication"),
        ("runtime", "runtime calls"),
        ("dataloader", "data loading"),
        ("cpu_exec", "operators on the CPU"),
        ("other", "other"),
    ];
    let part = |(column, name): &(&str, &str)| {
        format!(
            "SELECT '{name}' AS name, avg({column}_ns) AS ns, avg({column}_ratio) AS ratio FROM step_breakdown"
        )
    };
    let parts: Vec<String> = PARTS.iter().map(part).collect();
    bars(
        run,
        &format!(
            "SELECT * FROM ({}) WHERE ratio >= 0.0005 ORDER BY ns DESC, name",
            parts.join(" UNION ALL ")
        ),
    )
}

fn gpu_use(run: &Run) -> anyhow::Result<Vec<Line>> {
    let query = "SELECT min(busy_ratio) AS least_busy, max(busy_ratio) AS most_busy, min(idle_ratio) AS least_idle, \
                 max(idle_ratio) AS most_idle, count(*) AS devices, avg(sm_efficiency_ratio) AS efficiency FROM gpu_utilization";
    lines(run, query, |row| {
        let ratio = |name: &str| Some(value(row.number(name)?, Unit::Ratio));
        let range = |least: &str, most: &str| {
            let (least, most) = (ratio(least)?, ratio(most)?);
            Some(if least == most { least } else { format!("{least} to {most}") })
        };
        let of_devices = match row.count("devices") as usize {
            1 => String::new(),
            devices => format!("{}: ", plural(devices, "GPU")),
        };
        let efficiency = ratio("efficiency").map(|ratio| format!("; SMs in use {ratio}"));
        Some(Line::Text(format!(
            "{of_devices}busy {}, idle {}{}",
            range("least_busy", "most_busy")?,
            range("least_idle", "most_idle")?,
            efficiency.unwrap_or_default(),
        )))
    })
}

fn idle_causes(run: &Run) -> anyhow::Result<Vec<Line>> {
    let query = format!(
        "SELECT name, ns, ns / window_ns AS ratio FROM \
         (SELECT CAST(cause AS VARCHAR) AS name, CAST(sum(dur_ns) AS DOUBLE) AS ns \
          FROM idle_gap_causes GROUP BY CAST(cause AS VARCHAR)), \
         (SELECT sum(window_ns) AS window_ns FROM device_windows) \
         WHERE ns > 0 ORDER BY ns DESC, name LIMIT {LARGEST}"
    );
    bars(run, &query)
}

fn kernels(run: &Run) -> anyhow::Result<Vec<Line>> {
    bars(run, &largest("gpu_kernels", "name", "sum_ns"))
}

/// By the work that operators launch; on ranks without a device, by their own time.
fn operators(run: &Run) -> anyhow::Result<Vec<Line>> {
    let lines = bars(run, &largest("op_device_time", "name", "device_self_ns"))?;
    if !lines.is_empty() {
        return Ok(lines);
    }
    bars(run, &largest("op_device_time", "name", "host_self_ns"))
}

fn collectives(run: &Run) -> anyhow::Result<Vec<Line>> {
    bars(run, &largest("comm_by_name", "name", "comm_ns"))
}

/// The query for the largest rows of a view by name, over all ranks, with their share of all of them.
fn largest(view: &str, name: &str, measure: &str) -> String {
    format!(
        "SELECT name, ns, ns / total_ns AS ratio FROM \
         (SELECT CAST({name} AS VARCHAR) AS name, CAST(sum({measure}) AS DOUBLE) AS ns \
          FROM {view} GROUP BY CAST({name} AS VARCHAR)), \
         (SELECT sum({measure}) AS total_ns FROM {view}) \
         WHERE ns > 0 ORDER BY ns DESC, name LIMIT {LARGEST}"
    )
}

fn memory(run: &Run) -> anyhow::Result<Vec<Line>> {
    let query = "SELECT rank, peak_allocated_bytes, peak_reserved_bytes, total_memory_bytes \
                 FROM memory_peak WHERE peak_allocated_bytes > 0 \
                 ORDER BY peak_allocated_bytes DESC, rank, device LIMIT 1";
    lines(run, query, |row| {
        let bytes = |name: &str| Some(value(row.number(name)?, Unit::Bytes));
        let reserved = bytes("peak_reserved_bytes").map(|bytes| format!(", {bytes} reserved"));
        let total = bytes("total_memory_bytes").map(|bytes| format!(", of {bytes}"));
        Some(Line::Text(format!(
            "peak {} allocated{}{} (rank {})",
            bytes("peak_allocated_bytes")?,
            reserved.unwrap_or_default(),
            total.unwrap_or_default(),
            row.integer("rank")?
        )))
    })
}

fn stragglers(run: &Run) -> anyhow::Result<Vec<Line>> {
    let query = format!(
        "SELECT concat('caused by rank ', CAST(rank AS VARCHAR)) AS name, caused_wait_ns AS ns, \
         caused_wait_ratio AS ratio FROM comm_stragglers WHERE caused_wait_ns > 0 ORDER BY caused_wait_ns DESC, rank LIMIT {LARGEST}"
    );
    bars(run, &query)
}

fn lines(
    run: &Run,
    query: &str,
    line: impl Fn(Row<'_>) -> Option<Line>,
) -> anyhow::Result<Vec<Line>> {
    let table = query_table("overview", &run.sql(query)?)?;
    Ok(table.named_rows().filter_map(line).collect())
}

/// The rows of a query for `name`, `ns` and `ratio`.
fn bars(run: &Run, query: &str) -> anyhow::Result<Vec<Line>> {
    lines(run, query, |row| {
        Some(Line::Bar {
            name: row.text_or_empty("name").to_owned(),
            value: value(row.number("ns")?, Unit::Ns),
            ratio: row.number("ratio").unwrap_or_default(),
        })
    })
}

impl Section {
    fn write(&self, out: &mut dyn Write, terminal: Option<Terminal>) -> anyhow::Result<()> {
        let title = format!("{} [{}]", self.title, self.view);
        writeln!(out, "\n{}", wrapped_for(terminal, &title, 2))?;
        let columns = terminal.map_or(usize::MAX, |terminal| terminal.columns);
        // Two spaces before each part: the bar, a value, a share and the name.
        let room = columns - 2 * (2 + VALUE) - 2;
        let bar_width = if room < BAR + 2 + MIN_NAME { 0 } else { BAR };
        let room = if bar_width > 0 { room - bar_width - 2 } else { room };
        let names = self.lines.iter().filter_map(|line| match line {
            Line::Bar { name, .. } => Some(sanitize(name).into_owned()),
            Line::Text(_) => None,
        });
        let mut names = shorten(&names.collect::<Vec<_>>(), room, terminal).into_iter();
        for line in &self.lines {
            match line {
                Line::Text(text) => writeln!(out, "  {}", wrapped_for(terminal, text, 2))?,
                Line::Bar { value: amount, ratio, .. } => {
                    let name = names.next().unwrap_or_default();
                    let share = value(*ratio, Unit::Ratio);
                    if bar_width > 0 {
                        write!(
                            out,
                            "  {:bar_width$}",
                            bar(*ratio, bar_width, Layout::from(terminal))
                        )?;
                    }
                    writeln!(out, "  {amount:>VALUE$}  {share:>VALUE$}  {name}")?;
                }
            }
        }
        if let Some(window) = &self.window {
            writeln!(out, "  {}", wrapped_for(terminal, &format!("window: {window}"), 2))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Section};
    use crate::console::Terminal;

    fn print(terminal: Option<Terminal>) -> String {
        let bar = |name: &str, value: &str, ratio: f64| Line::Bar {
            name: name.to_owned(),
            value: value.to_owned(),
            ratio,
        };
        let section = Section {
            title: "Kernels that take the most time",
            view: "gpu_kernels",
            window: Some("complete steps 1 to 4".to_owned()),
            lines: vec![
                bar(
                    "vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >",
                    "45.5 ms",
                    0.53,
                ),
                bar(
                    "vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >",
                    "1.20 ms",
                    0.011,
                ),
                bar("gemm", "12 us", 0.0),
            ],
        };
        let mut out = Vec::new();
        section.write(&mut out, terminal).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_section_fits_the_terminal_and_uses_its_characters() {
        assert_eq!(
            print(None),
            "
Kernels that take the most time [gpu_kernels]
  #############              45.5 ms      53 %  vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >
                             1.20 ms     1.1 %  vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >
                               12 us       0 %  gemm
  window: complete steps 1 to 4
"
        );
        let unicode = print(Some(Terminal { columns: 100, has_unicode: true }));
        assert!(
            unicode.contains("\n  ████████████▊              45.5 ms      53 %  vect"),
            "{unicode}"
        );
        assert!(
            unicode.contains("…tive::AddFunctor") && unicode.contains("…tive::MulFunctor"),
            "{unicode}"
        );
        let narrow = print(Some(Terminal { columns: 40, has_unicode: false }));
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }
}
