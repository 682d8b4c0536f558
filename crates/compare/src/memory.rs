//! Memory before and after: the peak of each device, and who holds it.
//!
//! Peaks and owners are those of the view `memory_owners`, at the peak or, where a recording has no history, in the
//! end. What one place holds is compared under the name of the place, such as `train.py:31 forward`. Places that only
//! one run has are then matched without their line numbers, which change as programs do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, Int64Array, StringArray};
use serde::Serialize;
use trace_model::RecordBatch;
use trace_model::number::human_bytes;

use crate::options::SideOptions;
use crate::rows::{assemble, documented};
use query::columns::{ints, texts};
use query::{Result, Session};

/// Memory of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryDiff {
    /// Each memory that both runs recorded, in order of ranks.
    pub devices: Vec<DeviceMemory>,
    /// What holds these memories in either run, largest change first.
    pub holders: Vec<MemoryHolder>,
}

/// The memory of one device, or of the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// Rank, after.
    pub rank: i32,
    /// `cuda:0`, `cpu` ...
    pub memory: String,
    /// Number of the device; negative for the host.
    pub device: i32,
    /// `peak`, or `end` if one of the recordings has no history.
    pub moment: &'static str,
    /// Bytes allocated at that moment before.
    pub before_bytes: i64,
    /// Bytes allocated after.
    pub after_bytes: i64,
    /// Change over the bytes before; absent if these are 0.
    pub change_ratio: Option<f64>,
    /// How the peak depends on the size of the batch; present if the runs differ in it.
    pub batch: Option<BatchScaling>,
}

/// The dependence of a peak on the size of the batch, from two runs with batches of different sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchScaling {
    /// Size of the batch after over that before: the bytes of the inputs that places hold in both runs.
    pub batch_ratio: f64,
    /// Bytes that do not depend on the batch.
    pub fixed_bytes: i64,
    /// Bytes that a batch of the size before takes beside these.
    pub batch_bytes: i64,
}

/// Allocations of one owner, made at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryHolder {
    /// Rank, after.
    pub rank: i32,
    /// `cuda:0`, `cpu` ...
    pub memory: String,
    /// `parameter`, `activation`, `gradient` ..., as in `memory_owners`.
    pub owner: String,
    /// Line, or module and operator, that allocates; absent if none is known.
    pub place: Option<String>,
    /// The place before, if it has another line number.
    pub before_place: Option<String>,
    /// Bytes before.
    pub before_bytes: i64,
    /// Bytes after.
    pub after_bytes: i64,
    /// Number of allocations before.
    pub before_count: i64,
    /// Number after.
    pub after_count: i64,
}

impl DeviceMemory {
    /// Difference after minus before.
    pub fn change_bytes(&self) -> i64 {
        self.after_bytes.saturating_sub(self.before_bytes)
    }

    /// The moment in words.
    pub fn moment_phrase(&self) -> &'static str {
        if self.moment == "peak" { "at the peak" } else { "in the end" }
    }
}

impl MemoryHolder {
    /// Difference after minus before.
    pub fn change_bytes(&self) -> i64 {
        self.after_bytes.saturating_sub(self.before_bytes)
    }

    /// The owner in words: `optimizer state`.
    pub fn owner_phrase(&self) -> String {
        owner_phrase(&self.owner)
    }
}

/// An owner of the view `memory_owners` in words: `optimizer state`.
pub fn owner_phrase(owner: &str) -> String {
    match owner {
        "older" => "allocated before the recording".to_owned(),
        "unknown" => "unknown use".to_owned(),
        owner => owner.replace('_', " "),
    }
}

impl MemoryDiff {
    /// The memory whose peak changes most in relation to what it was.
    pub fn most_changed(&self) -> Option<&DeviceMemory> {
        let change = |device: &DeviceMemory| device.change_ratio.unwrap_or(0.0).abs();
        // The first of equals.
        self.devices.iter().rev().max_by(|x, y| change(x).total_cmp(&change(y)))
    }

