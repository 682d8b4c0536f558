//! Interned strings: names repeat hundreds of thousands of times, so tables hold ids and a pool holds the texts.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Id of an interned string within one [`Strings`] pool. [`StrId::NULL`] is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrId(pub u32);

impl StrId {
    /// Null.
    pub const NULL: Self = Self(u32::MAX);

    /// Returns whether this is null.
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

/// A pool of distinct strings. Their texts are in one buffer, and ids are found by hash, so that no text is stored
/// twice.
#[derive(Debug, Default, Clone)]
pub struct Strings {
    /// The last string of each hash.
    last: FxHashMap<u64, StrId>,
    /// By string: the previous one with the same hash.
    before: Vec<StrId>,
    texts: String,
    ends: Vec<usize>,
}

#[inline]
fn hash(text: &[u8]) -> u64 {
    FxBuildHasher.hash_one(text)
}

impl Strings {
    /// The id of `text`, new or known.
    ///
    /// # Panics
    /// If the pool would hold more than 2^32 - 1 strings, which no address space here allows.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(id) = self.find(text) {
            return id;
        }
        let id = u32::try_from(self.ends.len()).expect("fewer than 2^32 strings");
        let id = StrId(id);
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        let before = self.last.insert(hash(text.as_bytes()), id);
        self.before.push(before.unwrap_or(StrId::NULL));
        id
    }

    /// The id of `text`, if it is in the pool. Invalid UTF-8 never is.
    #[inline]
    pub fn find(&self, text: impl AsRef<[u8]>) -> Option<StrId> {
        let text = text.as_ref();
        let mut id = *self.last.get(&hash(text))?;
        while self.get(id).as_bytes() != text {
            id = self.before[id.index()];
            if id.is_null() {
                return None;
            }
        }
        Some(id)
    }

    /// The text of `id`; empty for [`StrId::NULL`].
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        if id.is_null() {
            return "";
        }
        let at = id.index();
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.texts[start..self.ends[at]]
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the pool is empty.
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

    /// Adds the strings of `other`. `known` maps ids of `other` to ids of this pool, and is extended by the new ones.
    pub fn absorb(&mut self, other: &Self, known: &mut Vec<StrId>) {
        for id in known.len()..other.len() {
            known.push(self.intern(other.get(StrId(id as u32))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intern_gives_each_string_one_id() {
        let mut strings = Strings::default();
        let texts: Vec<String> = (0..10_000).map(|i| format!("aten::op_{}", i % 5000)).collect();
        let ids: Vec<StrId> = texts.iter().map(|text| strings.intern(text)).collect();
        assert_eq!(strings.len(), 5000);
        for (text, &id) in texts.iter().zip(&ids) {
            assert_eq!((strings.get(id), strings.find(text)), (text.as_str(), Some(id)));
        }
        assert_eq!(strings.find("aten::"), None);
        assert_eq!(strings.find(b"\xff"), None);
        assert_eq!(strings.intern(""), StrId(5000));
        assert_eq!(strings.find(""), Some(StrId(5000)));
    }

    #[test]
    fn find_distinguishes_strings_with_the_same_hash() {
        let mut strings = Strings::default();
        let (first, second) = (strings.intern("first"), strings.intern("second"));
        // As if both had the same hash.
        strings.before[second.index()] = first;
        strings.last.insert(hash(b"first"), second);
        assert_eq!((strings.find("first"), strings.find("second")), (Some(first), Some(second)));
    }
}
