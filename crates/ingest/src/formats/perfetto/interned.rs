//! Texts that sequences of packets declare once and then refer to by number.

use rustc_hash::FxHashMap;

use super::schema::InternedData;

/// Maximum bytes of interned texts that are kept at the same time.
const MAX_BYTES: usize = 256 << 20;
/// Estimated bytes of an entry of a hash table, without its text.
pub(super) const ENTRY_BYTES: usize = 64;

/// Interned texts by number.
pub(super) type Texts = FxHashMap<u64, Box<[u8]>>;

/// A queue of a GPU, or a kind of its activities.
#[derive(Debug)]
pub(super) struct Specification {
    pub(super) name: Box<[u8]>,
    pub(super) is_computation: bool,
}

/// Names of the counters of a GPU.
#[derive(Debug)]
pub(super) struct CounterNames {
    pub(super) gpu: i32,
    pub(super) names: FxHashMap<u32, Box<[u8]>>,
}

/// The data that a sequence has interned since its state was last cleared.
#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) names: Texts,
    pub(super) categories: Texts,
    pub(super) annotation_names: Texts,
    pub(super) strings: Texts,
    pub(super) kernels: Texts,
    pub(super) kernel_args: Texts,
    pub(super) specifications: FxHashMap<u64, Specification>,
    pub(super) counters: FxHashMap<u64, CounterNames>,
    bytes: usize,
    /// Pending events refer to this data.
    is_used: bool,
}

/// The interned data of all sequences, in numbered places. The cost of [`Self::settle`] depends on the places that events used, not
/// on the number of sequences.
#[derive(Debug, Default)]
pub(super) struct InternedPool {
    places: Vec<Interned>,
    bytes: usize,
    /// Places that pending events refer to.
    used: Vec<usize>,
    /// Places that pending events refer to, but no sequence.
    retired: Vec<usize>,
    /// Places that nothing refers to.
    free: Vec<usize>,
}

impl InternedPool {
    pub(super) fn get(&self, place: usize) -> &Interned {
        &self.places[place]
    }

    /// Returns an empty place for a sequence.
    pub(super) fn new_place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Interned::default());
            self.places.len() - 1
        })
    }

    /// Keeps the data of a place until [`Self::settle`], because a pending event refers to it.
    pub(super) fn keep(&mut self, place: usize) {
        if !std::mem::replace(&mut self.places[place].is_used, true) {
            self.used.push(place);
        }
    }

    /// Clears the state of the sequence at a place. Returns the new place of the sequence.
    pub(super) fn clear(&mut self, place: usize) -> usize {
        if self.places[place].is_used {
            self.retired.push(place);
            return self.new_place();
        }
        self.empty(place);
        place
    }

    /// Drops the data that no sequence refers to. Must be called when no events are pending.
    pub(super) fn settle(&mut self) {
        for place in self.used.drain(..) {
            self.places[place].is_used = false;
        }
        while let Some(place) = self.retired.pop() {
            self.empty(place);
            self.free.push(place);
        }
    }

    fn empty(&mut self, place: usize) {
        self.bytes -= std::mem::take(&mut self.places[place]).bytes;
    }

    /// Adds the declarations of a packet. Returns the number of declarations that exceeded the limit and were dropped.
    pub(super) fn intern(&mut self, place: usize, data: InternedData) -> u64 {
        let interned = &mut self.places[place];
        let bytes_before = interned.bytes;
        let room = MAX_BYTES.saturating_sub(self.bytes);
        let mut dropped = 0;
        let mut has_room = |bytes: &mut usize, length: usize| {
            let is_within = *bytes - bytes_before + length + ENTRY_BYTES <= room;
            if is_within {
                *bytes += length + ENTRY_BYTES;
            } else {
                dropped += 1;
            }
            is_within
        };
        macro_rules! add_texts {
            ($($from:ident => $to:ident),+) => { $(
                for entry in data.$from {
                    if has_room(&mut interned.bytes, entry.text.len()) {
                        interned.$to.insert(entry.iid, entry.text.into_boxed_slice());
                    }
                }
            )+ };
        }
        add_texts!(
            event_names => names,
            event_categories => categories,
            annotation_names => annotation_names,
            annotation_strings => strings,
            kernel_arg_names => kernel_args
        );
        for kernel in data.kernels {
            let name =
                if kernel.demangled_name.is_empty() { kernel.name } else { kernel.demangled_name };
            if has_room(&mut interned.bytes, name.len()) {
                interned.kernels.insert(kernel.iid, name.into_boxed_slice());
            }
        }
        for entry in data.gpu_specifications {
            const COMPUTATION: i32 = 2;
            if has_room(&mut interned.bytes, entry.name.len()) {
                let is_computation = entry.category == COMPUTATION;
                let specification =
                    Specification { name: entry.name.into_boxed_slice(), is_computation };
                interned.specifications.insert(entry.iid, specification);
            }
        }
        for entry in data.gpu_counters {
            let mut names = FxHashMap::default();
            for spec in entry.descriptor.unwrap_or_default().specs {
                if has_room(&mut interned.bytes, spec.name.len()) {
                    names.insert(spec.counter, spec.name.into_boxed_slice());
                }
            }
            if has_room(&mut interned.bytes, 0) {
                interned.counters.insert(entry.iid, CounterNames { gpu: entry.gpu, names });
            }
        }
        self.bytes += interned.bytes - bytes_before;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::perfetto::schema::InternedText;

    fn named(text: &str) -> InternedData {
        let name = InternedText { iid: 1, text: text.into() };
        InternedData { event_names: vec![name], ..InternedData::default() }
    }

    #[test]
    fn places_are_used_again_when_no_event_waits() {
        let mut pool = InternedPool::default();
        let mut place = pool.new_place();
        for _ in 0..100 {
            assert_eq!(pool.intern(place, named("one")), 0);
            pool.keep(place);
            let before = place;
            place = pool.clear(place);
            assert_ne!(place, before, "an event waits");
            assert_eq!(&*pool.get(before).names[&1], b"one");
            assert!(pool.get(place).names.is_empty());
            assert_eq!(pool.used, [before], "settling looks at one place");
            pool.settle();
        }
        assert_eq!(pool.places.len(), 2);
        assert_eq!(pool.bytes, 0);
    }

    #[test]
    fn a_place_that_no_event_uses_is_emptied_in_place() {
        let mut pool = InternedPool::default();
        let place = pool.new_place();
        pool.intern(place, named("one"));
        assert_eq!(pool.clear(place), place);
        assert!(pool.get(place).names.is_empty());
        assert_eq!(pool.bytes, 0);
    }
}