    /// Bytes of each owner of a memory before and after, largest change first.
    pub fn owners(&self, device: &DeviceMemory) -> Vec<(String, i64, i64)> {
        let mut owners: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for holder in self.holders_of(device) {
            let (before, after) = owners.entry(&holder.owner).or_default();
            *before = before.saturating_add(holder.before_bytes);
            *after = after.saturating_add(holder.after_bytes);
        }
        let mut owners: Vec<(String, i64, i64)> = owners
            .into_iter()
            .map(|(owner, (before, after))| (owner_phrase(owner), before, after))
            .collect();
        owners.sort_by_key(|(_, before, after)| Reverse(after.saturating_sub(*before).abs()));
        owners
    }

    /// What holds a memory, largest change first.
    pub fn holders_of<'a>(
        &'a self,
        device: &'a DeviceMemory,
    ) -> impl Iterator<Item = &'a MemoryHolder> {
        self.holders.iter().filter(|h| h.rank == device.rank && h.memory == device.memory)
    }

    /// What holds memory, as an Arrow batch.
    pub(super) fn batch(&self) -> Result<RecordBatch> {
        let rows = &self.holders;
        let text = |of: fn(&MemoryHolder) -> Option<&str>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<StringArray>())
        };
        let int = |of: fn(&MemoryHolder) -> i64| -> ArrayRef {
            Arc::new(rows.iter().map(|row| Some(of(row))).collect::<Int64Array>())
        };
        let columns = [
            ("rank", "rank", int(|row| i64::from(row.rank))),
            ("memory", "cuda:0, cpu ...", text(|row| Some(&row.memory))),
            ("owner", "what the memory is for", text(|row| Some(&row.owner))),
            (
                "place",
                "line, or module and operator, that allocates",
                text(|row| row.place.as_deref()),
            ),
            (
                "before_place",
                "the place before, if it has another line number",
                text(|row| row.before_place.as_deref()),
            ),
            ("before_bytes", "bytes before", int(|row| row.before_bytes)),
            ("after_bytes", "bytes after", int(|row| row.after_bytes)),
            ("change_bytes", "difference of these", int(MemoryHolder::change_bytes)),
            ("before_count", "number of allocations before", int(|row| row.before_count)),
            ("after_count", "number of allocations after", int(|row| row.after_count)),
        ];
        let field =
            |(name, doc, array): &(&str, &str, ArrayRef)| documented(name, array.data_type(), doc);
        let fields = columns.iter().map(field).collect();
        assemble(fields, columns.into_iter().map(|(.., array)| array).collect())
    }

    /// `peak of cuda:0 64.8 MiB -> 32.8 MiB (-49.3 %): activation -26.5 MiB, input -1.5 MiB = -28.0 MiB`.
    pub fn headline(&self) -> Option<String> {
        let change = self.change_phrase(self.most_changed()?);
        Some(match self.owners_phrase() {
            Some(owners) => format!("{change}: {owners}"),
            None => change,
        })
    }

    /// `activation -26.5 MiB, input -1.5 MiB = -28.0 MiB`; absent if nothing changed.
    pub(super) fn owners_phrase(&self) -> Option<String> {
        /// Number of owners in the sentence.
        const MAX_OWNERS: usize = 3;
        let device = self.most_changed()?;
        let mut changes: Vec<(String, i64)> = self
            .owners(device)
            .into_iter()
            .map(|(owner, before, after)| (owner, after.saturating_sub(before)))
            .filter(|(_, change)| *change != 0)
            .collect();
        let rest = changes.split_off(MAX_OWNERS.min(changes.len()));
        let rest: i64 = rest.iter().fold(0, |sum: i64, (_, change)| sum.saturating_add(*change));
        if rest != 0 {
            changes.push(("the rest".to_owned(), rest));
        }
        let terms: Vec<String> = changes
            .iter()
            .map(|(owner, change)| format!("{owner} {}", signed_bytes(*change)))
            .collect();
        let sum = match terms.len() {
            0 => return None,
            1 => String::new(),
            _ => format!(" = {}", signed_bytes(device.change_bytes())),
        };
        Some(terms.join(", ") + &sum)
    }

    /// `peak of cuda:0 64.8 MiB -> 32.8 MiB (-49.3 %)`.
    pub(super) fn change_phrase(&self, device: &DeviceMemory) -> String {
        let what = if device.moment == "peak" { "peak" } else { "allocated memory" };
        let rank = if self.devices.len() > 1 {
            format!(" of rank {}, the largest change of {}", device.rank, self.devices.len())
        } else {
            String::new()
        };
        let [before, after] =
            [device.before_bytes, device.after_bytes].map(|b| human_bytes(b as f64));
        let change = device.change_ratio.map_or_else(String::new, |ratio| {
            format!(" ({:+.1} %)", (ratio * 1000.0).round() / 10.0 + 0.0)
        });
        format!("{what} of {}{rank} {before} -> {after}{change}", device.memory)
    }
}

