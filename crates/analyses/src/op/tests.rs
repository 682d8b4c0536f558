//! Checks call trees by hand on small ones, and by brute force on random ones.

use proptest::prelude::*;

use super::calls::{SubtreeTotals, subtree_totals};
use super::kernel_sequences::{CallSelection, find_sequences};
use super::load::RankCalls;
use crate::call_tree::{CallKind, HostCall, LaunchedActivity, NameMark, PreorderTree};

fn call(id: i64, parent: Option<i64>, name: u32, ts_ns: i64, dur_ns: i64) -> HostCall {
    HostCall {
        id,
        parent,
        thread: 0,
        ts_ns,
        dur_ns,
        self_dur_ns: dur_ns,
        name,
        kind: CallKind::Operator,
    }
}

fn work(launch: i64, name: u32, ts_ns: i64, dur_ns: i64) -> LaunchedActivity {
    LaunchedActivity { launch, ts_ns, end_ns: ts_ns + dur_ns, dur_ns, name }
}

fn rank(calls: Vec<HostCall>, work: Vec<LaunchedActivity>, marks: &[NameMark]) -> RankCalls {
    RankCalls { rank: 0, tree: PreorderTree::new(calls, &work, marks), work }
}

/// By event id: parent, depth and totals.
fn by_id(rank: &RankCalls) -> Vec<(i64, Option<i64>, i32, SubtreeTotals)> {
    let RankCalls { tree, work, .. } = rank;
    let totals = subtree_totals(tree, work);
    let mut rows: Vec<_> = (0..tree.calls.len())
        .map(|at| {
            let parent = tree.parents[at].map(|parent| tree.calls[parent as usize].id);
            (tree.calls[at].id, parent, tree.depths[at], totals[at])
        })
        .collect();
    rows.sort_by_key(|row| row.0);
    rows
}

#[test]
fn subtree_totals_include_work_launched_below() {
    let calls = vec![
        call(1, None, 0, 0, 100),
        call(2, Some(1), 0, 10, 10),
        call(3, Some(1), 0, 30, 10),
        call(4, Some(3), 0, 31, 1),
    ];
    let rank = rank(calls, vec![work(4, 0, 500, 7), work(2, 0, 600, 5), work(99, 0, 0, 1)], &[]);
    let totals = |kernel_count, kernel_dur_ns, kernels_ns, height| SubtreeTotals {
        kernel_count,
        kernel_dur_ns,
        kernels_ns,
        height,
    };
    assert_eq!(
        by_id(&rank),
        [
            (1, None, 0, totals(2, 12, Some((500, 605)), 3)),
            (2, Some(1), 1, totals(1, 5, Some((600, 605)), 1)),
            (3, Some(1), 1, totals(1, 7, Some((500, 507)), 2)),
            (4, Some(3), 2, totals(1, 7, Some((500, 507)), 1)),
        ]
    );
}

/// Names: 0 any, 1 `ProfilerStep#1`, 2 `autograd::engine`, 3 `## backward ##`.
const MARKS: [NameMark; 4] =
    [NameMark::None, NameMark::Step, NameMark::Autograd, NameMark::Backward];

#[test]
fn backward_threads_attach_to_the_enclosing_step_or_annotation() {
    let backward = |id, ts_ns, dur_ns| HostCall { thread: 1, ..call(id, None, 2, ts_ns, dur_ns) };
    let mut calls = vec![
        call(1, None, 1, 0, 100),
        call(2, None, 1, 100, 100),
        backward(3, 50, 10),
        backward(4, 150, 10),
        backward(5, 190, 20),
    ];
    let parents = |calls: &[HostCall]| -> Vec<Option<i64>> {
        by_id(&rank(calls.to_vec(), vec![], &MARKS)).into_iter().map(|row| row.1).collect()
    };
    assert_eq!(
        parents(&calls),
        [None, None, Some(1), Some(2), None],
        "the last call outlasts its step"
    );
    // A backward annotation is nearer than the step.
    calls.push(call(6, Some(1), 3, 40, 30));
    assert_eq!(parents(&calls), [None, None, Some(6), None, None, Some(1)]);
    // With two autograd threads nothing is attached.
    calls.push(HostCall { thread: 2, ..call(7, None, 2, 50, 10) });
    assert_eq!(parents(&calls), [None, None, None, None, None, Some(1), None]);
}

#[test]
fn calls_without_their_parent_are_at_the_top() {
    let rank = rank(vec![call(2, Some(1), 0, 10, 10)], vec![], &[]);
    assert_eq!(by_id(&rank)[0].1, None);
}

fn sequences(
    rank: &RankCalls,
    selection: &CallSelection,
    min_kernels: usize,
) -> Vec<(Vec<u32>, i64, i64, i64)> {
    find_sequences(rank, selection, min_kernels)
        .into_iter()
        .map(|s| (s.names.to_vec(), s.count, s.device_dur_ns, s.host_dur_ns))
        .collect()
}

