//! GPU activities ("render stages"): kernels, copies and fills.

use super::drafts::{Draft, Drafts, Key, Stage, Text, Wait};
use super::interned::{Interned, Specification};
use super::state::{Pending, State};
use super::text::{is_scalar, push_integer, push_natural, push_string};
use super::wire::{Fields, Malformed, Value, for_each_number};
use crate::formats::kineto::arg::Arg;
use crate::warnings::Issue;

/// PyTorch's names of the kinds of activities, with the categories of Chrome traces.
const CATEGORIES: [(&[u8], &[u8]); 6] = [
    (b"Kernel", b"kernel"),
    (b"Memcpy", b"gpu_memcpy"),
    (b"Memset", b"gpu_memset"),
    (b"Annotation", b"gpu_user_annotation"),
    (b"EventRecord", b"graph_event_node"),
    (b"HostNode", b"graph_host_node"),
];

/// Kinds of memory by CUPTI's numbers.
const MEMORY_KINDS: [&str; 8] = [
    "unknown",
    "pageable",
    "pinned",
    "device",
    "array",
    "managed",
    "device_static",
    "managed_static",
];

/// An activity in its wire format.
#[derive(Debug, Default)]
struct Activity<'w> {
    number: Option<u64>,
    dur_ns: u64,
    gpu: i64,
    queue: Option<u64>,
    stage: Option<u64>,
    name: Option<&'w [u8]>,
    name_iid: Option<u64>,
    kernel: Option<u64>,
    launch: Option<&'w [u8]>,
}

/// Adds a pending activity.
pub(super) fn add<'w>(
    pending: &Pending<'w>,
    state: &'w State,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let interned = state.interned(pending);
    let event_id = drafts.next_event();
    let (first_arg, first_wait) = (drafts.args.len(), drafts.waits.len());
    let mut activity = Activity::default();
    let mut fields = Fields::new(pending.message);
    let (mut has_stream, mut architecture) = (false, None);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Varint(number)) => activity.number = Some(number),
            (2, Value::Varint(dur_ns)) => activity.dur_ns = dur_ns,
            (6, Value::Bytes(extra)) => match add_extra(extra, drafts)? {
                Extra::Stream => has_stream = true,
                Extra::Architecture(name) => architecture = Some(name),
                Extra::Other => {}
            },
            (11, Value::Varint(gpu)) => activity.gpu = gpu as i64,
            (13, Value::Varint(iid)) => activity.queue = Some(iid),
            (14, Value::Varint(iid)) => activity.stage = Some(iid),
            (17, Value::Bytes(name)) => activity.name = Some(name),
            (18, numbers) => for_each_number(numbers, |for_number| {
                drafts.add_wait(first_wait, Wait { event_id, for_number });
            })?,
            (19, Value::Varint(iid)) => activity.kernel = Some(iid),
            (20, Value::Varint(iid)) => activity.name_iid = Some(iid),
            (21, Value::Bytes(launch)) => activity.launch = Some(launch),
            _ => {}
        }
    }
    if let Some(name) = architecture {
        drafts.add_architecture(activity.gpu, name);
    }
    if let Some(number) = activity.number {
        drafts.stages.push(Stage { number, event_id });
    }
    let stage = specification(activity.stage, interned, drafts);
    let queue = specification(activity.queue, interned, drafts);
    drafts.add_arg(Key::Known(Arg::Device), |text| push_integer(text, activity.gpu));
    let lane = queue.and_then(|queue| bracketed(&queue.name));
    // The number of a lane may differ from the stream; then an argument states the stream.
    if let (false, Some(lane)) = (has_stream, lane) {
        drafts.add_arg(Key::Known(Arg::Stream), |text| push_natural(text, lane));
    }
    if let Some(launch) = activity.launch {
        add_launch(launch, interned, drafts)?;
    }
    let pid = Text::Made(drafts.made(|text| push_integer(text, activity.gpu)));
    let tid = Text::Made(drafts.made(|text| match (lane, queue) {
        (Some(lane), _) => push_natural(text, lane),
        (None, Some(queue)) => push_string(text, &queue.name),
        (None, None) => push_string(text, b"queue"),
    }));
    let name = name(&activity, interned, drafts).or(stage.map(|stage| &*stage.name));
    drafts.push(Draft {
        phase: b'X',
        category: Some(category(stage, activity.launch.is_some())),
        name,
        pid,
        tid,
        ts_ns: pending.ts_ns,
        dur_ns: Some(i64::try_from(activity.dur_ns).unwrap_or(i64::MAX)),
        id: None,
        first_arg,
    });
    Ok(())
}

fn specification<'w>(
    iid: Option<u64>,
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Option<&'w Specification> {
    let found = interned.specifications.get(&iid?);
    if found.is_none() {
        drafts.issues.add(Issue::MissingDeclaration);
    }
    found
}

/// Returns the name of an activity, or the name of its kernel if the activity has none.
fn name<'w>(
    activity: &Activity<'w>,
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Option<&'w [u8]> {
    let found = activity.name.or_else(|| {
        let own = activity.name_iid.and_then(|iid| interned.names.get(&iid));
        let name = own.or_else(|| interned.kernels.get(&activity.kernel?))?;
        Some(&**name)
    });
    if found.is_none() && (activity.name_iid.is_some() || activity.kernel.is_some()) {
        drafts.issues.add(Issue::MissingDeclaration);
    }
    found
}