/// `+1.2 MiB`.
pub fn signed_bytes(bytes: i64) -> String {
    format!("{}{}", if bytes > 0 { "+" } else { "" }, human_bytes(bytes as f64))
}

/// Bytes and number of allocations.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    bytes: i64,
    count: i64,
}

/// Owner and place.
type HolderKey = (String, Option<String>);

/// One memory of a run at its moments.
#[derive(Debug, Default)]
struct Recorded {
    device: i32,
    moments: BTreeMap<String, BTreeMap<HolderKey, Amount>>,
}

impl Recorded {
    fn allocated_bytes(&self, moment: &str) -> Option<i64> {
        let holders = self.moments.get(moment)?.values();
        Some(holders.fold(0_i64, |sum, amount| sum.saturating_add(amount.bytes)))
    }
}

/// Memories of a run by rank and name.
#[derive(Debug, Default)]
pub(super) struct RunMemory {
    memories: BTreeMap<(i32, String), Recorded>,
}

impl RunMemory {
    /// Reads the memories of the requested ranks. Of several snapshots of one memory, and of snapshots and traces, it
    /// keeps that with the highest peak.
    pub(super) fn read(session: &Session, selection: &SideOptions) -> Result<Self> {
        let mut recorded: BTreeMap<(i32, String, Option<i64>), Recorded> = BTreeMap::new();
        for batch in session.analyze("memory_owners")? {
            read_owners(&batch, selection, &mut recorded)?;
        }
        let mut memories: BTreeMap<(i32, String), Recorded> = BTreeMap::new();
        for ((rank, memory, _), next) in recorded {
            let bytes = |recorded: &Recorded| {
                ["peak", "end"].map(|moment| recorded.allocated_bytes(moment))
            };
            let known = memories.get(&(rank, memory.clone()));
            if known.is_none_or(|known| bytes(&next) > bytes(known)) {
                memories.insert((rank, memory), next);
            }
        }
        Ok(Self { memories })
    }

    pub(super) fn ranks(&self) -> Vec<i32> {
        let ranks: BTreeSet<i32> = self.memories.keys().map(|(rank, _)| *rank).collect();
        ranks.into_iter().collect()
    }
}

fn read_owners(
    batch: &RecordBatch,
    selection: &SideOptions,
    recorded: &mut BTreeMap<(i32, String, Option<i64>), Recorded>,
) -> Result<()> {
    let (ranks, snapshots) = (ints(batch, "rank")?, ints(batch, "snapshot")?);
    let (devices, memories) = (ints(batch, "device")?, texts(batch, "memory")?);
    let (moments, owners) = (texts(batch, "moment")?, texts(batch, "owner")?);
    let (places, bytes) = (texts(batch, "place")?, ints(batch, "bytes")?);
    let (counts, is_allocated) = (ints(batch, "allocation_count")?, ints(batch, "is_allocated")?);
    for i in 0..batch.num_rows() {
        let rank = ranks.value(i) as i32;
        let is_selected = selection.ranks.as_ref().is_none_or(|ranks| ranks.contains(&rank));
        if is_allocated.value(i) == 0 || !is_selected {
            continue;
        }
        let snapshot = snapshots.is_valid(i).then(|| snapshots.value(i));
        let of = recorded.entry((rank, memories.value(i).to_owned(), snapshot)).or_default();
        of.device = devices.value(i) as i32;
        let place = places.is_valid(i).then(|| places.value(i).to_owned());
        let holders = of.moments.entry(moments.value(i).to_owned()).or_default();
        let amount = holders.entry((owners.value(i).to_owned(), place)).or_default();
        amount.bytes = amount.bytes.saturating_add(bytes.value(i));
        amount.count += if counts.is_valid(i) { counts.value(i) } else { 0 };
    }
    Ok(())
}

