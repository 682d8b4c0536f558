//! The content of a pickle in flat arrays: 8 bytes per value, 12 per container, each string once.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A stretch of a container's values.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    start: u32,
    len: u32,
    /// The stretch after it.
    next: u32,
}

const NO_CHUNK: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Object {
    kind: Kind,
    first: u32,
    last: u32,
}

/// Everything that a pickle holds. Containers may be shared, and may contain themselves: who walks them
/// must count his steps.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) strings: Strings,
    objects: Vec<Object>,
    chunks: Vec<Chunk>,
    words: Vec<Word>,
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
            chunks: Vec::new(),
            words: Vec::new(),
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
        self.stretches(object).flatten().map(|&word| self.value(word))
    }

    fn stretches(&self, object: ObjectId) -> impl Iterator<Item = &[Word]> + '_ {
        let mut next = self.objects[object.0 as usize].first;
        std::iter::from_fn(move || {
            let chunk = *self.chunks.get(next as usize)?;
            next = chunk.next;
            Some(&self.words[chunk.start as usize..][..chunk.len as usize])
        })
    }

    /// Number of values of a container; of a dict, keys and values.
    pub(crate) fn len(&self, object: ObjectId) -> usize {
        self.stretches(object).map(<[Word]>::len).sum()
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
        self.objects.push(Object { kind, first: NO_CHUNK, last: NO_CHUNK });
        Some(ObjectId(id))
    }

    /// Adds values to the end of a container; `None` if there are too many.
    pub(super) fn extend(&mut self, object: ObjectId, values: &[Word]) -> Option<()> {
        if values.is_empty() {
            return Some(());
        }
        let start = u32::try_from(self.words.len()).ok()?;
        let len = u32::try_from(values.len()).ok()?;
        start.checked_add(len)?;
        self.words.extend_from_slice(values);
        let object = &mut self.objects[object.0 as usize];
        if let Some(last) = self.chunks.get_mut(object.last as usize)
            && last.start + last.len == start
        {
            last.len += len;
            return Some(());
        }
        let new = u32::try_from(self.chunks.len()).ok().filter(|&new| new != NO_CHUNK)?;
        self.chunks.push(Chunk { start, len, next: NO_CHUNK });
        match self.chunks.get_mut(object.last as usize) {
            Some(last) => last.next = new,
            None => object.first = new,
        }
        object.last = new;
        Some(())
    }
}
