//! The memory allocator of the program: mimalloc for small allocations, the system for large ones.
//!
//! Reading and running plans makes many small allocations, which mimalloc serves faster. Reading a trace grows large ones,
//! which the system moves without copying them. See decision 048.

use std::alloc::{GlobalAlloc, Layout, System};

use mimalloc::MiMalloc;

/// Allocations of fewer bytes come from mimalloc.
const LARGE_BYTES: usize = 64 << 10;

/// The allocator. Which part serves an allocation follows from its layout, which callers repeat when they free it.
#[derive(Debug, Clone, Copy)]
pub struct SizedAllocator;

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
}

// SAFETY: each method passes its arguments on to the allocator that is responsible for the size, and both meet the contract of
// `GlobalAlloc`. `realloc` copies between them as the default implementation does.
unsafe impl GlobalAlloc for SizedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the same contract.
        unsafe {
            if is_large(layout.size()) { System.alloc(layout) } else { MiMalloc.alloc(layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the same contract.
        unsafe {
            if is_large(layout.size()) {
                System.alloc_zeroed(layout)
            } else {
                MiMalloc.alloc_zeroed(layout)
            }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer was allocated with this layout, and so by this allocator.
        unsafe {
            if is_large(layout.size()) {
                System.dealloc(pointer, layout);
            } else {
                MiMalloc.dealloc(pointer, layout);
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: the pointer was allocated with this layout, and so by this allocator. The caller promises that the new size
        // makes a valid layout; a new allocation does not overlap the old one.
        unsafe {
            match (is_large(layout.size()), is_large(new_bytes)) {
                (true, true) => System.realloc(pointer, layout, new_bytes),
                (false, false) => MiMalloc.realloc(pointer, layout, new_bytes),
                _ => {
                    let new_layout = Layout::from_size_align_unchecked(new_bytes, layout.align());
                    let new = self.alloc(new_layout);
                    if !new.is_null() {
                        pointer.copy_to_nonoverlapping(new, layout.size().min(new_bytes));
                        self.dealloc(pointer, layout);
                    }
                    new
                }
            }
        }
    }
}

/// Makes glibc keep freed memory for later allocations instead of returning it to the kernel, which clears it each time, and
/// share it among threads. Does nothing with other C libraries. Takes effect for threads that start later.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        // Large allocations are too few for threads to wait for each other.
        (libc::M_ARENA_MAX, 1),
        // Up to these, glibc raises both by itself as memory is freed.
        (libc::M_MMAP_THRESHOLD, 32 << 20),
        (libc::M_TRIM_THRESHOLD, 64 << 20),
    ] {
        // SAFETY: it takes integers, and returns whether it knows the parameter. No other thread runs yet.
        unsafe { libc::mallopt(parameter, value) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{LARGE_BYTES, SizedAllocator, keep_freed_memory};

    #[global_allocator]
    static ALLOCATOR: SizedAllocator = SizedAllocator;

    #[test]
    fn contents_survive_growing_and_shrinking_across_the_limit() {
        keep_freed_memory();
        let check = || {
            let mut numbers: Vec<usize> = Vec::new();
            for number in 0..LARGE_BYTES {
                numbers.push(number);
            }
            assert!(numbers.iter().copied().eq(0..LARGE_BYTES));
            for length in [LARGE_BYTES / 2, LARGE_BYTES / 8, LARGE_BYTES / 8 - 1, 100, 0] {
                numbers.truncate(length);
                numbers.shrink_to_fit();
                assert!(numbers.iter().copied().eq(0..length));
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(check))));
    }

    #[test]
    fn memory_is_zeroed_and_freed_by_other_threads() {
        for bytes in [1, LARGE_BYTES - 1, LARGE_BYTES, 40 << 20] {
            drop(vec![1_u8; bytes]);
            let zeros = vec![0_u8; bytes];
            let are_zero = thread::spawn(move || zeros.iter().all(|&byte| byte == 0));
            assert!(are_zero.join().unwrap());
        }
    }
}
