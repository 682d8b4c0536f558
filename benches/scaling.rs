//! How cost grows with events and with ranks: the exponent of every view, of the views of all rules together, of
//! reading and of `check`. Fails if one is [`LIMIT`] or more.
//!
//!     cargo bench --workspace --bench scaling -- [events|ranks] [--full] [PART OF A NAME ...]
//!
//! What a view takes is `fixed + c * events^k`: it is planned, however little there is to compute. The first is
//! measured on a run without rows and taken off; `k` is the slope of the rest, log against log, by least squares over
//! the sizes at which the rest is more than noise.
#![allow(clippy::print_stdout, reason = "the exponents are the result")]

#[path = "support/mod.rs"]
mod support;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use analyses::catalog;
use query::{Params, Session};
use trace_advisor::{RuleSet, Run, default_rules};
use trace_demo::{Bottleneck, Options};
use trace_model::TableSet;

/// A sort of `n` rows grows with an exponent of 1.07 from 1e5 to 1e7.
const LIMIT: f64 = 1.1;

/// Shorter than this, a difference of two times is noise.
const NOISE_S: f64 = 0.004;

/// Fewer sizes make no slope.
const LEAST_POINTS: usize = 3;

/// What a run is made longer by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// 1e5 to 1.6e6, in full to 12.8e6: more steps of two ranks.
    Events,
    /// 1 to 64, in full to 256, each with as many events.
    Ranks,
}

impl Axis {
    fn runs(self, full: bool) -> Vec<Options> {
        // Stacks, and a device that waits: nothing that views are about is missing.
        let run = Options {
            bottleneck: Bottleneck::Sync,
            stacks: true,
            gzip: false,
            ..Options::default()
        };
        let doublings = |few, many| (0..=if full { many } else { few }).map(|i| 1 << i);
        match self {
            Self::Events => doublings(4, 7)
                .map(|times: u32| Options { ranks: 2, layers: 8, steps: 16 * times, ..run.clone() })
                .collect(),
            Self::Ranks => doublings(6, 8)
                .map(|ranks| Options { ranks, layers: 2, steps: 8, ..run.clone() })
                .collect(),
        }
    }
}

/// Something whose cost is asked for.
enum Work<'a> {
    Read,
    Check(&'a RuleSet),
    /// The views of the rules, planned and computed together.
    OfRules(&'a RuleSet),
    View(&'a str),
}

impl Work<'_> {
    fn all<'a>(rules: &'a RuleSet, wanted: &[String]) -> BTreeMap<&'a str, Work<'a>> {
        let views = catalog().views().iter().map(|m| (m.name.as_str(), Work::View(&m.name)));
        let whole = [
            ("(reading)", Work::Read),
            ("(check)", Work::Check(rules)),
            ("(views of all rules)", Work::OfRules(rules)),
        ];
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w));
        views.chain(whole).filter(|(name, _)| is_wanted(name)).collect()
    }

    /// Seconds; the best of a few.
    fn seconds(&self, run: &support::DemoRun, tables: &TableSet) -> f64 {
        let open = || Run::open(run.path()).expect("a whole run");
        match self {
            Self::Read => best(|| (), |()| black_box(open().info().wall_ns)),
            Self::Check(rules) => {
                best(|| (), |()| black_box(open().check(rules).expect("a report").findings.len()))
            }
            _ => self.seconds_of_views(tables),
        }
    }

    /// Seconds without reading; the best of a few.
    fn seconds_of_views(&self, tables: &TableSet) -> f64 {
        let session = || {
            Session::new(analyses::catalog(), tables.clone(), &Params::default())
                .expect("a session")
        };
        match self {
            Self::Read => 0.0,
            Self::Check(rules) | Self::OfRules(rules) => {
                best(session, |s| black_box(s.metric_tables(&rules.views()).expect("views").len()))
            }
            Self::View(view) => {
                best(session, |s| black_box(s.analyze(view).expect("a view").len()))
            }
        }
    }
}

/// The best of three runs, or fewer if they take more than half a second; making what is used up is not counted.
fn best<S, T>(make: impl Fn() -> S, work: impl Fn(&S) -> T) -> f64 {
    let mut times = Vec::new();
    while times.len() < 3 && times.iter().sum::<f64>() < 0.5 {
        let used = make();
        let start = Instant::now();
        black_box(work(&used));
        times.push(start.elapsed().as_secs_f64());
    }
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// What something took on runs of growing size.
struct Growth<'a> {
    name: &'a str,
    fixed_s: f64,
    /// Size and seconds.
    points: Vec<(f64, f64)>,
}