/// Returns the Chrome trace category of an activity. Other writers use other names of kinds: an activity that computes or has a
/// grid is a kernel.
fn category(stage: Option<&Specification>, has_launch: bool) -> &'static [u8] {
    let known = stage.and_then(|stage| CATEGORIES.iter().find(|(name, _)| *name == &*stage.name));
    match known {
        Some((_, category)) => category,
        None if has_launch || stage.is_some_and(|stage| stage.is_computation) => b"kernel",
        None => b"gpu_render_stage",
    }
}

/// Returns the number in front of the name of a queue: 7 for `[07] stream 7`.
fn bracketed(name: &[u8]) -> Option<u64> {
    let rest = name.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest)?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// The meaning of an extra name-value pair.
enum Extra<'w> {
    Stream,
    Architecture(&'w [u8]),
    Other,
}

/// Adds an extra name-value pair of an activity as an argument.
fn add_extra<'w>(extra: &'w [u8], drafts: &mut Drafts<'w>) -> Result<Extra<'w>, Malformed> {
    let (mut name, mut value): (&[u8], &[u8]) = (b"", b"");
    let mut fields = Fields::new(extra);
    while let Some((number, bytes)) = fields.next()? {
        match (number, bytes) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    let key = match name {
        // Every activity repeats the process that wrote the file, and the number of the GPU.
        b"process_id" | b"process_name" | b"device id" => return Ok(Extra::Other),
        b"arch" => return Ok(Extra::Architecture(value)),
        b"stream id" => Key::Known(Arg::Stream),
        b"context id" => Key::Other(Text::Stored(b"context")),
        b"memory kind" => {
            let key = drafts.key(name);
            drafts.add_arg(key, |text| push_memory_kind(text, value));
            return Ok(Extra::Other);
        }
        name => drafts.key(name),
    };
    if is_scalar(value) {
        drafts.args.push((key, Text::Stored(value)));
    } else {
        drafts.add_arg(key, |text| push_string(text, value));
    }
    Ok(if name == b"stream id" { Extra::Stream } else { Extra::Other })
}

/// Appends a kind of memory as a word, as PyTorch's Chrome traces do.
fn push_memory_kind(text: &mut Vec<u8>, value: &[u8]) {
    let number: Option<usize> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    let word = number.and_then(|number| MEMORY_KINDS.get(number));
    push_string(text, word.map_or(value, |word| word.as_bytes()));
}

/// Adds grid, block and registers of a kernel. Shared memory is left out because its static part is missing.
fn add_launch<'w>(
    launch: &'w [u8],
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let mut fields = Fields::new(launch);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(extent)) => add_extent(Arg::Grid, extent, drafts)?,
            (2, Value::Bytes(extent)) => add_extent(Arg::Block, extent, drafts)?,
            (3, Value::Bytes(arg)) => add_launch_arg(arg, interned, drafts)?,
            _ => {}
        }
    }
    Ok(())
}

fn add_extent(arg: Arg, extent: &[u8], drafts: &mut Drafts<'_>) -> Result<(), Malformed> {
    let mut sizes = [1; 3];
    let mut fields = Fields::new(extent);
    while let Some((number, value)) = fields.next()? {
        if let (1..=3, Value::Varint(size)) = (number, value) {
            sizes[number as usize - 1] = size;
        }
    }
    drafts.add_arg(Key::Known(arg), |text| {
        for (size, before) in sizes.into_iter().zip([&b"["[..], b", ", b", "]) {
            text.extend_from_slice(before);
            push_natural(text, size);
        }
        text.push(b']');
    });
    Ok(())
}

fn add_launch_arg<'w>(
    arg: &'w [u8],
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let (mut name, mut number_value) = (None, None);
    let mut fields = Fields::new(arg);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Varint(iid)) => name = interned.kernel_args.get(&iid).map(|name| &**name),
            (2, Value::Bytes(bytes)) => name = Some(bytes),
            (3 | 4, Value::Varint(value)) => number_value = Some(value),
            _ => {}
        }
    }
    let Some(name) = name else {
        drafts.issues.add(Issue::MissingDeclaration);
        return Ok(());
    };
    let Some(value) = number_value else { return Ok(()) };
    let key = match name {
        // The number of threads follows from the block.
        b"thread_count" => return Ok(()),
        b"registers_per_thread" => Key::Known(Arg::Registers),
        name => drafts.key(name),
    };
    drafts.add_arg(key, |text| push_integer(text, value as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_pytorch_have_their_number_in_brackets() {
        assert_eq!(bracketed(b"[007] stream 7"), Some(7));
        assert_eq!(bracketed(b"[2147483647] DP"), Some(2_147_483_647));
        for name in [&b"stream 7"[..], b"[x] stream", b"[7", b"[]", b"[-1] a"] {
            assert_eq!(bracketed(name), None);
        }
    }

    #[test]
    fn kinds_of_memory_are_words() {
        let word = |value: &[u8]| {
            let mut text = Vec::new();
            push_memory_kind(&mut text, value);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            (word(b"3"), word(b"99"), word(b"x")),
            ("\"device\"".into(), "\"99\"".into(), "\"x\"".into())
        );
    }
}