#[test]
fn find_sequences_orders_kernels_by_start() {
    let calls = vec![
        call(1, None, 0, 0, 50),
        call(2, Some(1), 1, 5, 5),
        call(3, Some(1), 1, 15, 5),
        call(4, None, 0, 100, 50),
        call(5, Some(4), 1, 105, 5),
        call(6, Some(4), 1, 115, 5),
    ];
    // Both times the second launch runs first, on another stream.
    let work = vec![work(3, 8, 200, 1), work(2, 9, 300, 2), work(6, 8, 400, 4), work(5, 9, 500, 8)];
    let rank = rank(calls, work, &[]);
    let outer = CallSelection::Named(vec![true, false]);
    assert_eq!(sequences(&rank, &outer, 2), [(vec![0, 8, 9], 2, 15, 100)]);
    assert_eq!(sequences(&rank, &outer, 3), []);
    let all = sequences(&rank, &CallSelection::All, 1);
    assert_eq!(
        all,
        [(vec![0, 8, 9], 2, 15, 100), (vec![1, 9], 2, 10, 10), (vec![1, 8], 2, 5, 10)],
        "each name by itself"
    );
}

#[test]
fn find_sequences_counts_only_calls_of_least_depth() {
    let calls = vec![
        call(1, None, 0, 0, 50),
        call(2, Some(1), 1, 5, 5),
        call(3, None, 2, 100, 50),
        call(4, Some(3), 2, 105, 5),
        call(5, Some(4), 1, 106, 1),
    ];
    let rank = rank(calls, vec![work(2, 7, 200, 1), work(5, 7, 300, 1)], &[]);
    // One of the calls named 1 is deeper and does not count, nor does the inner call named 2.
    assert_eq!(
        sequences(&rank, &CallSelection::Named(vec![false, true]), 1),
        [(vec![1, 7], 1, 1, 5)]
    );
    let both = CallSelection::Named(vec![false, true, true]);
    assert_eq!(sequences(&rank, &both, 1), [(vec![2, 7], 1, 1, 50)]);
}

/// Calls that may be below any earlier one, and work launched by any.
fn forest() -> impl Strategy<Value = (Vec<HostCall>, Vec<LaunchedActivity>)> {
    let calls =
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0_u32..3), 1..40);
    calls.prop_flat_map(|drawn| {
        let calls: Vec<HostCall> = drawn
            .iter()
            .enumerate()
            .map(|(i, (parent, root, name))| {
                let parent = (i > 0 && !root).then(|| parent.index(i) as i64);
                call(i as i64, parent, *name, i as i64, 1 + i as i64 % 3)
            })
            .collect();
        let launches = calls.len() as i64 + 1;
        let drawn = prop::collection::vec((0..launches, 0_u32..3, 0_i64..50, 1_i64..9), 0..40);
        (Just(calls), drawn).prop_map(|(calls, mut drawn)| {
            drawn.sort_by_key(|w| w.2);
            (calls, drawn.into_iter().map(|(l, n, t, d)| work(l, n, t, d)).collect())
        })
    })
}

/// The call itself and everything above it.
fn chain(calls: &[HostCall], id: i64) -> Vec<i64> {
    let mut chain = vec![id];
    while let Some(parent) =
        calls.iter().find(|c| c.id == chain[chain.len() - 1]).and_then(|c| c.parent)
    {
        chain.push(parent);
    }
    chain
}

proptest! {
    #[test]
    fn totals_and_sequences_agree_with_brute_force((calls, work) in forest()) {
        let below_id = |id: i64| -> Vec<&LaunchedActivity> {
            work.iter()
                .filter(|w| calls.iter().any(|c| c.id == w.launch))
                .filter(|w| chain(&calls, w.launch).contains(&id))
                .collect()
        };
        let rank = rank(calls.clone(), work.clone(), &[]);
        for (id, parent, depth, found) in by_id(&rank) {
            prop_assert_eq!(parent, calls[id as usize].parent);
            prop_assert_eq!(depth as usize, chain(&calls, id).len() - 1);
            let below = below_id(id);
            prop_assert_eq!(found.kernel_count as usize, below.len());
            prop_assert_eq!(found.kernel_dur_ns, below.iter().map(|w| w.dur_ns).sum::<i64>());
            let span = below.iter().map(|w| w.ts_ns).min().zip(below.iter().map(|w| w.end_ns).max());
            prop_assert_eq!(found.kernels_ns, span);
            let height = calls
                .iter()
                .filter_map(|c| chain(&calls, c.id).iter().position(|&above| above == id))
                .max();
            prop_assert_eq!(found.height as usize, height.unwrap() + 1);
        }

        let selection = CallSelection::Named(vec![true, false, true]);
        let named = |c: &&HostCall| c.name != 1;
        let depth = |c: &HostCall| chain(&calls, c.id).len();
        let least = calls.iter().filter(named).map(depth).min();
        let mut expected: Vec<(Vec<u32>, i64, i64, i64)> = Vec::new();
        for root in calls.iter().filter(named).filter(|c| Some(depth(c)) == least) {
            let below = below_id(root.id);
            if below.is_empty() {
                continue;
            }
            let names: Vec<u32> =
                std::iter::once(root.name).chain(below.iter().map(|w| w.name)).collect();
            let device_ns: i64 = below.iter().map(|w| w.dur_ns).sum();
            match expected.iter_mut().find(|e| e.0 == names) {
                Some(known) => {
                    known.1 += 1;
                    known.2 += device_ns;
                    known.3 += root.dur_ns;
                }
                None => expected.push((names, 1, device_ns, root.dur_ns)),
            }
        }
        let mut found = sequences(&rank, &selection, 1);
        prop_assert!(found.is_sorted_by_key(|s| std::cmp::Reverse((s.1, s.2))));
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}
