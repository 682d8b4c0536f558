//! Dumps of PyTorch's Flight Recorder: the collectives that ranks called last.

use super::table;

table! {
    FlightDumps / FlightDump = "flight_dumps", "one dump of PyTorch's Flight Recorder: the collectives that one rank called last";
    rank: I32, None, "rank";
    file: DictColumn, None, "file";
    version: DictColumn, None, "version of the format";
    library_version: DictColumn, None, "version of the communication library; null if the dump does not say";
    has_records: Flag, None, "the dump has a list of records, which may be empty";
    record_count: I64, Count, "records in the dump";
    oldest_record_id: OptI64, None, "lowest record_id; more than 0 if the buffer was full and older records were overwritten";
    newest_record_id: OptI64, None, "highest record_id";
}

table! {
    FlightRecords / FlightRecord = "flight_records", "one collective, or one send or receive, that a rank called";
    rank: I32, None, "rank";
    record_id: I64, None, "number of the record on its rank, from 0";
    group_name: DictColumn, None, "process group, as PyTorch names it: 0 is the default group";
    group_description: DictColumn, None, "its description: default_pg, or group_desc of new_group";
    group_ranks: DictColumn, None, "global ranks of the group, ascending: 0,1,2,3; null if the dump does not say";
    collective_seq: OptI64, None, "number of the collective in its group, from 1: the same on all ranks of the group";
    p2p_seq: OptI64, None, "number of the send or receive in its group on this rank";
    op_id: OptI64, None, "number of the operation, which tells those of a coalesced call apart";
    library: DictColumn, None, "communication library: nccl, gloo";
    operation: DictColumn, None, "operation: all_reduce, send";
    source_rank: OptI64, None, "rank that sends; null for collectives, and if it is unknown";
    target_rank: OptI64, None, "rank that receives; null for collectives";
    is_p2p: Flag, None, "a send or a receive, or the end of a coalesced list of them";
    state: DictColumn, None, "scheduled, started or completed, as the recorder saw it; gloo never gets beyond scheduled";
    is_retired: Flag, None, "the recorder no longer watches it: it completed or failed";
    ts_ns: OptI64, Ns, "time of the call; null if the dump does not say";
    started_ts_ns: OptI64, Ns, "time at which its start was noticed";
    completed_ts_ns: OptI64, Ns, "time at which its end was noticed";
    dur_ns: OptI64, Ns, "duration on the device (TORCH_NCCL_ENABLE_TIMING)";
    timeout_dur_ns: OptI64, Ns, "timeout of the operation";
    input_sizes: DictColumn, None, "sizes of the inputs: [[8, 4]]";
    input_dtypes: DictColumn, None, "types of the inputs: Float";
    input_element_count: OptI64, Count, "elements of all inputs; null if the dump has no sizes";
    output_sizes: DictColumn, None, "sizes of the outputs";
    output_dtypes: DictColumn, None, "types of the outputs";
    output_element_count: OptI64, Count, "elements of all outputs";
    file: DictColumn, None, "file of the innermost frame outside of PyTorch and installed packages, else of the innermost frame";
    line: OptI64, None, "its line";
    function: DictColumn, None, "its function";
    stack: DictColumn, None, "Python stack, innermost first";
}

table! {
    FlightProcessGroups / FlightProcessGroup = "flight_process_groups", "one process group, as the dump of one rank states its members";
    rank: I32, None, "rank of the dump";
    group_name: DictColumn, None, "process group, as PyTorch names it; gloo leaves the name empty";
    group_description: DictColumn, None, "its description";
    group_ranks: DictColumn, None, "its global ranks, ascending; of gloo, positions in the group";
    member_count: I64, Count, "ranks in the group";
}
