//! A format for tests: what a new format needs. Each line is an event of a device, with commas between its fields:
//! `kernel,<stream>,<start ns>,<duration ns>,<name>` or `step,<number>,<start ns>,<duration ns>`.

use std::io::BufRead as _;

use trace_model::tables::Kernel;
use trace_model::{Capability, Dataset};

use super::head::Head;
use super::importer::{Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope};
use crate::input::text_reader::TextReader;
use crate::timeline::builder::TimelineBuilder;
use crate::warnings::Issue;

/// Timelines of the test format.
pub(crate) struct Sample;

const FIRST_LINE: &str = "sample timeline\n";

static DESCRIPTOR: Descriptor = Descriptor {
    name: "sample",
    files: "timelines of the tests",
    written_by: "the tests",
    docs_page: "formats.md",
    fuzz_target: "sample",
    file_name: "rank0.sample",
    provides: &[Capability::Timeline, Capability::DeviceActivity, Capability::Steps],
    search: SearchScope::Timelines,
};

impl Importer for Sample {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Certain.when(head.bytes().starts_with(FIRST_LINE.as_bytes()))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let mut timeline = TimelineBuilder::new(&DESCRIPTOR, input.file);
        let mut bytes = 0;
        for line in TextReader::new(input.text()?, input.advance).lines() {
            let line = line?;
            bytes += line.len() as u64 + 1;
            if bytes > FIRST_LINE.len() as u64 && !add(&mut timeline, &line) {
                timeline.add_issue(Issue::MalformedEvent);
            }
        }
        Ok(Content::timeline(timeline.finish(bytes)?))
    }
}

/// Adds the event of a line; `false` if the line is not one.
fn add(timeline: &mut TimelineBuilder, line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| fields.get(at).and_then(|text: &&str| text.parse::<i64>().ok());
    let (Some(id), Some(ts_ns), Some(dur_ns)) = (number(1), number(2), number(3)) else {
        return false;
    };
    match (fields[0], fields.get(4)) {
        ("step", None) => {
            let lane = timeline.lane("host", "main");
            timeline.step(id, lane, ts_ns, dur_ns);
        }
        ("kernel", Some(name)) => {
            let (name, thread) = (timeline.intern(name), timeline.lane("0", fields[1]));
            let (device, stream) = (0, i32::try_from(id).unwrap_or(-1));
            let row = Kernel { name, thread, ts_ns, dur_ns, device, stream, ..Kernel::null_row() };
            timeline.kernel(row);
        }
        _ => return false,
    }
    true
}

/// Reads a text as a file of a run.
fn read(text: &str) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(DESCRIPTOR.file_name), text).unwrap();
    crate::read_run(folder.path(), &crate::Options::default(), &crate::NoProgress).unwrap()
}

#[test]
fn a_registered_importer_is_recognized_read_and_enriched() {
    let dataset = read(
        "sample timeline\nstep,1,0,900\nstep,2,1000,900\nkernel,7,100,50,ampere_sgemm\n\
         kernel,7,1100,60,ncclDevKernel_AllReduce\nkernel,7,1200,-5,late\nkernel,x\n",
    );
    let tables = &dataset.tables;
    assert_eq!((tables.rows("kernels"), tables.rows("steps"), tables.rows("ranks")), (2, 2, 1));
    assert_eq!(dataset.run.sources[0].format, "sample");
    let codes: Vec<&str> = dataset.warnings.iter().map(|warning| &*warning.code).collect();
    assert_eq!(codes, ["malformed-event", "negative-duration"]);
    let kernels = &tables.get("kernels")[0];
    let text = |column: &str, row: usize| {
        let array = arrow_array::cast::as_dictionary_array::<arrow_array::types::Int32Type>(
            kernels.column_by_name(column).unwrap(),
        );
        let values = arrow_array::cast::as_string_array(array.values());
        values.value(array.key(row).unwrap()).to_owned()
    };
    assert_eq!((text("kind", 0), text("kind", 1)), ("computation".into(), "communication".into()));
    assert_eq!(text("tensor_cores", 0), "no");
    // Two kernels of one stream, in order, in the steps that they run in.
    let ints = |column: &str| {
        let array = kernels.column_by_name(column).unwrap();
        arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(array)
            .values()
            .to_vec()
    };
    assert_eq!((ints("queue_order"), ints("step")), (vec![0, 1], vec![1, 2]));
    assert_eq!(
        tables.rows("capabilities"),
        4,
        "timeline, device activity, steps, directions of copies"
    );
}
