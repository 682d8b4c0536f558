//! Examples of the events that make up one collective.

use std::collections::HashMap;

use super::calls::{CollectiveCall, CollectiveMetadata, HostEvent, KernelEvent, collective_calls};

fn event(event_id: i64, name: &'static str, ts_ns: i64, dur_ns: i64) -> HostEvent<'static> {
    HostEvent { event_id, name, ts_ns, dur_ns, external_id: Some(event_id), ..HostEvent::default() }
}

fn kernel(event_id: i64, op: Option<i64>, ts_ns: i64, dur_ns: i64) -> KernelEvent<'static> {
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    KernelEvent { event_id, name, ts_ns, dur_ns, op, ..KernelEvent::default() }
}

fn stated(name: &'static str, sequence: i64) -> CollectiveMetadata<'static> {
    CollectiveMetadata {
        name: Some(name),
        sequence: Some(sequence),
        ..CollectiveMetadata::default()
    }
}

/// Name, number of kernels, and the interval in which it ran.
type Summary = (&'static str, u32, Option<(i64, i64)>);

fn summary(calls: &[CollectiveCall<'_>]) -> Vec<Summary> {
    calls.iter().map(|call| (call.name, call.kernel_count, call.interval())).collect()
}

#[test]
fn collective_calls_merges_nested_events() {
    let events = [
        event(1, "_c10d_functional::all_reduce", 0, 100),
        event(2, "c10d::allreduce_", 10, 80),
        event(3, "record_param_comms", 20, 60),
        event(4, "nccl:all_reduce", 30, 40),
        event(5, "_c10d_functional::wait_tensor", 110, 5),
    ];
    let metadata = HashMap::from([(3, stated("allreduce", 7))]);
    // Kernels attached by the launching operator, by external id, and as two kernels of one call.
    for kernels in [
        vec![kernel(9, Some(3), 200, 50)],
        vec![KernelEvent { external_id: Some(4), ..kernel(9, None, 200, 50) }],
        vec![kernel(9, Some(3), 200, 20), kernel(10, Some(3), 230, 20)],
    ] {
        let found = collective_calls(&events, &kernels, &metadata);
        let count = kernels.len() as u32;
        assert_eq!(summary(&found), [("all_reduce", count, Some((200, 250)))]);
        assert_eq!((found[0].event_id, found[0].metadata.sequence), (3, Some(7)));
        assert_eq!(found[0].backend, Some("nccl"));
    }
}

#[test]
fn collective_calls_splits_a_framework_call_with_several_descriptions() {
    let events = [
        event(1, "c10d::batch_isend_irecv", 0, 100),
        event(2, "record_param_comms", 10, 10),
        event(3, "record_param_comms", 30, 10),
        event(4, "record_param_comms", 50, 10),
    ];
    let metadata =
        HashMap::from([(2, stated("send", 1)), (3, stated("recv", 2)), (4, stated("wait", 3))]);
    assert_eq!(
        summary(&collective_calls(&events, &[], &metadata)),
        [("send", 0, None), ("recv", 0, None)]
    );
}

#[test]
fn collective_calls_names_a_barrier_after_its_outer_description() {
    let events = [
        event(1, "c10d::barrier", 0, 100),
        event(2, "record_param_comms", 10, 80),
        event(3, "record_param_comms", 20, 40),
        event(4, "nccl:all_reduce_barrier", 30, 20),
    ];
    let metadata = HashMap::from([(2, stated("barrier", 1)), (3, stated("allreduce", 1))]);
    let found = collective_calls(&events, &[kernel(9, Some(3), 200, 5)], &metadata);
    assert_eq!(summary(&found), [("barrier", 1, Some((200, 205)))]);
}

#[test]
fn collective_calls_drops_the_enqueuing_half_of_gloo() {
    let on = |thread, event: HostEvent<'static>| HostEvent { thread, ..event };
    let events = [
        on(1, event(1, "c10d::allreduce_", 0, 10)),
        on(1, event(2, "record_param_comms", 2, 5)),
        on(2, event(3, "gloo:all_reduce", 8, 90)),
    ];
    let found = collective_calls(&events, &[], &HashMap::from([(2, stated("allreduce", 5))]));
    assert_eq!(summary(&found), [("all_reduce", 0, Some((8, 98)))]);
    assert_eq!((found[0].event_id, found[0].metadata.sequence), (3, Some(5)));
}

#[test]
fn collective_calls_makes_a_call_of_each_unattached_kernel() {
    let found = collective_calls(
        &[],
        &[kernel(9, None, 200, 5), kernel(10, Some(77), 300, 5)],
        &HashMap::new(),
    );
    assert_eq!(
        summary(&found),
        [("all_reduce", 1, Some((200, 205))), ("all_reduce", 1, Some((300, 305)))]
    );
    // The metadata of a kernel take precedence over its name.
    let metadata = HashMap::from([(9, stated("_reduce_scatter_base", 4))]);
    assert_eq!(
        collective_calls(&[], &[kernel(9, None, 0, 5)], &metadata)[0].name,
        "reduce_scatter"
    );
}

#[test]
fn collective_calls_have_no_interval_when_only_enqueued() {
    let found = collective_calls(&[event(1, "nccl:all_to_all", 0, 100)], &[], &HashMap::new());
    assert_eq!(summary(&found), [("all_to_all", 0, None)]);
    let found = collective_calls(&[event(1, "c10d::alltoall_base_", 0, 100)], &[], &HashMap::new());
    assert_eq!(summary(&found), [("all_to_all", 0, None)]);
}

#[test]
fn collective_calls_resolves_a_repeated_external_id_to_the_preceding_call() {
    let twice = |ts| HostEvent { external_id: Some(5), ..event(ts, "nccl:all_reduce", ts, 10) };
    let launched = |ts| KernelEvent { external_id: Some(5), ..kernel(100 + ts, None, ts, 10) };
    let events = [twice(10), twice(50)];
    let found = collective_calls(&events, &[launched(30), launched(70)], &HashMap::new());
    assert_eq!(
        summary(&found),
        [("all_reduce", 1, Some((30, 40))), ("all_reduce", 1, Some((70, 80)))]
    );
}
