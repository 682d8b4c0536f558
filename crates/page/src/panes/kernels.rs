//! Kernels: by time, by family, against the roofline.

use trace_advisor::Error;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{BarRow, Bars, Block, Line, Pane, Point, Scatter, rounded};
use crate::clean::short;
use crate::queries::when_empty;

/// Operators that the roofline shows, those with most time first.
const MAX_POINTS: usize = 250;

/// The view of kernels and their families.
const KERNELS: &str = "kernel_by_name";

const COLUMNS: &[(&str, &str)] = &[
    ("name", "Kernel"),
    ("family", "Family"),
    ("call_count", "Calls"),
    ("device_ns", "Time"),
    ("ratio", "Share"),
    ("mean_ns", "Mean"),
    ("max_ns", "Longest"),
    ("mean_occupancy_ratio", "Occupancy"),
    ("tensor_cores", "Tensor cores"),
    ("op_name", "Operator"),
];

pub(super) fn kernels(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let order = "device_ns DESC, name, family";
    let by_name = source.table("Kernels, copies and fills by time", KERNELS, COLUMNS, order)?;
    if let Some(table) = by_name {
        blocks.add(KERNELS, families(source)?.map(Block::Bars));
        let roofline = match roofline(source)? {
            Some(scatter) => Block::Scatter(scatter),
            None => Block::Note { text: format!("No roofline: {}.", when_empty("op_roofline")) },
        };
        blocks.add("op_roofline", [roofline]);
        blocks.add(KERNELS, [Block::Table(table)]);
    }
    Ok(source.pane(
        "kernels",
        "Kernels",
        "Which kernels take the time, and how far are they from what the GPU can do?",
        blocks,
        KERNELS,
    ))
}

/// The time of each family; these add up to that of all work.
fn families(source: &Source<'_>) -> Result<Option<Bars>, Error> {
    let sql = format!(
        "SELECT family, CAST(sum(device_ns) AS BIGINT) AS family_ns FROM {KERNELS} WHERE rank = {} \
         GROUP BY family HAVING sum(device_ns) > 0 ORDER BY family = 'other', family_ns DESC, family",
        source.rank
    );
    let table = source.query(&sql)?;
    let named: Vec<(String, f64)> = table
        .named_rows()
        .filter_map(|row| Some((row.text("family")?.to_owned(), row.number("family_ns")?)))
        .collect();
    let all = ("all work".to_owned(), named.iter().map(|(_, ns)| ns).sum());
    let bar = |(name, ns): (String, f64)| BarRow {
        label: name.clone(),
        parts: vec![(name, rounded(ns))],
    };
    let is_any = !named.is_empty();
    let rows = std::iter::once(all).chain(named).map(bar).collect();
    let title = "Time by family of kernels".to_owned();
    Ok(is_any.then_some(Bars::new(title, "ns", rows, false)))
}

fn roofline(source: &Source<'_>) -> Result<Option<Scatter>, Error> {
    let sql = format!(
        "SELECT name, shapes, dtype, bound, kernel_ns, flop_per_byte, tflops_per_s, efficiency_ratio \
         FROM op_roofline WHERE rank = {} AND flop_per_byte > 0 AND tflops_per_s > 0 \
         ORDER BY kernel_ns DESC, name, shapes LIMIT {MAX_POINTS}",
        source.rank
    );
    let table = source.query(&sql)?;
    let points: Vec<Point> = table
        .named_rows()
        .filter_map(|row| {
            let efficiency = row.number("efficiency_ratio");
            let efficiency = efficiency
                .map(|ratio| format!(", {:.0} % of the roofline", ratio * 100.0))
                .unwrap_or_default();
            let label = format!(
                "{} {} {}{efficiency}",
                row.text_or_empty("name"),
                row.text_or_empty("shapes"),
                row.text_or_empty("dtype")
            );
            let bound = match row.text_or_empty("bound") {
                "" => "unknown bound".to_owned(),
                bound => format!("bound by {bound}"),
            };
            Some(Point(
                rounded(row.number("flop_per_byte")?),
                rounded(row.number("tflops_per_s")?),
                rounded(row.number("kernel_ns")?),
                bound,
                short(&label),
            ))
        })
        .collect();
    if points.is_empty() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT dtype, max(achievable_tflops) AS tflops, max(achievable_gb_per_s) AS gb_per_s FROM op_roofline \
         WHERE rank = {} AND achievable_gb_per_s > 0 GROUP BY dtype ORDER BY dtype",
        source.rank
    );
    let lowest = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|p| p.0).fold(0.0, f64::max) * 4.0;
    let roofs = source.query(&sql)?;
    let mut lines: Vec<Line> = Vec::new();
    let memory = roofs.named_rows().filter_map(|row| row.number("gb_per_s")).fold(0.0, f64::max);
    let best = roofs.named_rows().filter_map(|row| row.number("tflops")).fold(0.0, f64::max);
    if memory > 0.0 {
        let end = if best > 0.0 { best * 1000.0 / memory } else { highest };
        let start = lowest.min(end / 2.0);
        lines.push(Line {
            label: format!("memory, {memory:.0} GB/s"),
            points: vec![
                (rounded(start), rounded(start * memory / 1000.0)),
                (rounded(end), rounded(end * memory / 1000.0)),
            ],
        });
        for row in roofs.named_rows() {
            let Some(tflops) = row.number("tflops").filter(|t| *t > 0.0) else { continue };
            let start = tflops * 1000.0 / memory;
            lines.push(Line {
                label: format!("{}, {tflops:.0} TFLOP/s", short(row.text_or_empty("dtype"))),
                points: vec![
                    (rounded(start), rounded(tflops)),
                    (rounded(highest.max(start * 3.0)), rounded(tflops)),
                ],
            });
        }
    }
    Ok(Some(Scatter {
        title: "Operators against the roofline that good programs reach".to_owned(),
        x_label: "arithmetic intensity, FLOP per byte".to_owned(),
        x_unit: "number",
        y_label: "speed".to_owned(),
        y_unit: "tflop_per_s",
        size_label: "kernel time".to_owned(),
        size_unit: "ns",
        points,
        lines,
    }))
}