/// Compares the memories that both runs recorded. A run of one memory each is compared whatever their ranks.
pub(super) fn compare(before: RunMemory, after: RunMemory) -> Option<MemoryDiff> {
    let (mut before, after) = (before.memories, after.memories);
    if before.len() == 1
        && after.len() == 1
        && let Some((_, only)) = before.pop_first()
    {
        before = after.keys().cloned().zip([only]).collect();
    }
    let mut diff = MemoryDiff { devices: Vec::new(), holders: Vec::new() };
    for ((rank, memory), after) in &after {
        let Some(before) = before.get(&(*rank, memory.clone())) else { continue };
        let moment = ["peak", "end"].into_iter().find(|moment| {
            before.moments.contains_key(*moment) && after.moments.contains_key(*moment)
        });
        let Some(moment) = moment else { continue };
        let (Some(b), Some(a)) = (before.moments.get(moment), after.moments.get(moment)) else {
            continue;
        };
        let holders = holders(*rank, memory, b, a);
        let sum = |bytes: fn(&MemoryHolder) -> i64| {
            holders.iter().fold(0_i64, |sum, holder| sum.saturating_add(bytes(holder)))
        };
        let (before_bytes, after_bytes) = (sum(|h| h.before_bytes), sum(|h| h.after_bytes));
        diff.devices.push(DeviceMemory {
            rank: *rank,
            memory: memory.clone(),
            device: after.device,
            moment,
            before_bytes,
            after_bytes,
            change_ratio: (before_bytes > 0)
                .then(|| after_bytes as f64 / before_bytes as f64 - 1.0),
            batch: batch_scaling(&holders, before_bytes, after_bytes),
        });
        diff.holders.extend(holders);
    }
    diff.holders.sort_by_key(|holder| Reverse(holder.change_bytes().saturating_abs()));
    (!diff.devices.is_empty()).then_some(diff)
}

/// A place without the number of its line: `train.py:31 forward` is `train.py: forward`.
fn without_line(place: &str) -> String {
    let Some((file, rest)) = place.rsplit_once(':') else { return place.to_owned() };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{file}:{rest}")
}

/// Matches what one memory holds before and after.
fn holders(
    rank: i32,
    memory: &str,
    before: &BTreeMap<HolderKey, Amount>,
    after: &BTreeMap<HolderKey, Amount>,
) -> Vec<MemoryHolder> {
    let holder =
        |key: &HolderKey, b: Amount, a: Amount, before_place: Option<String>| MemoryHolder {
            rank,
            memory: memory.to_owned(),
            owner: key.0.clone(),
            place: key.1.clone(),
            before_place,
            before_bytes: b.bytes,
            after_bytes: a.bytes,
            before_count: b.count,
            after_count: a.count,
        };
    let mut holders = Vec::new();
    // By owner and place without a line, in order of lines.
    let mut moved: BTreeMap<(&str, String), Vec<&HolderKey>> = BTreeMap::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        if let Some(place) = &key.1 {
            moved.entry((&key.0, without_line(place))).or_default().push(key);
        } else {
            holders.push(holder(key, before[key], Amount::default(), None));
        }
    }
    for lines in moved.values_mut() {
        lines.reverse();
    }
    for (key, &amount) in after {
        let same = before.get(key).copied();
        let moved = key
            .1
            .as_ref()
            .filter(|_| same.is_none())
            .and_then(|place| moved.get_mut(&(key.0.as_str(), without_line(place)))?.pop());
        let before_amount = same.or_else(|| before.get(moved?).copied()).unwrap_or_default();
        let before_place = moved.and_then(|key| key.1.clone());
        holders.push(holder(key, before_amount, amount, before_place));
    }
    for key in moved.into_values().flatten() {
        holders.push(holder(key, before[key], Amount::default(), None));
    }
    holders
}

