//! What was profiled: ranks, devices, threads, steps, and how the input was read.

use super::table;

table! {
    Ranks / Rank = "ranks", "one profiled process";
    rank: I32, None, "rank: from the trace's distributedInfo, else from the file name, else in file order";
    file: Name, None, "file the rank was read from (the first one, if several)";
    world_size: OptI32, None, "ranks in the job, as the trace says";
    backend: Name, None, "communication backend, as the trace says";
    host: Name, None, "host name, as the trace says";
    vendor: Name, None, "dialect of the trace: nvidia, amd, mtia, cpu when it holds no device timeline; absent where nothing tells: only Composer's events, Determined's metrics, a memory snapshot or a memory timeline";
    start_ns: I64, Ns, "first event";
    end_ns: I64, Ns, "end of the last event";
    base_time_ns: OptI64, Ns, "absolute time (Unix epoch) of zero on the run's clock, where known";
    clock: Name, None, "how this rank's times relate to the others': single, absolute (a shared wall clock, not corrected for skew), synchronised (put on the clock of the lowest rank by the barrier that Composer stamps), or relative (own start is zero: not comparable)";
    event_count: I64, Count, "events read";
    step_count: I32, Count, "profiler steps found, 0 if the trace has none";
    cut_ns: OptI64, Ns, "start of the last profiler step when there are two or more: work launched from here on is incomplete";
    steps_end_ns: OptI64, Ns, "end of the last profiler step";
    has_shapes: Flag, None, "operators carry input shapes (record_shapes)";
    has_stacks: Flag, None, "Python frames or call stacks are present (with_stack)";
    has_modules: Flag, None, "nn.Module frames or hierarchy are present (with_modules or with_stack)";
    has_memory: Flag, None, "allocator events are present (profile_memory)";
}

table! {
    Devices / Device = "devices", "one accelerator as described in a rank's trace";
    rank: I32, None, "rank whose trace describes it";
    device: I32, None, "device ordinal";
    name: Name, None, "product name";
    total_memory_bytes: OptI64, Bytes, "memory on the device";
    compute_major: OptI32, None, "major compute capability (gfx generation on AMD)";
    compute_minor: OptI32, None, "minor compute capability";
    sm_count: OptI32, Count, "streaming multiprocessors (compute units on AMD)";
    warp_size: OptI32, None, "threads in a warp (wavefront on AMD)";
    max_threads_per_sm: OptI32, None, "resident threads an SM can hold";
}

table! {
    Threads / Thread = "threads", "one lane of the trace: a host thread, or a stream of a device";
    rank: I32, None, "rank";
    thread: I32, None, "number of the lane within the rank, in order of first appearance";
    pid: Name, None, "process id as written";
    tid: Name, None, "thread id as written";
    process_name: Name, None, "name given to the process";
    thread_name: Name, None, "name given to the thread";
    is_device: Flag, None, "the lane holds device activity";
}

table! {
    Steps / Step = "steps", "one training step of one rank";
    rank: I32, None, "rank";
    step: I64, None, "step number as the profiler gave it";
    name: Name, None, "name of the event that marks it";
    source: Name, None, "what marks it: profiler_step (ProfilerStep#n), composer (from the start of the loader's call to the end of event/batch), determined (likewise, from its timings), optimizer (from one Optimizer.step's end to the next), or trace (no steps found: the whole recording as one)";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "length on the host";
    thread: OptI32, None, "host thread that ran it";
    event_id: OptI64, None, "marking event, if there is one";
    is_last: Flag, None, "the last step of the rank: the device work it launched may be cut off";
}

table! {
    EventCounts / EventCount = "event_counts", "one kind of event in one file, and what became of it";
    rank: I32, None, "rank";
    file: Name, None, "input file";
    phase: Name, None, "Chrome trace phase: X, B, E, i, C, s, f, M ...";
    category: Name, None, "category as written";
    stored_in: Name, None, "table that holds these events; absent if they were set aside";
    event_count: I64, Count, "events of this kind";
}

table! {
    ReadingWarnings / ReadingWarning = "reading_warnings", "one kind of thing in one file that could not be read, was read only in part, or had to be guessed";
    rank: OptI32, None, "rank of the file; absent where it concerns the run";
    file: Name, None, "input file; absent where it concerns the run";
    code: Name, None, "kind: truncated-json, missing-ranks, negative-duration ...";
    message: Text, None, "what happened, and what can be done about it";
    warning_count: I64, Count, "how often";
}
