//! The rows of a comparison whose time changes most, in the sections that formats for people show.

use trace_advisor::compare::{Amounts, DeviceMemory, Diff, Level, MemoryHolder, Row};

/// Default number of rows per section.
const DEFAULT_LIMIT: usize = 10;
/// Change, as a share of a step, below which a row is not shown.
const MIN_SHOWN_RATIO: f64 = 0.001;

/// Selects the time of a row that a section shows.
pub(super) type TimeOf = fn(&Amounts) -> f64;

/// Rows of one kind.
pub(super) struct Section<'a> {
    pub(super) title: String,
    pub(super) rows: Vec<&'a Row>,
    pub(super) time: TimeOf,
    /// Number and change of the rows that are left out.
    pub(super) more: Option<(usize, f64)>,
}

impl Section<'_> {
    /// Change of the time of a row.
    pub(super) fn change_ns(&self, row: &Row) -> f64 {
        (self.time)(&row.after) - (self.time)(&row.before)
    }
}

/// Change below which a row is not shown.
pub(super) fn least_ns(diff: &Diff) -> f64 {
    MIN_SHOWN_RATIO * diff.summary.before.mean_ns.max(diff.summary.after.mean_ns)
}

/// The rows whose time changes most: on the host, on the GPU, operators and modules.
pub(super) fn overview(diff: &Diff, limit: Option<usize>) -> Vec<Section<'_>> {
    let unit = diff.summary.unit.as_str();
    let is_host = |r: &Row| !r.level.is_device() && r.level != Level::None;
    let sections = [
        section(diff, limit, format!("host time in a {unit} (adds up)"), is_host, |a| a.step_ns),
        section(
            diff,
            limit,
            format!("GPU time in a {unit} (may overlap)"),
            |r| r.level.is_device_work(),
            |a| a.dur_ns,
        ),
        section(
            diff,
            limit,
            "operators by the GPU time they launch".to_owned(),
            |r| r.level == Level::Operator,
            |a| a.device_ns,
        ),
        section(
            diff,
            limit,
            "modules by host time, including what they call".to_owned(),
            |r| r.level == Level::Module,
            |a| a.dur_ns,
        ),
    ];
    sections.into_iter().filter(|section| !section.rows.is_empty()).collect()
}

fn section(
    diff: &Diff,
    limit: Option<usize>,
    title: String,
    belongs: fn(&Row) -> bool,
    time: TimeOf,
) -> Section<'_> {
    let least = least_ns(diff);
    let mut section = Section {
        title,
        rows: diff.rows.iter().filter(|r| belongs(r)).collect(),
        time,
        more: None,
    };
    let changes = |section: &Section<'_>, row: &Row| section.change_ns(row).abs();
    let mut rows = std::mem::take(&mut section.rows);
    rows.retain(|r| changes(&section, r) > 0.0 && changes(&section, r) >= least);
    rows.sort_by(|x, y| changes(&section, y).total_cmp(&changes(&section, x)));
    let rest = rows.split_off(limit.unwrap_or(DEFAULT_LIMIT).min(rows.len()));
    if !rest.is_empty() {
        let sum = rest.iter().map(|r| section.change_ns(r)).sum();
        section.more = Some((rest.len(), sum));
    }
    section.rows = rows;
    section
}

/// The rows of each level that has any, in the order of the comparison.
pub(super) fn by_level(diff: &Diff, limit: Option<usize>) -> Vec<Section<'_>> {
    let sections = Level::ALL.into_iter().map(|level| {
        let mut rows: Vec<&Row> = diff.rows.iter().filter(|r| r.level == level).collect();
        let time: TimeOf = |a| a.dur_ns;
        let rest = rows.split_off(limit.unwrap_or(DEFAULT_LIMIT).min(rows.len()));
        let sum = rest.iter().map(|r| r.after.dur_ns - r.before.dur_ns).sum();
        let more = (!rest.is_empty()).then_some((rest.len(), sum));
        Section { title: format!("{level}, inclusive time"), rows, time, more }
    });
    sections.filter(|section| !section.rows.is_empty() || section.more.is_some()).collect()
}

/// The memory that changes most, with what holds it.
pub(super) struct MemorySection<'a> {
    pub(super) title: String,
    pub(super) device: &'a DeviceMemory,
    /// Bytes of each owner before and after, largest change first.
    pub(super) owners: Vec<(String, i64, i64)>,
    /// Places whose bytes change most.
    pub(super) holders: Vec<&'a MemoryHolder>,
    /// Number and change of the places that are left out.
    pub(super) more: Option<(usize, i64)>,
}

/// What holds the memory that changes most; `None` if each owner holds as much as before.
pub(super) fn memory(diff: &Diff, limit: Option<usize>) -> Option<MemorySection<'_>> {
    let memory = diff.memory.as_ref()?;
    let device = memory.most_changed()?;
    let owners = memory.owners(device);
    if owners.iter().all(|(_, before, after)| before == after) {
        return None;
    }
    let largest = device.before_bytes.max(device.after_bytes) as f64;
    let is_shown = |holder: &&MemoryHolder| {
        let change = holder.change_bytes().saturating_abs();
        change > 0 && change as f64 >= MIN_SHOWN_RATIO * largest
    };
    let mut holders: Vec<&MemoryHolder> = memory.holders_of(device).filter(is_shown).collect();
    let rest = holders.split_off(limit.unwrap_or(DEFAULT_LIMIT).min(holders.len()));
    let sum = rest.iter().fold(0_i64, |sum, holder| sum.saturating_add(holder.change_bytes()));
    let rank =
        if memory.devices.len() > 1 { format!(" of rank {}", device.rank) } else { String::new() };
    Some(MemorySection {
        title: format!(
            "memory of {}{rank} {}, by owner (adds up)",
            device.memory,
            device.moment_phrase()
        ),
        device,
        owners,
        holders,
        more: (!rest.is_empty()).then_some((rest.len(), sum)),
    })
}
