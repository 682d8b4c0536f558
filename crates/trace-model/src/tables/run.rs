//! The profiled run: ranks, devices, threads, steps, and how the input was read.

use super::table;

table! {
    Ranks / Rank = "ranks", "one profiled process";
    rank: I32, None, "rank: from the trace's distributedInfo, else from the file name, else in file order";
    file: DictColumn, None, "file the rank was read from (the first one, if several)";
    world_size: OptI32, None, "number of ranks in the job, as the trace states";
    backend: DictColumn, None, "communication backend, as the trace states";
    host: DictColumn, None, "host name, as the trace states";
    vendor: DictColumn, None, "dialect of the trace: nvidia, amd, mtia, or cpu if it has no device timeline; null if it is unknown: only Composer's events, Determined's metrics, a memory snapshot or a memory timeline";
    start_ns: I64, Ns, "first event";
    end_ns: I64, Ns, "end of the last event";
    base_time_ns: OptI64, Ns, "absolute time (since the Unix epoch) of zero on the run's clock, if known";
    clock: DictColumn, None, "relation of this rank's times to those of other ranks: single (one rank), absolute (wall clock, not corrected for skew), synchronized (put on the clock of the lowest rank by the barrier that Composer records), or relative (own start is zero: not comparable)";
    event_count: I64, Count, "events read";
    step_count: I32, Count, "number of profiler steps, 0 if the trace has none";
    cut_ns: OptI64, Ns, "start of the last profiler step if there are two or more: work launched from then on may be incomplete";
    steps_end_ns: OptI64, Ns, "end of the last profiler step";
    recurring_op_count: OptI32, Count, "outermost operators of a sequence that recurs without marks, where nothing tells whether in passes or in the layers of one pass; null if steps were found";
    recurrence_count: OptI32, Count, "how often that sequence occurs";
    recurrence_dur_ns: OptI64, Ns, "median from one occurrence to the next";
    has_shapes: Flag, None, "operators carry input shapes (record_shapes)";
    has_stacks: Flag, None, "Python frames or call stacks are present (with_stack)";
    has_modules: Flag, None, "nn.Module frames or hierarchy are present (with_modules or with_stack)";
    has_memory: Flag, None, "allocator events are present (profile_memory)";
}

table! {
    Devices / Device = "devices", "one accelerator as described in a rank's trace";
    rank: I32, None, "rank whose trace describes it";
    device: I32, None, "device ordinal";
    name: DictColumn, None, "product name";
    total_memory_bytes: OptI64, Bytes, "memory on the device";
    compute_major: OptI32, None, "major compute capability (gfx generation on AMD)";
    compute_minor: OptI32, None, "minor compute capability";
    sm_count: OptI32, Count, "number of streaming multiprocessors (compute units on AMD)";
    warp_size: OptI32, None, "threads per warp (wavefront on AMD)";
    max_threads_per_sm: OptI32, None, "maximum resident threads per SM";
}

table! {
    Processors / Processor = "processors", "the processor of one rank, as `advisor record` and the callbacks describe it";
    rank: I32, None, "rank whose recording describes it";
    name: DictColumn, None, "product name; null if it is not known";
    core_count: OptI32, Count, "cores that the process may use";
    thread_count: OptI32, Count, "threads that an operator of the process uses: torch.get_num_threads()";
    flags: DictColumn, None, "instruction sets that matter for the choice of a data type, as the operating system names them, separated by spaces: avx512f avx512_bf16 amx_bf16 ...; empty if it has none of them, null if they are not known";
}

table! {
    UnprofiledSteps / UnprofiledStep = "unprofiled_steps", "the steps of one rank that `advisor record` and the callbacks timed before the profiler started";
    rank: I32, None, "rank";
    step_count: I32, Count, "steps that were timed";
    mean_dur_ns: I64, Ns, "their mean duration, from the end of all device work before them to the end of theirs";
}

table! {
    Threads / Thread = "threads", "one lane of the trace: a host thread, or a stream of a device";
    rank: I32, None, "rank";
    thread: I32, None, "number of the lane within the rank, in order of first appearance";
    pid: DictColumn, None, "process id as written";
    tid: DictColumn, None, "thread id as written";
    process_name: DictColumn, None, "name given to the process";
    thread_name: DictColumn, None, "name given to the thread";
    is_device: Flag, None, "the lane holds device activity";
}

table! {
    Steps / Step = "steps", "one training step of one rank";
    rank: I32, None, "rank";
    step: I64, None, "step number as the profiler gave it";
    name: DictColumn, None, "name of the event that marks it";
    source: DictColumn, None, "kind of mark: profiler_step (ProfilerStep#n), composer (from the start of the loader's call to the end of event/batch), determined (likewise, from its timings), engine (a step that vLLM or SGLang marks), optimizer (from one Optimizer.step's end to the next), repetition (nothing marks steps, and the same operators recur, with a backward pass, a loader, a module or a range in each repetition), pass (the same operators recur in passes that do not read what the one before computed, or between which the program waits), or trace (no steps found: the whole recording as one)";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration on the host";
    ready_ns: OptI64, Ns, "moment by which earlier steps had ended, with the device work launched before this step; absent for a first step before which no device work was recorded";
    thread: OptI32, None, "host thread that ran it";
    event_id: OptI64, None, "event that marks it, if any";
    is_last: Flag, None, "true for the last step of the rank, whose device work may be cut off";
}

table! {
    EventCounts / EventCount = "event_counts", "one kind of event in one file, and the table that holds it";
    rank: I32, None, "rank";
    file: DictColumn, None, "input file";
    phase: DictColumn, None, "Chrome trace phase: X, B, E, i, C, s, f, M ...";
    category: DictColumn, None, "category as written";
    stored_in: DictColumn, None, "table that holds these events; null if they were dropped";
    event_count: I64, Count, "events of this kind";
}

table! {
    ReadingWarnings / ReadingWarning = "reading_warnings", "one kind of problem in one file: something that could not be read, was read in part, or had to be guessed";
    rank: OptI32, None, "rank of the file; null if the warning is about the run";
    file: DictColumn, None, "input file; null if the warning is about the run";
    code: DictColumn, None, "kind: truncated-json, missing-ranks, negative-duration ...";
    message: Text, None, "the problem, and what to do about it";
    warning_count: I64, Count, "number of occurrences";
}

table! {
    RecordedCapabilities / RecordedCapability = "capabilities", "one kind of data that a recording holds";
    rank: I32, None, "rank whose files hold it";
    capability: DictColumn, None, "kind of data: operator_shapes, device_activity ... (`advisor tables --capabilities` lists them with what provides each)";
}
