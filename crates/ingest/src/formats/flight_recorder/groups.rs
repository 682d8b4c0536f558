//! Process groups in a dump, and their ranks.

use std::collections::BTreeMap;

use trace_model::tables::{FlightProcessGroup, FlightProcessGroups};
use trace_model::{StrId, Strings};

use super::node::Node;

/// Process groups that are read from one dump.
const MAX_GROUPS: usize = 1 << 16;
/// Ranks of a process group that are read.
const MAX_MEMBERS: usize = 1 << 20;

/// Members of process groups by name: as text, and as numbers in ascending order.
pub(super) type Members = BTreeMap<String, (String, Vec<i64>)>;

/// Reads `{name: {name, desc, ranks}}`; returns the members of the groups that have a name.
pub(super) fn read_groups(
    groups: Node<'_>,
    strings: &mut Strings,
    table: &mut FlightProcessGroups,
) -> Members {
    let mut members = Members::new();
    for (key, group) in groups.entries().take(MAX_GROUPS) {
        let fields: BTreeMap<&str, Node<'_>> = group.entries().collect();
        let text = |key: &str| fields.get(key).and_then(|node| node.text());
        let name = text("name").unwrap_or(key);
        let mut ranks = fields.get("ranks").map(|&node| read_ranks(node)).unwrap_or_default();
        ranks.sort_unstable();
        ranks.dedup();
        let listed = ranks.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        table.push(FlightProcessGroup {
            rank: 0,
            group_name: strings.intern(name),
            group_description: match text("desc") {
                None | Some("") => StrId::NULL,
                Some(description) => strings.intern(description),
            },
            group_ranks: if ranks.is_empty() { StrId::NULL } else { strings.intern(&listed) },
            member_count: ranks.len() as i64,
        });
        // Gloo gives groups no names, and lists positions in the group, of the last group only.
        if !name.is_empty() && !ranks.is_empty() {
            members.insert(name.to_owned(), (listed, ranks));
        }
    }
    members
}

/// Ranks as a list of numbers, or as its text: `[0, 1, 2, 3]`.
fn read_ranks(node: Node<'_>) -> Vec<i64> {
    let ranks: Vec<i32> = if let Some(text) = node.text() {
        let numbers = text.trim_matches(['[', ']', ' ']).split(',').take(MAX_MEMBERS);
        numbers.filter_map(|number| number.trim().parse().ok()).collect()
    } else {
        node.items().take(MAX_MEMBERS).filter_map(|node| node.integer()?.number()).collect()
    };
    ranks.into_iter().filter(|rank| *rank >= 0).map(i64::from).collect()
}
