//! The content of a pickle in flat arrays: 8 bytes per value, 12 per container, each string once. Dicts of the same keys
//! share them, and lists of the same values share these: a snapshot has millions of both.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashMap, FxHasher};
use trace_model::{StrId, Strings};

/// A container of a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(pub(crate) u32);

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    /// An integer; what only fits without a sign (addresses) is a negative number of the same bits.
    Int(i64),
    /// An integer of more than 64 bits.
    HugeInt,
    Float(f64),
    Str(StrId),
    /// Bytes: that they were there, not what they are.
    Bytes,
    Object(ObjectId),
}

/// Kinds of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Tuple,
    Dict,
    Set,
}

/// A value in eight bytes: a tag in the lowest three bits, above it the value, or where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Word(u64);

const TAG_BITS: u32 = 3;
const SIMPLE: u64 = 0;
const INT: u64 = 1;
const WIDE: u64 = 2;
const FLOAT: u64 = 3;
const STR: u64 = 4;
const OBJECT: u64 = 5;

impl Word {
    pub(super) const NONE: Self = Self(SIMPLE);
    pub(super) const FALSE: Self = Self(1 << TAG_BITS);
    pub(super) const TRUE: Self = Self(2 << TAG_BITS);
    pub(super) const BYTES: Self = Self(3 << TAG_BITS);
    pub(super) const HUGE: Self = Self(4 << TAG_BITS);
    /// No value: a place in the memo that nothing was put in.
    pub(super) const UNSET: Self = Self(5 << TAG_BITS);

    fn new(tag: u64, payload: usize) -> Self {
        Self((payload as u64) << TAG_BITS | tag)
    }

    pub(super) fn object(id: ObjectId) -> Self {
        Self::new(OBJECT, id.0 as usize)
    }

    pub(super) fn str(id: StrId) -> Self {
        Self::new(STR, id.index())
    }

    /// The container, if it is one.
    pub(super) fn as_object(self) -> Option<ObjectId> {
        (self.0 & 7 == OBJECT).then_some(ObjectId((self.0 >> TAG_BITS) as u32))
    }

    /// The string, if it is one.
    pub(super) fn as_str(self) -> Option<StrId> {
        (self.0 & 7 == STR).then_some(StrId((self.0 >> TAG_BITS) as u32))
    }
}

/// Values that lie one after another.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    start: u32,
    len: u32,
}

/// Values that were added to a container whose first stretch could not be made longer.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    values: Stretch,
    /// The stretch after it.
    next: u32,
}

const NO_CHUNK: u32 = u32::MAX;
const NO_KEYS: u16 = u16::MAX;
/// Dicts with more entries keep their keys.
const MAX_SHARED_KEYS: usize = 64;
/// Sets of keys that dicts share.
const MAX_KEY_SETS: usize = 1024;
/// Longer lists are not compared with others.
const MAX_SHARED_LIST: usize = 1024;
/// Lists that others are compared with.
const MAX_LISTS: usize = 1 << 20;

/// A place in the values of a container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    object: ObjectId,
    /// [`NO_CHUNK`] for the first stretch.
    chunk: u32,
    at: u32,
}

impl Cursor {
    /// The start of the values of a container.
    pub(crate) fn of(object: ObjectId) -> Self {
        Self { object, chunk: NO_CHUNK, at: 0 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Object {
    values: Stretch,
    /// Keys of the values; without them, keys and values take turns.
    keys: u16,
    kind: Kind,
    has_more: bool,
}

/// Everything that a pickle holds. Containers may be shared, and may contain themselves: who walks them
/// must count his steps.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) strings: Strings,
    objects: Vec<Object>,
    /// First and last chunk of containers with more than one stretch.
    more: FxHashMap<ObjectId, (u32, u32)>,
    chunks: Vec<Chunk>,
    words: Vec<Word>,
    key_sets: Vec<Box<[Word]>>,
    key_set_of: FxHashMap<Box<[Word]>, u16>,
    /// Keys of the last dict.
    last_keys: u16,
    /// Keys of the dict that is read.
    scratch: Vec<Word>,
    /// Lists by the hash of their values.
    lists: FxHashMap<u64, Stretch>,
    wide: Vec<i64>,
    floats: Vec<f64>,
    /// Bytes of distinct strings.
    text_bytes: usize,
    root: Word,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            strings: Strings::default(),
            objects: Vec::new(),
            more: FxHashMap::default(),
            chunks: Vec::new(),
            words: Vec::new(),
            key_sets: Vec::new(),
            key_set_of: FxHashMap::default(),
            last_keys: NO_KEYS,
            scratch: Vec::new(),
            lists: FxHashMap::default(),
            wide: Vec::new(),
            floats: Vec::new(),
            text_bytes: 0,
            root: Word::NONE,
        }
    }
}

impl Graph {
    /// The value of the pickle.
    pub(crate) fn root(&self) -> Value {
        self.value(self.root)
    }

