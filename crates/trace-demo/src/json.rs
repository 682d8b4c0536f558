//! Writes records as Kineto does: the same keys in the same order, one event after another.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::faults;
use super::model::Kernel;
use super::record::{Exchange, HostKind, MeshExchange, Name, Record, Thread};
use super::sim::{COMM, COMPUTE, DEVICE_BYTES, START_NS};

/// Bytes collected before they are written to the output.
const CHUNK: usize = 1 << 16;
/// Absolute time of zero on the trace's clock.
const BASE_NS: i64 = 1_759_000_000_000_000_000;

/// Absolute time of an event, as the profiler puts it into file names.
pub(super) fn absolute_ns(ts: i64) -> i64 {
    BASE_NS + ts
}

/// The events that one pass over the simulation writes. Kineto writes the sections in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Host,
    Memory,
    Python,
    Device,
}

/// Writes the trace of one rank.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    text: String,
    rank: u32,
    ranks: u32,
    event_index: u64,
    first: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, rank: u32, ranks: u32) -> Self {
        let text = String::with_capacity(2 * CHUNK);
        Self { out, text, rank, ranks, event_index: 0, first: true }
    }

    fn device(&self) -> u32 {
        self.rank % 8
    }

    fn pid(&self) -> u32 {
        25_286 + self.device() * 7
    }

    fn tid(&self, thread: Thread) -> u32 {
        match thread {
            Thread::Main => self.pid(),
            Thread::Autograd => self.pid() + 1_204,
        }
    }

    /// Everything before the first event.
    pub(super) fn head(&mut self, stacks: bool) {
        self.text.push_str("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n");
        for id in 0..self.ranks.min(8) {
            let comma = if id == 0 { "" } else { ",\n" };
            let _ = write!(
                self.text,
                "{comma}    {{\n      \"id\": {id}, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": {DEVICE_BYTES},\n      \
                 \"computeMajor\": 9, \"computeMinor\": 0,\n      \
                 \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \
                 \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \
                 \"sharedMemPerBlock\": 49152, \"numSms\": 132\n    \
                 , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 232448, \"sharedMemPerMultiprocessor\": 233472\n    }}"
            );
        }
        self.text.push_str("\n  ],\n");
        if self.ranks > 1 {
            let (rank, ranks, all) = (self.rank, self.ranks, rank_list(0..self.ranks));
            let _ = writeln!(
                self.text,
                "  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": {ranks}, \"pg_count\": 1, \
                 \"pg_config\": [{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \
                 \"pg_size\": {ranks}, \"ranks\": {all}}}], \"nccl_version\": \"2.26.2\"}},"
            );
        }
        let _ = write!(
            self.text,
            "  \"cupti_version\": 26,\n  \"cuda_runtime_version\": 12080,\n  \"cuda_driver_version\": 12080,\n  \
             \"record_shapes\": 1,\n  \"profile_memory\": 1,\n{}  \"trace_id\": \"{:032X}\",\n  \"traceEvents\": [\n",
            if stacks { "  \"with_stack\": 1,\n" } else { "" },
            u128::from(self.rank) + 0xD74E_A3FA_C181_4011_AB8F_C4FC_0042_7B48,
        );
    }

    /// Writes the records that belong to `section`.
    pub(super) fn section(&mut self, section: Section, records: &[Record<'_>]) -> io::Result<()> {
        for record in records {
            match (section, record) {
                (Section::Host, Record::Host { .. } | Record::Gradient { .. }) => self.host(record),
                (Section::Memory, Record::Memory { .. }) => self.memory(record),
                (Section::Python, Record::Python { thread, name, id, parent, ts, end }) => {
                    self.python(*thread, *name, *id, Some(*parent), *ts, *end);
                }
                (
                    Section::Device,
                    Record::Runtime { .. }
                    | Record::Kernel { .. }
                    | Record::Copy { .. }
                    | Record::DeviceAnnotation { .. },
                ) => self.device_event(record),
                _ => continue,
            }
            self.flush(CHUNK)?;
        }
        Ok(())
    }

    /// The frames around the whole recording.
    pub(super) fn outer_frames(&mut self, start: i64, end: i64) {
        let main = Thread::Main;
        self.python(main, Name::Plain("train.py(121): <module>"), 1, None, start, end);
        self.python(
            main,
            Name::Plain("train.py(98): main"),
            2,
            Some(1),
            start + 1_000,
            end - 1_000,
        );
    }

    /// Writes metadata events and everything after the last event, and flushes all text.
    pub(super) fn tail(mut self, end: i64) -> io::Result<W> {
        let (pid, host_tids) = (self.pid(), [Thread::Main, Thread::Autograd].map(|t| self.tid(t)));
        self.process(&pid.to_string(), "python3", "CPU", u64::from(pid));
        for device in 0..8 {
            self.process(
                &device.to_string(),
                "python3",
                &format!("GPU {device}"),
                16_777_216 + device,
            );
        }
        for stream in [COMPUTE, COMM] {
            let device = self.device();
            self.thread(device, stream, &format!("stream {stream} "));
        }
        for (tid, name) in host_tids.into_iter().zip(["pt_main_thread", "pt_autograd_0"]) {
            self.thread(pid, tid, &format!("thread {tid} ({name})"));
        }
        self.begin();
        self.text.push_str("    \"ph\": \"X\", \"cat\": \"Trace\", \"ts\": ");
        self.us(START_NS - 90_000);
        self.text.push_str(", \"dur\": ");
        self.us(end - START_NS + 180_000);
        self.text.push_str(
            ",\n    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \
             \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {\n      \"Op count\": 0\n    }\n  }",
        );
        for (name, pid, tid, ts) in [
            (
                "Iteration Start: PyTorch Profiler",
                "Traces",
                "Trace PyTorch Profiler",
                START_NS - 90_000,
            ),
            ("Record Window End", "", "", end + 90_000),
        ] {
            self.begin();
            let _ = write!(
                self.text,
                "    \"name\": \"{name}\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"{pid}\", \"tid\": \"{tid}\", \"ts\": "
            );
            self.us(ts);
            self.text.push_str("\n  }");
        }
        let _ = write!(
            self.text,
            "\n  ],\n  \"traceName\": \"/tmp/tmp{:08x}.json\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {BASE_NS}\n}}",
            self.rank
        );
        self.flush(0)?;
        Ok(self.out)
    }

    /// Writes the collected text to the output if it is longer than `bytes`.
    pub(super) fn flush(&mut self, bytes: usize) -> io::Result<()> {
        if self.text.len() > bytes {
            self.out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.text.push_str(if self.first { "  {\n" } else { ",\n  {\n" });
        self.first = false;
    }

    fn next_index(&mut self) -> u64 {
        self.event_index += 1;
        self.event_index - 1
    }

    /// Decimal microseconds with three digits, exactly.
    fn us(&mut self, ns: i64) {
        let _ = write!(self.text, "{}.{:03}", ns / 1000, ns % 1000);
    }

    /// `"ph": "X"` up to the arguments.
    fn span(&mut self, category: &str, name: Name, pid: u32, tid: u32, ts: i64, dur: i64) {
        self.begin();
        let _ = write!(
            self.text,
            "    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": "
        );
        self.us(ts);
        self.text.push_str(", \"dur\": ");
        self.us(dur);
        self.text.push_str(",\n    \"args\": {\n      ");
    }

    fn end(&mut self) {
        self.text.push_str("\n    }\n  }");
    }

    fn flow(&mut self, start: bool, category: &str, id: u64, pid: u32, tid: u32, ts: i64) {
        self.begin();
        let phase = if start { 's' } else { 'f' };
        let _ = write!(
            self.text,
            "    \"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, \"ts\": "
        );
        self.us(ts);
        let bind = if start { "" } else { ", \"bp\": \"e\"" };
        let _ = write!(
            self.text,
            ",\n    \"cat\": \"{category}\", \"name\": \"{category}\"{bind}\n  }}"
        );
    }

    fn host(&mut self, record: &Record<'_>) {
        match *record {
            Record::Host { kind, thread, name, args, sequence, external, ts, end } => {
                let category =
                    if kind == HostKind::Annotation { "user_annotation" } else { "cpu_op" };
                self.span(category, name, self.pid(), self.tid(thread), ts, end - ts);
                let _ = write!(self.text, "\"External id\": {external},\"Record function id\": 0");
                if !args.is_empty() {
                    let _ = write!(self.text, ", {args}");
                }
                if let Some(sequence) = sequence {
                    let forward = u32::from(thread != Thread::Main);
                    let _ = write!(
                        self.text,
                        ", \"Sequence number\": {sequence}, \"Fwd thread id\": {forward}"
                    );
                }
                if let HostKind::Exchange(exchange) = kind {
                    self.text.push_str(", ");
                    self.exchange(exchange);
                }
                let index = self.next_index();
                let _ = write!(self.text, ", \"Ev Idx\": {index}");
                self.end();
            }
            Record::Gradient { start, thread, id, ts } => {
                self.flow(start, "fwdbwd", id, self.pid(), self.tid(thread), ts);
            }
            _ => {}
        }
    }

    fn memory(&mut self, record: &Record<'_>) {
        let Record::Memory { thread, ts, bytes, address, allocated } = *record else { return };
        self.begin();
        let (pid, tid, device) = (self.pid(), self.tid(thread), self.device());
        let _ = write!(
            self.text,
            "    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \
             \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": "
        );
        self.us(ts);
        // The caching allocator reserves 2 MiB pages, slightly more than is in use, and never returns them.
        let reserved = (DEVICE_BYTES * 9 / 10).max(allocated + (160 << 20)) >> 21 << 21;
        let index = self.next_index();
        let _ = write!(
            self.text,
            ",\n    \"args\": {{\n      \"Total Reserved\": {reserved}, \"Total Allocated\": {allocated}, \"Bytes\": {bytes}, \
             \"Addr\": {address}, \"Device Id\": {device}, \"Device Type\": 1, \"Ev Idx\": {index}"
        );
        self.end();
    }

    fn python(
        &mut self,
        thread: Thread,
        name: Name,
        id: u64,
        parent: Option<u64>,
        ts: i64,
        end: i64,
    ) {
        self.span("python_function", name, self.pid(), self.tid(thread), ts, end - ts);
        match parent {
            Some(parent) => {
                let _ = write!(self.text, "\"Python parent id\": {parent}");
            }
            None => self.text.push_str("\"Python parent id\": null"),
        }
        let _ = write!(self.text, ", \"Python id\": {id}");
        if let Name::Module(_, number) = name {
            let _ = write!(self.text, ", \"Python module id\": {number}");
        }
        let index = self.next_index();
        let _ = write!(self.text, ", \"Ev Idx\": {index}");
        self.end();
    }

    fn device_event(&mut self, record: &Record<'_>) {
        let device = self.device();
        match *record {
            Record::Runtime { call, thread, ts, end, external, correlation, launches } => {
                let (name, callback) = call.describe();
                let (pid, tid) = (self.pid(), self.tid(thread));
                self.span("cuda_runtime", Name::Plain(name), pid, tid, ts, end - ts);
                if external > 0 {
                    let _ = write!(self.text, "\"External id\": {external}, ");
                }
                let _ = write!(self.text, "\"cbid\": {callback}, \"correlation\": {correlation}");
                self.end();
                if launches {
                    self.flow(true, "ac2g", correlation, pid, tid, ts);
                }
            }
            Record::Kernel { kernel, stream, ts, dur, external, correlation, exchange } => {
                self.kernel(kernel, stream, (ts, dur), external, correlation);
                if let Some(exchange) = exchange {
                    self.text.push_str(", ");
                    self.exchange(exchange);
                }
                self.end();
                self.flow(false, "ac2g", correlation, device, stream, ts);
            }
            Record::Copy { to_device, ts, dur, bytes, external, correlation } => {
                let name = if to_device {
                    "Memcpy HtoD (Pinned -> Device)"
                } else {
                    "Memcpy DtoH (Device -> Pageable)"
                };
                self.span("gpu_memcpy", Name::Plain(name), device, COMPUTE, ts, dur);
                let bandwidth = bytes as f64 / dur as f64;
                let _ = write!(
                    self.text,
                    "\"External id\": {external}, \"device\": {device}, \"context\": 1, \"stream\": {COMPUTE}, \
                     \"correlation\": {correlation}, \"bytes\": {bytes}, \"memory bandwidth (GB/s)\": {bandwidth}"
                );
                self.end();
                self.flow(false, "ac2g", correlation, device, COMPUTE, ts);
            }
            Record::DeviceAnnotation { name, stream, ts, dur, external } => {
                self.span("gpu_user_annotation", name, device, stream, ts, dur);
                let _ = write!(self.text, "\"External id\": {external}");
                self.end();
            }
            _ => {}
        }
    }

    /// A kernel with its arguments, up to those of its collective.
    fn kernel(
        &mut self,
        kernel: &Kernel,
        stream: u32,
        (ts, dur): (i64, i64),
        external: u64,
        correlation: u64,
    ) {
        let device = self.device();
        self.span("kernel", Name::Plain(kernel.name), device, stream, ts, dur);
        let blocks = f64::from(kernel.grid.iter().product::<u32>()) / 132.0;
        let warps = blocks * f64::from(kernel.block.iter().product::<u32>()) / 32.0;
        let _ = write!(
            self.text,
            "\"External id\": {external}, \"queued\": 0, \"device\": {device}, \"context\": 1, \"stream\": {stream}, \
             \"correlation\": {correlation}, \"registers per thread\": {}, \"shared memory\": {}, \
             \"blocks per SM\": {blocks:.6}, \"warps per SM\": {warps:.6}, \"grid\": {:?}, \"block\": {:?}, \
             \"est. achieved occupancy %\": {}",
            kernel.registers,
            kernel.shared_memory_bytes,
            kernel.grid,
            kernel.block,
            kernel.occupancy_pct
        );
    }

    /// An exchange as `ProcessGroupNCCL` describes it. Messages have 16 Mi elements.
    fn exchange(&mut self, exchange: Exchange) {
        const MESSAGE: u64 = 1 << 24;
        let of_all = u64::from(self.ranks);
        let (name, sent, received, group, peer) = match exchange {
            Exchange::Mesh(mesh) => {
                let MeshExchange { name, sent, received, group, sequence } = mesh;
                let (number, group, members) = faults::members(group, self.rank, self.ranks);
                let (size, all) = (members.len(), rank_list(members));
                self.collective((name, sent, received), (number, group), (size, &all));
                let _ = write!(self.text, ", \"Seq\": {sequence}");
                return;
            }
            Exchange::Send(peer) => ("send", MESSAGE, MESSAGE, "mesh_pp", Some(("Dst", peer))),
            Exchange::Receive(peer) => ("recv", MESSAGE, MESSAGE, "mesh_pp", Some(("Src", peer))),
            Exchange::AllReduce(own) => ("allreduce", own, own, "default_pg", None),
            Exchange::AllGather(own) => ("_allgather_base", own, own * of_all, "mesh_fsdp", None),
            Exchange::ReduceScatter(own) => {
                ("_reduce_scatter_base", own * of_all, own, "mesh_fsdp", None)
            }
            Exchange::AllToAll { sent, received } => {
                ("all_to_allv", sent, received, "mesh_ep", None)
            }
        };
        let all = rank_list(0..self.ranks);
        self.collective((name, sent, received), (0, group), (self.ranks as usize, &all));
        if let Some((end, peer)) = peer {
            let _ = write!(self.text, ", \"{end} Rank\": {peer}");
        }
    }

    /// Name and elements of a collective; number and description of its process group; how many and which ranks belong
    /// to the group.
    fn collective(
        &mut self,
        (name, sent, received): (&str, u64, u64),
        (number, description): (u32, &str),
        (size, ranks): (usize, &str),
    ) {
        let _ = write!(
            self.text,
            "\"Collective name\": \"{name}\", \"In msg nelems\": {sent}, \"Out msg nelems\": {received}, \
             \"Group size\": {size}, \"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out split size\": \"[]\", \
             \"Process Group Name\": \"{number}\", \"Process Group Description\": \"{description}\", \"Process Group Ranks\": \"{ranks}\"",
        );
    }

    fn metadata(&mut self, kind: &str, pid: &str, tid: u32, argument: &str) {
        self.begin();
        let _ = write!(self.text, "    \"name\": \"{kind}\", \"ph\": \"M\", \"ts\": ");
        self.us(START_NS);
        let _ = write!(
            self.text,
            ", \"pid\": {pid}, \"tid\": {tid},\n    \"args\": {{\n      {argument}"
        );
        self.end();
    }

    fn process(&mut self, pid: &str, name: &str, label: &str, order: u64) {
        self.metadata("process_name", pid, 0, &format!("\"name\": \"{name}\""));
        self.metadata("process_labels", pid, 0, &format!("\"labels\": \"{label}\""));
        self.metadata("process_sort_index", pid, 0, &format!("\"sort_index\": {order}"));
    }

    fn thread(&mut self, pid: u32, tid: u32, name: &str) {
        let pid = pid.to_string();
        self.metadata("thread_name", &pid, tid, &format!("\"name\": \"{name}\""));
        self.metadata("thread_sort_index", &pid, tid, &format!("\"sort_index\": {tid}"));
    }
}

/// `[0, 1, 2]`. Long lists are shortened as Kineto does.
fn rank_list(ranks: impl IntoIterator<Item = u32>) -> String {
    const SHOWN: usize = 30;
    let mut text = String::from("[");
    for (at, rank) in ranks.into_iter().take(SHOWN).enumerate() {
        let _ = write!(text, "{}{rank}", if at == 0 { "" } else { ", " });
    }
    text.push(']');
    text
}
