//! Logs of `torch.compile`, as `TORCH_TRACE=folder` writes them: which frames were compiled, why again, where graphs
//! break, and which lines the generated kernels come from. One file from text to rows.
//!
//! A record is a line with a JSON object, and a payload in lines that begin with a tab. `tlparse` reads the same logs.

mod attachment;
mod compilation;
mod graph;
mod graph_break;
mod importer;
mod output_code;
mod provenance;
mod record;
mod source_line;

use std::io::{BufRead, Read as _};

use rustc_hash::FxHashMap;
use serde::Deserialize;
use trace_model::tables::{CompiledFrames, CompiledKernels, GraphBreak, GraphBreaks};
use trace_model::{StrId, Strings, Warning};

use self::compilation::{Compilation, Compilations};
use self::record::{Line, Metrics, PayloadKind, Record};
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::input::text_reader::TextReader;
use crate::warnings::{Issue, Issues};

pub(crate) use importer::TorchTrace;

/// Longest line that is read. Lists of inputs and configurations are far shorter.
const MAX_LINE: usize = 16 << 20;
/// Longest payload that is read. Graphs of the largest models take some ten MiB.
const MAX_PAYLOAD: usize = 64 << 20;

/// One log, read.
#[derive(Debug, Default)]
pub(crate) struct CompileLog {
    pub(crate) frames: CompiledFrames,
    pub(crate) breaks: GraphBreaks,
    pub(crate) kernels: CompiledKernels,
    pub(crate) strings: Strings,
    /// Rank that the records state.
    pub(crate) rank: Option<i32>,
    pub(crate) bytes: u64,
    /// Records, read or not.
    pub(crate) records: u64,
    /// Stand for file names in stacks.
    file_names: FxHashMap<i64, String>,
    compilations: Compilations,
    /// Ids of compilations in order of their first record.
    order: Vec<String>,
    issues: Issues,
}

/// A record whose payload is being read.
struct Pending {
    record: Record,
    kind: Option<PayloadKind>,
    payload: Vec<u8>,
    has_payload_line: bool,
    is_too_long: bool,
}

/// The entry of records of caches that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheEntry {
    key: Option<String>,
}

/// Returns whether a text begins with a record of a log.
pub(crate) fn starts_log(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    matches!(Line::of(line), Line::Record(_))
}

/// Reads a log. Calls `advance` with the number of bytes read since the last call.
pub(crate) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<CompileLog, Unreadable> {
    let mut reader = TextReader::new(input, advance);
    let mut log = CompileLog::default();
    let mut line = Vec::new();
    let mut pending: Option<Pending> = None;
    while let Some((is_whole, is_too_long)) = next_line(&mut reader, &mut line) {
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        match Line::of(text) {
            Line::Payload(part) => match &mut pending {
                Some(pending) => pending.add(part),
                None => log.issues.add(Issue::MalformedRecord),
            },
            Line::Record(object) if !is_too_long => {
                log.add(pending.take());
                match serde_json::from_slice::<Record>(object) {
                    Ok(record) => pending = Some(Pending::new(record)),
                    Err(_) if !is_whole => log.issues.add(Issue::TruncatedLog),
                    Err(_) => log.issues.add(Issue::MalformedRecord),
                }
                log.records += 1;
            }
            Line::Record(_) => {
                log.add(pending.take());
                log.issues.add(Issue::LongRecord);
            }
            Line::Other if text.is_empty() => {}
            Line::Other => {
                log.add(pending.take());
                let cut = !is_whole;
                log.issues.add(if cut { Issue::TruncatedLog } else { Issue::MalformedRecord });
            }
        }
        if !is_whole && matches!(Line::of(text), Line::Payload(_)) {
            // The payload ends in the middle: it may look complete, but is not.
            pending = None;
            log.issues.add(Issue::TruncatedLog);
        }
    }
    log.add(pending);
    log.finish();
    log.bytes = reader.total_bytes();
    match reader.end() {
        StreamEnd::TooLong => return Err(Unreadable::TooLong),
        StreamEnd::Damaged => log.issues.add(Issue::TruncatedGzip),
        StreamEnd::NotYet | StreamEnd::Complete => {}
    }
    if log.records == 0 {
        return Err(Unreadable::NoRecords);
    }
    Ok(log)
}

