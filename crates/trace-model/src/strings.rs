//! Interning: names repeat by the hundred thousand, so tables hold ids and the pool holds the text.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Id of an interned string within one [`Strings`] pool. [`StrId::NULL`] is "no value".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrId(pub u32);

impl StrId {
    /// No value.
    pub const NULL: Self = Self(u32::MAX);

    /// Whether there is no value.
    #[inline]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// Position in the pool.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pool of distinct strings: their texts one behind the other, and where each ends.
#[derive(Debug, Default, Clone)]
pub struct Strings {
    ids: HashTable<u32>,
    texts: String,
    ends: Vec<usize>,
}

#[inline]
fn hash(text: &[u8]) -> u64 {
    FxBuildHasher.hash_one(text)
}

/// The text of `id`.
#[inline]
fn text<'a>(texts: &'a str, ends: &[usize], id: u32) -> &'a str {
    let at = id as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &texts[start..ends[at]]
}

impl Strings {
    /// The id of `text`, new or known.
    ///
    /// # Panics
    /// If the pool would hold more than 2^32 - 1 strings, which no address space here allows.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(id) = self.find(text.as_bytes()) {
            return id;
        }
        let id = u32::try_from(self.ends.len()).expect("fewer than 2^32 strings");
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        let Self { ids, texts, ends } = self;
        let rehash = |&id: &u32| hash(self::text(texts, ends, id).as_bytes());
        ids.insert_unique(hash(text.as_bytes()), id, rehash);
        StrId(id)
    }

    /// The id of `text` if it is known; what is no UTF-8 never is.
    #[inline]
    pub fn find(&self, text: impl AsRef<[u8]>) -> Option<StrId> {
        let text = text.as_ref();
        let is_it = |&id: &u32| self::text(&self.texts, &self.ends, id).as_bytes() == text;
        self.ids.find(hash(text), is_it).map(|&id| StrId(id))
    }

    /// The text of `id`; empty for [`StrId::NULL`].
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        if id.is_null() { "" } else { text(&self.texts, &self.ends, id.0) }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of text that the pool holds.
    pub fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// All strings in id order.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        (0..self.ends.len() as u32).map(|id| (StrId(id), self.get(StrId(id))))
    }

    /// Takes in the strings of `other` that `known`, which maps its ids to ids here, does not hold yet.
    pub fn absorb(&mut self, other: &Self, known: &mut Vec<StrId>) {
        for id in known.len()..other.len() {
            known.push(self.intern(other.get(StrId(id as u32))));
        }
    }
}
