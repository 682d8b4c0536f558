//! Times that several threads compute and read.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// Times by key, each computed when it is first asked for.
pub(crate) struct Memo<K>(Mutex<FxHashMap<K, f64>>);

impl<K> Default for Memo<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Memo<K> {
    /// The value of a key. Threads that ask for the same key at the same time may all compute it.
    pub(crate) fn get_or(&self, key: K, compute: impl FnOnce() -> f64) -> f64 {
        let values = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values().get(&key).copied();
        known.unwrap_or_else(|| {
            let value = compute();
            values().insert(key, value);
            value
        })
    }
}