/// Reads a line, without its break, and at most [`MAX_LINE`] bytes of it. Returns whether it ended with a break, and
/// whether it was longer; `None` at the end.
fn next_line(reader: &mut TextReader<'_>, line: &mut Vec<u8>) -> Option<(bool, bool)> {
    line.clear();
    let read = reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', line).unwrap_or(0);
    if read == 0 {
        return None;
    }
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        return Some((true, false));
    }
    if read < MAX_LINE {
        return Some((false, false));
    }
    let mut rest = Vec::new();
    loop {
        rest.clear();
        let read = reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut rest).unwrap_or(0);
        if read == 0 || rest.ends_with(b"\n") {
            return Some((read > 0, true));
        }
    }
}

impl Pending {
    fn new(record: Record) -> Self {
        let kind = record.payload_kind();
        Self { record, kind, payload: Vec::new(), has_payload_line: false, is_too_long: false }
    }

    fn add(&mut self, line: &[u8]) {
        if self.kind.is_none() || self.is_too_long {
            return;
        }
        if self.payload.len() + line.len() > MAX_PAYLOAD {
            self.is_too_long = true;
            self.payload = Vec::new();
            return;
        }
        if self.has_payload_line {
            self.payload.push(b'\n');
        }
        self.has_payload_line = true;
        self.payload.extend_from_slice(line);
    }
}

