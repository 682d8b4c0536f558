//! Reading a memory snapshot of some 50 MB, as a ratio to one pass over its bytes that only looks for the
//! end of each dict, and, where there is a Python, to its own `pickle.load`; both in the same run.
//!
//! `cargo bench --bench snapshot -- FILE EVENTS` writes a snapshot with so many events in place of that: 10 million are
//! 1 GB.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

/// Instructions of protocol 4, as Python writes a list of dicts with shared keys and stacks.
#[derive(Default)]
struct Pickle {
    bytes: Vec<u8>,
    memo: u32,
}

impl Pickle {
    fn put(&mut self) -> u32 {
        self.bytes.push(0x94);
        self.memo += 1;
        self.memo - 1
    }

    fn text(&mut self, text: &str) -> u32 {
        self.bytes.extend([0x8c, text.len() as u8]);
        self.bytes.extend(text.as_bytes());
        self.put()
    }

    fn get(&mut self, at: u32) {
        if let Ok(at) = u8::try_from(at) {
            self.bytes.extend([b'h', at]);
        } else {
            self.bytes.push(b'j');
            self.bytes.extend(at.to_le_bytes());
        }
    }

    fn int(&mut self, value: i64) {
        if let Ok(value) = i32::try_from(value) {
            self.bytes.push(b'J');
            self.bytes.extend(value.to_le_bytes());
        } else {
            self.bytes.extend([0x8a, 8]);
            self.bytes.extend(value.to_le_bytes());
        }
    }
}

/// A history of `events` allocations and releases, with 500 stacks of 40 frames.
fn snapshot(events: i64) -> Vec<u8> {
    let mut p = Pickle::default();
    p.bytes.extend(b"\x80\x04}");
    let root_keys = [p.text("segments"), p.text("device_traces")];
    p.bytes.push(b'0');
    p.bytes.push(b'0');
    let names = [
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "frames",
        "name",
        "filename",
        "line",
        "pool_id",
        "version",
        "compile_context",
        "user_metadata",
    ];
    let keys = names.map(|name| p.text(name));
    let actions = ["alloc", "free_requested", "free_completed"].map(|name| p.text(name));
    let texts = ["N/A", "0/0"].map(|text| p.text(text));
    p.bytes.extend(b"0".repeat(names.len() + actions.len() + texts.len()));
    let frames: Vec<u32> = (0..2000)
        .map(|i| {
            p.bytes.push(b'}');
            let frame = p.put();
            p.bytes.push(b'(');
            p.get(keys[6]);
            p.text(&format!("function_{i}"));
            p.get(keys[7]);
            p.text(&format!("/home/me/project/module_{}.py", i % 97));
            p.get(keys[8]);
            p.int(i);
            p.bytes.extend(b"u0");
            frame
        })
        .collect();
    let stacks: Vec<u32> = (0..500_usize)
        .map(|i| {
            p.bytes.push(b']');
            let stack = p.put();
            p.bytes.push(b'(');
            for depth in 0..40 {
                p.get(frames[(i * (40 - depth) * 7 + depth) % frames.len()]);
            }
            p.bytes.extend(b"e0");
            stack
        })
        .collect();
    p.bytes.push(b'(');
    p.get(root_keys[0]);
    p.bytes.push(b']');
    p.get(root_keys[1]);
    p.bytes.extend(b"](](");
    for i in 0..events {
        p.bytes.push(b'}');
        p.put();
        p.bytes.push(b'(');
        p.get(keys[0]);
        p.get(actions[(i % 3) as usize]);
        p.get(keys[1]);
        p.int(0x7f00_0000_0000 + i / 3 % 5000 * 4096);
        p.get(keys[2]);
        p.int(4096);
        p.get(keys[3]);
        p.int(0);
        p.get(keys[5]);
        p.get(stacks[(i * 31 % 500) as usize]);
        p.get(keys[4]);
        p.int(1_700_000_000_000_000 + i);
        // What newer versions write, too.
        for (key, value) in [(keys[9], 0), (keys[10], -1)] {
            p.get(key);
            p.int(value);
        }
        p.get(keys[11]);
        p.get(texts[(i / 3 % 2) as usize]);
        p.get(keys[12]);
        p.bytes.push(b'N');
        p.bytes.push(b'u');
    }
    p.bytes.extend(b"eeu.");
    p.bytes
}

fn python(file: &Path) -> Option<f64> {
    let code = "import pickle, sys, time; t = time.perf_counter(); \
                pickle.load(open(sys.argv[1], 'rb')); print(time.perf_counter() - t)";
    let output = Command::new("python3").args(["-c", code]).arg(file).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn main() {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [file, events] = wanted.as_slice() {
        let events = events.parse().expect("a number of events");
        return std::fs::write(file, snapshot(events)).expect("writing the snapshot");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("snapshot_rank0.pickle");
    let bytes = snapshot(800_000);
    std::fs::write(&file, &bytes).expect("writing the snapshot");
    let floor = support::seconds(|| {
        let bytes = std::fs::read(&file).expect("it was just written");
        black_box(memchr::memchr_iter(b'u', &bytes).count())
    });
    let read = support::seconds(|| {
        let dataset = ingest::read_run(&file, &ingest::Options::default(), &ingest::NoProgress);
        black_box(dataset.expect("a whole snapshot").tables.rows("snapshot_events"))
    });
    let megabytes = bytes.len() as f64 / 1e6;
    println!(
        "snapshot of {megabytes:.0} MB: read_run {read:.3} s, {:.1} times one pass over it",
        read / floor
    );
    if let Some(python) = python(&file) {
        println!("Python's pickle.load takes {python:.3} s: {:.1} times read_run", python / read);
    }
}