    /// Number of containers.
    pub(crate) fn object_count(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn kind(&self, object: ObjectId) -> Kind {
        self.objects[object.0 as usize].kind
    }

    /// The values of a container in order; of a dict, keys and values in turn.
    pub(crate) fn items(&self, object: ObjectId) -> impl Iterator<Item = Value> + '_ {
        let mut cursor = Cursor::of(object);
        std::iter::from_fn(move || self.next(&mut cursor))
    }

    /// The next of these values.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Value> {
        loop {
            let at = cursor.at as usize;
            let (values, keys) = self.stretch(*cursor)?;
            let word = match self.key_sets.get(usize::from(keys)) {
                Some(keys) if at.is_multiple_of(2) => keys.get(at / 2),
                Some(_) => self.words(values).get(at / 2),
                None => self.words(values).get(at),
            };
            if let Some(&word) = word {
                cursor.at += 1;
                return Some(self.value(word));
            }
            *cursor = Cursor { chunk: self.chunk_after(*cursor)?, at: 0, ..*cursor };
        }
    }

    fn words(&self, values: Stretch) -> &[Word] {
        &self.words[values.start as usize..][..values.len as usize]
    }

    fn stretch(&self, cursor: Cursor) -> Option<(Stretch, u16)> {
        if cursor.chunk == NO_CHUNK {
            let Object { values, keys, .. } = self.objects[cursor.object.0 as usize];
            return Some((values, keys));
        }
        Some((self.chunks.get(cursor.chunk as usize)?.values, NO_KEYS))
    }

    fn chunk_after(&self, cursor: Cursor) -> Option<u32> {
        let next = match self.chunks.get(cursor.chunk as usize) {
            Some(chunk) => chunk.next,
            None if self.objects[cursor.object.0 as usize].has_more => {
                self.more.get(&cursor.object)?.0
            }
            None => NO_CHUNK,
        };
        (next != NO_CHUNK).then_some(next)
    }

    /// Number of values of a container; of a dict, keys and values.
    pub(crate) fn len(&self, object: ObjectId) -> usize {
        let mut cursor = Cursor::of(object);
        let mut len = 0;
        while let Some((values, keys)) = self.stretch(cursor) {
            len += values.len as usize * if keys == NO_KEYS { 1 } else { 2 };
            match self.chunk_after(cursor) {
                Some(chunk) => cursor.chunk = chunk,
                None => break,
            }
        }
        len
    }

    /// What is equal for lists that share their values; absent for a list that was put together from parts.
    pub(crate) fn shared_values(&self, object: ObjectId) -> Option<(u32, u32)> {
        let Object { values, keys, has_more, .. } = self.objects[object.0 as usize];
        (keys == NO_KEYS && !has_more).then_some((values.start, values.len))
    }

    /// Keys that are strings, with their values, in order.
    pub(crate) fn entries(&self, object: ObjectId) -> impl Iterator<Item = (StrId, Value)> + '_ {
        let mut items = self.items(object);
        std::iter::from_fn(move || {
            loop {
                let (key, value) = (items.next()?, items.next()?);
                if let Value::Str(key) = key {
                    return Some((key, value));
                }
            }
        })
    }

    fn value(&self, word: Word) -> Value {
        let payload = word.0 >> TAG_BITS;
        match word.0 & 7 {
            INT => Value::Int(word.0.cast_signed() >> TAG_BITS),
            WIDE => Value::Int(self.wide[payload as usize]),
            FLOAT => Value::Float(self.floats[payload as usize]),
            STR => Value::Str(StrId(payload as u32)),
            OBJECT => Value::Object(ObjectId(payload as u32)),
            _ => match word {
                Word::TRUE => Value::Bool(true),
                Word::FALSE => Value::Bool(false),
                Word::BYTES => Value::Bytes,
                Word::HUGE => Value::HugeInt,
                _ => Value::None,
            },
        }
    }

    pub(super) fn set_root(&mut self, root: Word) {
        self.root = root;
    }

    /// Bytes held, about.
    pub(super) fn memory_bytes(&self) -> usize {
        const STRING: usize = 64;
        self.objects.len() * size_of::<Object>()
            + self.chunks.len() * size_of::<Chunk>()
            + self.words.len() * size_of::<Word>()
            + self.lists.len() * 2 * size_of::<(u64, Stretch)>()
            + self.more.len() * 2 * size_of::<(ObjectId, (u32, u32))>()
            + self.key_sets.len() * MAX_SHARED_KEYS * size_of::<Word>()
            + self.wide.len() * size_of::<i64>()
            + self.floats.len() * size_of::<f64>()
            + self.strings.len() * STRING
            + self.text_bytes * 2
    }

    pub(super) fn int(&mut self, value: i128) -> Word {
        const LIMIT: i64 = 1 << 60;
        let bits = i64::try_from(value).or_else(|_| u64::try_from(value).map(u64::cast_signed));
        let Ok(value) = bits else { return Word::HUGE };
        if (-LIMIT..LIMIT).contains(&value) {
            return Word((value << TAG_BITS).cast_unsigned() | INT);
        }
        self.wide.push(value);
        Word::new(WIDE, self.wide.len() - 1)
    }

    pub(super) fn float(&mut self, value: f64) -> Word {
        self.floats.push(value);
        Word::new(FLOAT, self.floats.len() - 1)
    }

    pub(super) fn text(&mut self, text: &str) -> Word {
        let known = self.strings.len();
        let id = self.strings.intern(text);
        if self.strings.len() > known {
            self.text_bytes += text.len();
        }
        Word::str(id)
    }

    /// A new container; `None` if there are too many.
    pub(super) fn object(&mut self, kind: Kind) -> Option<ObjectId> {
        let id = u32::try_from(self.objects.len()).ok()?;
        self.objects.push(Object {
            values: Stretch::default(),
            keys: NO_KEYS,
            kind,
            has_more: false,
        });
        Some(ObjectId(id))
    }

    /// Adds values to the end of a container; `None` if there are too many.
    pub(super) fn extend(&mut self, object: ObjectId, values: &[Word]) -> Option<()> {
        if values.is_empty() {
            return Some(());
        }
        let Object { kind, values: first, has_more, .. } = self.objects[object.0 as usize];
        let is_new = first.len == 0;
        if is_new
            && kind == Kind::Dict
            && let Some(keys) = self.keys(values)
        {
            let stretch = self.push(values.iter().copied().skip(1).step_by(2))?;
            let object = &mut self.objects[object.0 as usize];
            (object.values, object.keys) = (stretch, keys);
            return Some(());
        }
        if is_new && let Some(equal) = self.equal_list(kind, values) {
            self.objects[object.0 as usize].values = equal;
            return Some(());
        }
        let added = self.push(values.iter().copied())?;
        let Object { values: first, keys, .. } = &mut self.objects[object.0 as usize];
        if is_new {
            *first = added;
            return Some(());
        }
        if !has_more && *keys == NO_KEYS && first.start + first.len == added.start {
            first.len += added.len;
            return Some(());
        }
        let new = u32::try_from(self.chunks.len()).ok().filter(|&new| new != NO_CHUNK)?;
        if let Some((_, last)) = self.more.get_mut(&object) {
            let chunk = &mut self.chunks[*last as usize];
            if chunk.values.start + chunk.values.len == added.start {
                chunk.values.len += added.len;
                return Some(());
            }
            chunk.next = new;
            *last = new;
        } else {
            self.objects[object.0 as usize].has_more = true;
            self.more.insert(object, (new, new));
        }
        self.chunks.push(Chunk { values: added, next: NO_CHUNK });
        Some(())
    }

    /// Adds values to the end of all; `None` if there are too many.
    fn push(&mut self, values: impl Iterator<Item = Word>) -> Option<Stretch> {
        let start = u32::try_from(self.words.len()).ok()?;
        self.words.extend(values);
        let end = u32::try_from(self.words.len()).ok()?;
        Some(Stretch { start, len: end - start })
    }

    /// The number of the set of keys of a new dict, if it is worth to share them.
    fn keys(&mut self, entries: &[Word]) -> Option<u16> {
        if !(4..=2 * MAX_SHARED_KEYS).contains(&entries.len()) || !entries.len().is_multiple_of(2) {
            return None;
        }
        let keys = || entries.iter().step_by(2);
        if let Some(last) = self.key_sets.get(usize::from(self.last_keys))
            && last.iter().eq(keys())
        {
            return Some(self.last_keys);
        }
        self.scratch.clear();
        self.scratch.extend(keys());
        let found = if let Some(&known) = self.key_set_of.get(self.scratch.as_slice()) {
            known
        } else {
            let new = self.key_sets.len() as u16;
            if self.key_sets.len() >= MAX_KEY_SETS {
                return None;
            }
            self.key_sets.push(self.scratch.as_slice().into());
            self.key_set_of.insert(self.scratch.as_slice().into(), new);
            new
        };
        self.last_keys = found;
        Some(found)
    }

    /// The same values in another list. Remembers the list if there is none.
    fn equal_list(&mut self, kind: Kind, values: &[Word]) -> Option<Stretch> {
        if kind != Kind::List || !(2..=MAX_SHARED_LIST).contains(&values.len()) {
            return None;
        }
        let mut hasher = FxHasher::default();
        values.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(&known) = self.lists.get(&hash) {
            return (self.words(known) == values).then_some(known);
        }
        if self.lists.len() < MAX_LISTS {
            let start = u32::try_from(self.words.len()).ok()?;
            self.lists.insert(hash, Stretch { start, len: values.len() as u32 });
        }
        None
    }
}