impl CompileLog {
    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        self.issues.warnings(file)
    }

    /// First start and last end of a compilation, in nanoseconds since 1970.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let frames = &self.frames;
        let known = |value: i64| (value != trace_model::column::NULL_I64).then_some(value);
        let times = || {
            (0..frames.len()).filter_map(move |row| {
                let start = known(frames.ts_ns.get(row))?;
                Some((start, start + known(frames.dur_ns.get(row)).unwrap_or(0)))
            })
        };
        Some((times().map(|(start, _)| start).min()?, times().map(|(_, end)| end).max()?))
    }

    /// Takes a record with its payload.
    fn add(&mut self, pending: Option<Pending>) {
        let Some(Pending { record, kind, payload, has_payload_line, is_too_long }) = pending else {
            return;
        };
        if let Some((name, number)) = record.file_name {
            self.file_names.insert(number, name);
            return;
        }
        self.rank = self.rank.or(record.rank);
        let Some(compile_id) = compile_id(&record) else { return };
        let starts = record.dynamo_start.is_some() && record.attempt.unwrap_or(0) == 0;
        let may_start = kind == Some(PayloadKind::RecompileReasons);
        let is_another =
            |before: &Compilation| before.has_begun() && (starts || may_start && !before.is_open());
        if self.compilations.get(&compile_id).is_some_and(is_another) {
            // After torch._dynamo.reset() ids start again.
            self.close(&compile_id);
            self.compilations.remove(&compile_id);
        }
        let compilation = self.compilations.entry(compile_id.clone()).or_insert_with(|| {
            self.order.push(compile_id.clone());
            Compilation::default()
        });
        compilation.seen(record.frame_id, record.attempt);
        if let Some(frame) = record.dynamo_start.as_ref().and_then(|start| start.stack.last()) {
            let file = self.file_names.get(&frame.filename).cloned();
            compilation.begin(frame.name.clone(), file, frame.line);
        }
        if let Some(symbol) = &record.create_symbol
            && let Some(size) = symbol.size()
        {
            compilation.add_symbol(symbol.symbol.clone(), size);
        }
        if let Some(kind) = kind {
            if is_too_long {
                self.issues.add(Issue::LongRecord);
            } else if record.has_payload() && !has_payload_line {
                self.issues.add(Issue::MissingPayload);
            } else if self.add_payload(&compile_id, kind, &payload).is_none() {
                self.issues.add(Issue::MalformedPayload);
            }
        }
        if let Some(metrics) = &record.compilation_metrics {
            self.end(&compile_id, false, metrics);
        }
        if let Some(metrics) = &record.bwd_compilation_metrics {
            self.end(&compile_id, true, metrics);
        }
    }

    /// Takes a payload; `None` if it is malformed.
    fn add_payload(&mut self, id: &str, kind: PayloadKind, payload: &[u8]) -> Option<()> {
        let strings = &mut self.strings;
        let compilation = self.compilations.get_mut(id)?;
        let text = String::from_utf8_lossy(payload);
        match kind {
            PayloadKind::Stage => compilation.add_stage(&serde_json::from_slice(payload).ok()?),
            PayloadKind::Graph(kind) => compilation.add_graph(kind, &text, strings),
            PayloadKind::OutputCode => {
                let compile_id = strings.intern(id);
                compilation.finish_graph(compile_id, strings, &mut self.kernels);
                compilation.add_code(&text);
            }
            PayloadKind::NodeMappings => {
                compilation.add_mappings(serde_json::from_slice(payload).ok()?);
            }
            PayloadKind::KernelNodes => {
                compilation.add_kernel_nodes(serde_json::from_slice(payload).ok()?);
            }
            PayloadKind::KernelStacks => {
                compilation.add_stacks(serde_json::from_slice(payload).ok()?);
            }
            PayloadKind::GraphCache(result) => {
                let entry: CacheEntry = serde_json::from_slice(payload).ok()?;
                compilation.add_graph_cache(result, entry.key);
            }
            PayloadKind::AutogradCache(result) => compilation.add_autograd_cache(result),
            PayloadKind::RecompileReasons => {
                // A JSON list of texts, or the text itself, depending on the version.
                let reasons = serde_json::from_slice::<Vec<String>>(payload);
                let reasons = reasons.map_or_else(|_| text.into_owned(), |list| list.join("\n"));
                compilation.add_recompile_reason(reasons.trim());
            }
            PayloadKind::GraphBreak => {
                let compile_id = strings.intern(id);
                let row = graph_break::parse(&text, strings);
                self.breaks.push(GraphBreak { compile_id, ..row });
            }
        }
        Some(())
    }

    /// Writes the rows of a compilation that ends.
    fn end(&mut self, id: &str, is_backward: bool, metrics: &Metrics) {
        let strings = &mut self.strings;
        let Some(compilation) = self.compilations.get_mut(id) else { return };
        let compile_id: StrId = strings.intern(id);
        compilation.finish_graph(compile_id, strings, &mut self.kernels);
        compilation.finish(compile_id, is_backward, metrics, strings, &mut self.frames);
    }

    /// Writes the rows of a compilation of which the log does not hold the end.
    fn close(&mut self, id: &str) {
        let Some(compilation) = self.compilations.get_mut(id) else { return };
        let compile_id = self.strings.intern(id);
        compilation.finish_graph(compile_id, &mut self.strings, &mut self.kernels);
        if compilation.is_open() {
            self.end(id, false, &Metrics::default());
            self.issues.add(Issue::UnfinishedCompilation);
        }
    }

    /// Closes what is open at the end of the log.
    fn finish(&mut self) {
        for id in std::mem::take(&mut self.order) {
            self.close(&id);
        }
        self.compilations = Compilations::default();
        self.file_names = FxHashMap::default();
    }
}

/// The id of the compilation that a record belongs to, as PyTorch writes it: `0/1`, and `!2/0/1` or `!2` where compiled
/// autograd called it.
fn compile_id(record: &Record) -> Option<String> {
    let frame = record.frame_id.zip(record.frame_compile_id);
    match (record.compiled_autograd_id, frame) {
        (None, Some((frame, number))) => Some(format!("{frame}/{number}")),
        (Some(autograd), Some((frame, number))) => Some(format!("!{autograd}/{frame}/{number}")),
        (Some(autograd), None) => Some(format!("!{autograd}")),
        (None, None) => None,
    }
}