impl Growth<'_> {
    /// What is not fixed.
    fn rest(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().map(|&(size, s)| (size, s - self.fixed_s))
    }

    /// `None` where the fixed cost hides how the rest grows.
    fn exponent(&self) -> Option<f64> {
        let tells = |&(_, rest): &(f64, f64)| rest > NOISE_S && rest > self.fixed_s / 2.0;
        let points: Vec<(f64, f64)> =
            self.rest().filter(tells).map(|(size, rest)| (size.ln(), rest.ln())).collect();
        (points.len() >= LEAST_POINTS).then(|| slope(&points))
    }

    /// How many times more the largest run takes than the one before.
    fn last_doubling(&self) -> Option<f64> {
        let rest: Vec<f64> = self.rest().map(|(_, rest)| rest).collect();
        let [.., before, last] = rest[..] else { return None };
        (before > NOISE_S).then_some(last / before)
    }
}

/// Of the line that is nearest to the points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let along: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    along / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Whether everything stays below the limit.
fn grow(axis: Axis, full: bool, work: &BTreeMap<&str, Work<'_>>) -> bool {
    let nothing = TableSet::default();
    let mut growths: Vec<Growth<'_>> = work
        .iter()
        .map(|(name, work)| {
            let fixed_s = work.seconds_of_views(&nothing);
            Growth { name, fixed_s, points: Vec::new() }
        })
        .collect();
    for options in axis.runs(full) {
        let run = support::write_demo(&options);
        let opened = Run::open(run.path()).expect("a whole run");
        let events = opened.info().sources.iter().map(|s| s.events).sum::<u64>() as f64;
        println!(
            "{} ranks, {:.2e} events, {:.0} MB",
            options.ranks,
            events,
            run.json_bytes as f64 / 1e6
        );
        let tables = opened.tables().clone();
        drop(opened);
        let size = if axis == Axis::Ranks { f64::from(options.ranks) } else { events };
        for growth in &mut growths {
            growth.points.push((size, work[growth.name].seconds(&run, &tables)));
        }
    }
    print(&growths);
    growths.iter().filter_map(Growth::exponent).all(|exponent| exponent < LIMIT)
}

fn print(growths: &[Growth<'_>]) {
    let mut sorted: Vec<&Growth<'_>> = growths.iter().collect();
    let exponent = |g: &Growth<'_>| g.exponent().map(|e| (e * 1000.0) as i64);
    sorted.sort_by_key(|g| (Reverse(exponent(g)), g.name));
    println!("\n| | least | most | fixed | last doubling | exponent |\n|---|--:|--:|--:|--:|--:|");
    let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for growth in sorted {
        let ends = [growth.points.first(), growth.points.last()];
        let [least, most] = ends.map(|p| p.map_or(0.0, |p| p.1 * 1e3));
        println!(
            "| `{}` | {least:.1} ms | {most:.1} ms | {:.1} ms | {} | {} |",
            growth.name,
            growth.fixed_s * 1e3,
            text(growth.last_doubling()),
            text(growth.exponent()),
        );
    }
    println!();
}

fn main() -> ExitCode {
    // `cargo bench` adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let (flags, mut wanted): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|a| a.starts_with("--"));
    let full = flags.iter().any(|flag| flag == "--full");
    let mut axes = vec![("events", Axis::Events), ("ranks", Axis::Ranks)];
    if axes.iter().any(|(name, _)| wanted.iter().any(|w| w == name)) {
        axes.retain(|(name, _)| wanted.iter().any(|w| w == name));
    }
    wanted.retain(|w| w != "events" && w != "ranks");
    let rules = default_rules();
    let work = Work::all(&rules, &wanted);
    let mut is_linear = true;
    for (name, axis) in axes {
        println!("cost against {name}");
        is_linear &= grow(axis, full, &work);
    }
    if is_linear {
        return ExitCode::SUCCESS;
    }
    println!("an exponent is {LIMIT} or more");
    ExitCode::FAILURE
}
