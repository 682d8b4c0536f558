//! Memory before and after: who holds it, and which places hold more or less.

use serde_json::Value as Json;
use trace_advisor::compare::{Diff, MemoryHolder};
use trace_advisor::trace_model::Unit;

use crate::blocks::{BarRow, Bars, Block, Pane, Table, TableColumn};
use crate::clean::short;

/// Places that the page carries.
const MAX_ROWS: usize = 400;

/// The memory that changes most, as in the other formats; `None` if no place holds more or less.
pub(super) fn pane(diff: &Diff) -> Option<Pane> {
    let memory = diff.memory.as_ref()?;
    let device = memory.most_changed()?;
    let changed: Vec<&MemoryHolder> =
        memory.holders_of(device).filter(|holder| holder.change_bytes() != 0).collect();
    if changed.is_empty() {
        return None;
    }
    let owners = memory.owners(device);
    let of_rank = match memory.devices.len() {
        1 => String::new(),
        count => format!(" of rank {}, the largest change of {count} memories", device.rank),
    };
    Some(Pane {
        id: "memory",
        title: "Memory",
        question: "Who holds more memory, or less?",
        scope: format!("{}{of_rank}, {}.", short(&device.memory), device.moment_phrase()),
        empty: None,
        blocks: vec![
            Block::Bars(both(&owners)),
            Block::Table(by_owner(&owners)),
            Block::Table(by_place(&changed)),
        ],
    })
}

/// Both sides as bars of owners.
fn both(owners: &[(String, i64, i64)]) -> Bars {
    let row = |label: &str, side: fn(&(String, i64, i64)) -> i64| BarRow {
        label: label.to_owned(),
        parts: owners
            .iter()
            .filter(|owner| side(owner) > 0)
            .map(|owner| (short(&owner.0), side(owner) as f64))
            .collect(),
    };
    let title = "Memory by owner, before and after".to_owned();
    Bars::new(
        title,
        "bytes",
        vec![row("before", |owner| owner.1), row("after", |owner| owner.2)],
        true,
    )
}

fn by_owner(owners: &[(String, i64, i64)]) -> Table {
    let cells = |(owner, before, after): &(String, i64, i64)| {
        let change = after.saturating_sub(*before);
        vec![Json::from(short(owner)), Json::from(*before), Json::from(*after), Json::from(change)]
    };
    Table {
        title: "By owner".to_owned(),
        columns: vec![
            TableColumn::new("Owner", Unit::None, "what the memory is for"),
            TableColumn::new("Before", Unit::Bytes, "bytes before"),
            TableColumn::new("After", Unit::Bytes, "bytes after"),
            TableColumn::change("Change", Unit::Bytes, "after less before"),
        ],
        rows: owners.iter().map(cells).collect(),
        total: owners.len(),
        is_cut: false,
        sql: String::new(),
    }
}

fn by_place(changed: &[&MemoryHolder]) -> Table {
    let text = |place: &Option<String>| Json::from(place.as_deref().map(short));
    let cells = |holder: &&MemoryHolder| {
        vec![
            text(&holder.place),
            Json::from(short(&holder.owner_phrase())),
            Json::from(holder.before_bytes),
            Json::from(holder.after_bytes),
            Json::from(holder.change_bytes()),
            Json::from(holder.before_count),
            Json::from(holder.after_count),
            text(&holder.before_place),
        ]
    };
    Table {
        title: "Places that hold more or less".to_owned(),
        columns: vec![
            TableColumn::new("Place", Unit::None, "line, or module and operator, that allocates"),
            TableColumn::new("Owner", Unit::None, "what the memory is for"),
            TableColumn::new("Before", Unit::Bytes, "bytes before"),
            TableColumn::new("After", Unit::Bytes, "bytes after"),
            TableColumn::change("Change", Unit::Bytes, "after less before"),
            TableColumn::new("Pieces before", Unit::Count, "number of allocations before"),
            TableColumn::new("Pieces after", Unit::Count, "number of allocations after"),
            TableColumn::new("Place before", Unit::None, "if it has another line number"),
        ],
        rows: changed.iter().take(MAX_ROWS).map(cells).collect(),
        total: changed.len(),
        is_cut: false,
        sql: String::new(),
    }
}
