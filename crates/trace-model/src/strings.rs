//! Interning: names repeat by the hundred thousand, so tables hold ids and the pool holds the text.

use rustc_hash::FxHashMap;

/// Id of an interned string within one [`Strings`] pool. [`StrId::NULL`] is "no value".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrId(pub u32);

impl StrId {
    /// No value.
    pub const NULL: Self = Self(u32::MAX);

    /// Whether there is no value.
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// Position in the pool.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pool of distinct strings.
#[derive(Debug, Default, Clone)]
pub struct Strings {
    ids: FxHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
}

impl Strings {
    /// The id of `text`, new or known.
    ///
    /// # Panics
    /// If the pool would hold more than 2^32 - 1 strings, which no address space here allows.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(&id) = self.ids.get(text) {
            return StrId(id);
        }
        let id = u32::try_from(self.texts.len()).expect("fewer than 2^32 strings");
        self.ids.insert(text.into(), id);
        self.texts.push(text.into());
        StrId(id)
    }

    /// The id of `text` if it is known.
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.ids.get(text).map(|&id| StrId(id))
    }

    /// The text of `id`; empty for [`StrId::NULL`].
    pub fn get(&self, id: StrId) -> &str {
        if id.is_null() { "" } else { &self.texts[id.index()] }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All strings in id order.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        self.texts.iter().enumerate().map(|(i, t)| (StrId(i as u32), &**t))
    }

    /// Takes in all strings of `other`; the result maps its ids to ids here.
    pub fn absorb(&mut self, other: &Self) -> Vec<StrId> {
        other.texts.iter().map(|t| self.intern(t)).collect()
    }
}
