//! What counts as one collective, by example.

use std::collections::HashMap;

use super::calls::{Facts, HostEvent, KernelEvent, Unit, units};

fn event(event_id: i64, name: &'static str, ts_ns: i64, dur_ns: i64) -> HostEvent<'static> {
    HostEvent { event_id, name, ts_ns, dur_ns, external_id: Some(event_id), ..HostEvent::default() }
}

fn kernel(event_id: i64, op: Option<i64>, ts_ns: i64, dur_ns: i64) -> KernelEvent<'static> {
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    KernelEvent { event_id, name, ts_ns, dur_ns, op, ..KernelEvent::default() }
}

fn said(name: &'static str, sequence: i64) -> Facts<'static> {
    Facts { name: Some(name), sequence: Some(sequence), ..Facts::default() }
}

/// Name, kernels, and from when to when.
type Summary = (&'static str, u32, Option<(i64, i64)>);

fn summary(units: &[Unit<'_>]) -> Vec<Summary> {
    units.iter().map(|unit| (unit.name, unit.kernels, unit.interval())).collect()
}

#[test]
fn what_lies_inside_each_other_is_one() {
    let events = [
        event(1, "_c10d_functional::all_reduce", 0, 100),
        event(2, "c10d::allreduce_", 10, 80),
        event(3, "record_param_comms", 20, 60),
        event(4, "nccl:all_reduce", 30, 40),
        event(5, "_c10d_functional::wait_tensor", 110, 5),
    ];
    let facts = HashMap::from([(3, said("allreduce", 7))]);
    // By the launching operator, by external id, and in two pieces.
    for kernels in [
        vec![kernel(9, Some(3), 200, 50)],
        vec![KernelEvent { external_id: Some(4), ..kernel(9, None, 200, 50) }],
        vec![kernel(9, Some(3), 200, 20), kernel(10, Some(3), 230, 20)],
    ] {
        let found = units(&events, &kernels, &facts);
        let count = kernels.len() as u32;
        assert_eq!(summary(&found), [("all_reduce", count, Some((200, 250)))]);
        assert_eq!((found[0].event_id, found[0].facts.sequence), (3, Some(7)));
        assert_eq!(found[0].backend, Some("nccl"));
    }
}

#[test]
fn one_call_may_hold_several() {
    let events = [
        event(1, "c10d::batch_isend_irecv", 0, 100),
        event(2, "record_param_comms", 10, 10),
        event(3, "record_param_comms", 30, 10),
        event(4, "record_param_comms", 50, 10),
    ];
    let facts = HashMap::from([(2, said("send", 1)), (3, said("recv", 2)), (4, said("wait", 3))]);
    assert_eq!(summary(&units(&events, &[], &facts)), [("send", 0, None), ("recv", 0, None)]);
}

#[test]
fn a_barrier_is_none_of_the_all_reduces_it_is_made_of() {
    let events = [
        event(1, "c10d::barrier", 0, 100),
        event(2, "record_param_comms", 10, 80),
        event(3, "record_param_comms", 20, 40),
        event(4, "nccl:all_reduce_barrier", 30, 20),
    ];
    let facts = HashMap::from([(2, said("barrier", 1)), (3, said("allreduce", 1))]);
    let found = units(&events, &[kernel(9, Some(3), 200, 5)], &facts);
    assert_eq!(summary(&found), [("barrier", 1, Some((200, 205)))]);
}

#[test]
fn with_gloo_one_thread_asks_and_another_runs() {
    let on = |thread, event: HostEvent<'static>| HostEvent { thread, ..event };
    let events = [
        on(1, event(1, "c10d::allreduce_", 0, 10)),
        on(1, event(2, "record_param_comms", 2, 5)),
        on(2, event(3, "gloo:all_reduce", 8, 90)),
    ];
    let found = units(&events, &[], &HashMap::from([(2, said("allreduce", 5))]));
    assert_eq!(summary(&found), [("all_reduce", 0, Some((8, 98)))]);
    assert_eq!((found[0].event_id, found[0].facts.sequence), (3, Some(5)));
}

#[test]
fn kernels_alone_speak_for_themselves() {
    let found =
        units(&[], &[kernel(9, None, 200, 5), kernel(10, Some(77), 300, 5)], &HashMap::new());
    assert_eq!(
        summary(&found),
        [("all_reduce", 1, Some((200, 205))), ("all_reduce", 1, Some((300, 305)))]
    );
    // What the kernel says of itself is worth more than its name.
    let facts = HashMap::from([(9, said("_reduce_scatter_base", 4))]);
    assert_eq!(units(&[], &[kernel(9, None, 0, 5)], &facts)[0].name, "reduce_scatter");
}

#[test]
fn a_call_that_only_enqueues_has_no_time() {
    let found = units(&[event(1, "nccl:all_to_all", 0, 100)], &[], &HashMap::new());
    assert_eq!(summary(&found), [("all_to_all", 0, None)]);
    let found = units(&[event(1, "c10d::alltoall_base_", 0, 100)], &[], &HashMap::new());
    assert_eq!(summary(&found), [("all_to_all", 0, None)]);
}

#[test]
fn an_external_id_used_twice_means_the_call_before_the_kernel() {
    let twice = |ts| HostEvent { external_id: Some(5), ..event(ts, "nccl:all_reduce", ts, 10) };
    let launched = |ts| KernelEvent { external_id: Some(5), ..kernel(100 + ts, None, ts, 10) };
    let events = [twice(10), twice(50)];
    let found = units(&events, &[launched(30), launched(70)], &HashMap::new());
    assert_eq!(
        summary(&found),
        [("all_reduce", 1, Some((30, 40))), ("all_reduce", 1, Some((70, 80)))]
    );
}
