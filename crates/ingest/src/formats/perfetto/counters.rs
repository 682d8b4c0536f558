//! Counters of a GPU: clocks, power, temperature and hardware counters.

use super::drafts::{Draft, Drafts, Key, Text};
use super::interned::CounterNames;
use super::state::{Pending, State};
use super::text::{push_decimal, push_integer, push_natural};
use super::wire::{Fields, Malformed, Value};
use crate::warnings::Issue;

/// Adds the samples of a pending event.
pub(super) fn add<'w>(
    pending: &Pending<'w>,
    state: &'w State,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let interned = state.interned(pending);
    let (mut gpu, mut names): (Option<i32>, Option<&CounterNames>) = (None, None);
    let mut fields = Fields::new(pending.message);
    // Read GPU and names first, because samples may precede them.
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (3, Value::Varint(number)) => gpu = Some(number as i32),
            (4, Value::Varint(iid)) => {
                names = interned.counters.get(&iid);
                if names.is_none() {
                    drafts.issues.add(Issue::MissingDeclaration);
                }
            }
            _ => {}
        }
    }
    let gpu = gpu.or(names.map(|names| names.gpu)).unwrap_or(0);
    let mut fields = Fields::new(pending.message);
    while let Some((number, value)) = fields.next()? {
        if let (2, Value::Bytes(sample)) = (number, value) {
            add_sample(sample, gpu, names, pending.ts_ns, state, drafts)?;
        }
    }
    Ok(())
}

fn add_sample<'w>(
    sample: &[u8],
    gpu: i32,
    names: Option<&'w CounterNames>,
    ts_ns: i64,
    state: &'w State,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let (mut counter, mut sampled) = (0, None);
    let mut fields = Fields::new(sample);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Varint(number)) => counter = number as u32,
            (2 | 3, value) => sampled = Some(value),
            _ => {}
        }
    }
    let name = names.and_then(|names| names.names.get(&counter));
    let name = name.or_else(|| state.inline_counters.get(&(gpu, counter)));
    let (Some(name), Some(sampled)) = (name, sampled) else {
        drafts.issues.add(Issue::MissingDeclaration);
        return Ok(());
    };
    let first_arg = drafts.args.len();
    drafts.add_arg(Key::Other(Text::Stored(b"")), |text| match sampled {
        Value::Varint(value) => push_integer(text, value as i64),
        Value::Fixed64(bits) => push_decimal(text, f64::from_bits(bits)),
        Value::Bytes(_) | Value::Fixed32(_) => text.extend_from_slice(b"null"),
    });
    // PyTorch's Chrome traces use this process name for GPU counters.
    let pid = drafts.made(|text| {
        text.extend_from_slice(b"\"GPU ");
        push_natural(text, u64::from(gpu.unsigned_abs()));
        text.extend_from_slice(b" Counters\"");
    });
    drafts.push(Draft {
        phase: b'C',
        category: None,
        name: Some(name),
        pid: Text::Made(pid),
        tid: Text::Stored(b"0"),
        ts_ns,
        dur_ns: None,
        id: None,
        first_arg,
    });
    Ok(())
}
