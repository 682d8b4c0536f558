//! The kinds of data that a recording holds, rank by rank: what requirements of rules are checked against.

use std::collections::BTreeMap;

use trace_model::{Capabilities, Capability, MetricTable};

/// The view with one row per rank and capability that it holds.
pub(crate) const CAPABILITIES_VIEW: &str = "run_capabilities";

/// The capabilities of a recording; unknown if the recording was stored before they were.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldCapabilities(Option<ByRank>);

#[derive(Debug, Clone, Default)]
struct ByRank {
    /// What the run as a whole holds: it counts for each rank.
    run: Capabilities,
    ranks: BTreeMap<i64, Capabilities>,
    /// Capabilities of any rank or of the run.
    any: Capabilities,
}

impl HeldCapabilities {
    /// Reads [`CAPABILITIES_VIEW`]. Unknown if it was not computed or has no rows: every recording holds something.
    pub(crate) fn read(tables: &[MetricTable]) -> Self {
        let Some(table) = tables.iter().find(|table| table.view == CAPABILITIES_VIEW) else {
            return Self(None);
        };
        if table.rows.is_empty() || ["rank", "capability"].iter().any(|c| table.index(c).is_none())
        {
            return Self(None);
        }
        let mut held = ByRank::default();
        for row in table.named_rows() {
            // A later version of the program may have stored a name that this one does not know.
            let Some(capability) = row.text("capability").and_then(Capability::parse) else {
                continue;
            };
            let of_rank = match row.integer("rank") {
                Some(rank) => held.ranks.entry(rank).or_default(),
                None => &mut held.run,
            };
            of_rank.insert(capability);
            held.any.insert(capability);
        }
        Self(Some(held))
    }

    /// The capabilities that a test of a rule states: all but those that the recording lacks.
    pub(crate) fn all_but(lacks: &[Capability]) -> Self {
        let held = Capability::ALL.iter().copied().filter(|capability| !lacks.contains(capability));
        let held: Capabilities = held.collect();
        Self(Some(ByRank { run: held, ranks: BTreeMap::new(), any: held }))
    }

    /// What a rank holds, or without a rank what any rank holds; `None` if that is unknown.
    pub(crate) fn of(&self, rank: Option<i64>) -> Option<Capabilities> {
        let held = self.0.as_ref()?;
        Some(match rank {
            Some(rank) => held.ranks.get(&rank).copied().unwrap_or_default().union(held.run),
            None => held.any,
        })
    }
}

/// The needs that are missing; all of them if it is unknown what the recording holds.
pub(crate) fn missing(needs: &[Capability], held: Option<Capabilities>) -> Vec<Capability> {
    let is_held = |need: &Capability| held.is_some_and(|held| held.has(*need));
    needs.iter().copied().filter(|need| !is_held(need)).collect()
}

#[cfg(test)]
mod tests {
    use trace_model::Capability::{DeviceActivity, OperatorShapes, SeveralRanks};
    use trace_model::{MetricTable, Unit, Value};

    use super::{CAPABILITIES_VIEW, HeldCapabilities, missing};

    fn table(rows: &[(Option<i64>, &str)]) -> MetricTable {
        let row = |(rank, name): &(Option<i64>, &str)| {
            vec![rank.map_or(Value::Null, Value::Int), Value::Text((*name).to_owned())]
        };
        MetricTable {
            view: CAPABILITIES_VIEW.to_owned(),
            columns: ["rank", "capability"].map(|name| (name.to_owned(), Unit::None)).into(),
            rows: rows.iter().map(row).collect(),
            when_empty: String::new(),
        }
    }

    #[test]
    fn a_rank_holds_its_own_capabilities_and_those_of_the_run() {
        let rows = [
            (Some(0), "operator_shapes"),
            (Some(1), "device_activity"),
            (Some(1), "a_name_of_later_versions"),
            (None, "several_ranks"),
        ];
        let held = HeldCapabilities::read(&[table(&rows)]);
        let needs = [OperatorShapes, DeviceActivity, SeveralRanks];
        assert_eq!(missing(&needs, held.of(Some(0))), [DeviceActivity]);
        assert_eq!(missing(&needs, held.of(Some(1))), [OperatorShapes]);
        assert_eq!(missing(&needs, held.of(Some(2))), [OperatorShapes, DeviceActivity]);
        assert_eq!(missing(&needs, held.of(None)), []);
    }

    #[test]
    fn nothing_is_known_of_a_recording_without_the_table() {
        for tables in [&[][..], &[table(&[])]] {
            let held = HeldCapabilities::read(tables);
            assert_eq!(held.of(Some(0)), None);
            assert_eq!(missing(&[OperatorShapes], held.of(None)), [OperatorShapes]);
        }
    }

    #[test]
    fn tests_state_what_the_recording_lacks() {
        let held = HeldCapabilities::all_but(&[DeviceActivity]);
        assert_eq!(missing(&[OperatorShapes, DeviceActivity], held.of(Some(3))), [DeviceActivity]);
    }
}