/// From the peaks of two batches: what does not depend on the batch, and what a batch takes.
fn batch_scaling(holders: &[MemoryHolder], before: i64, after: i64) -> Option<BatchScaling> {
    /// Batches differ by at least so much.
    const MIN_CHANGE: f64 = 0.01;
    let inputs: Vec<&MemoryHolder> =
        holders.iter().filter(|h| h.owner == "input" && h.before_bytes > 0).collect();
    let is_same_count = |h: &&MemoryHolder| h.before_count == h.after_count;
    // Prefetched batches would count as larger ones.
    if inputs.is_empty() || !inputs.iter().all(is_same_count) {
        return None;
    }
    let sum = |bytes: fn(&MemoryHolder) -> i64| inputs.iter().map(|h| bytes(h) as f64).sum::<f64>();
    let batch_ratio = sum(|h| h.after_bytes) / sum(|h| h.before_bytes);
    if (batch_ratio - 1.0).abs() < MIN_CHANGE {
        return None;
    }
    let batch = (after as f64 - before as f64) / (batch_ratio - 1.0);
    let fixed = before as f64 - batch;
    // Something else changed, too.
    (batch >= 0.0 && fixed >= 0.0).then_some(BatchScaling {
        batch_ratio,
        fixed_bytes: fixed as i64,
        batch_bytes: batch as i64,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Amount, HolderKey, batch_scaling, holders, without_line};

    fn held(rows: &[(&str, &str, i64)]) -> BTreeMap<HolderKey, Amount> {
        let row = |&(owner, place, bytes): &(&str, &str, i64)| {
            let place = (!place.is_empty()).then(|| place.to_owned());
            ((owner.to_owned(), place), Amount { bytes, count: 1 })
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn holders_match_places_then_places_without_lines() {
        let before = held(&[
            ("activation", "train.py:31 forward", 100),
            ("activation", "train.py:40 forward", 10),
            ("activation", "train.py:52 loss", 5),
            ("temporary", "", 7),
        ]);
        let after = held(&[
            ("activation", "train.py:31 forward", 150),
            ("activation", "train.py:44 forward", 20),
            ("gradient", "train.py:52 loss", 9),
        ]);
        let rows: Vec<(String, String, i64, i64)> = holders(0, "cuda:0", &before, &after)
            .into_iter()
            .map(|h| {
                let places = [h.before_place, h.place].map(Option::unwrap_or_default);
                (h.owner, places.join(" > "), h.before_bytes, h.after_bytes)
            })
            .collect();
        let row = |owner: &str, places: &str, b, a| (owner.to_owned(), places.to_owned(), b, a);
        assert_eq!(
            rows,
            [
                row("temporary", " > ", 7, 0),
                row("activation", " > train.py:31 forward", 100, 150),
                row("activation", "train.py:40 forward > train.py:44 forward", 10, 20),
                row("gradient", " > train.py:52 loss", 0, 9),
                row("activation", " > train.py:52 loss", 5, 0),
            ]
        );
    }

    #[test]
    fn without_line_keeps_the_rest() {
        assert_eq!(without_line("train.py:31 forward"), "train.py: forward");
        assert_eq!(without_line("C:/a/train.py:31 forward"), "C:/a/train.py: forward");
        assert_eq!(without_line("Linear, aten::mm"), "Linear, aten::mm");
    }

    #[test]
    fn batch_scaling_separates_what_is_fixed() {
        let scaling = |inputs: [i64; 2], peaks: [i64; 2]| {
            let [before, after] = inputs.map(|bytes| held(&[("input", "train.py:9 load", bytes)]));
            batch_scaling(&holders(0, "cuda:0", &before, &after), peaks[0], peaks[1])
        };
        let found = scaling([8, 16], [1000, 1600]).unwrap();
        assert_eq!((found.batch_ratio, found.fixed_bytes, found.batch_bytes), (2.0, 400, 600));
        assert_eq!(scaling([8, 8], [1000, 1600]), None, "the batch is the same");
        assert_eq!(scaling([8, 16], [1000, 900]), None, "something else changed");
    }
}
