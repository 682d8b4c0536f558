//! Counter tracks: values over time.

use std::io;

use arrow::array::Array;
use ingest::EventWriter;
use query::columns::get;

use super::added::Added;
use super::lanes::RankLanes;
use super::rows::{Rows, text};
use crate::error::Error;
use crate::pipeline::Run;

/// The counters of all ranks.
#[derive(Debug)]
pub(super) struct Counters(Vec<Series>);

/// Counters of one kind: a track for each device, and each part of it.
#[derive(Debug)]
struct Series {
    name: &'static str,
    unit: &'static str,
    /// `device`, `part` (text), `ts_ns`, `value` (absent: unknown), `end_ns` (absent: until the next).
    rows: Rows,
}

/// State of the track being written.
struct Track<'a> {
    device: i64,
    part: &'a str,
    pid: &'a str,
    name: String,
    last: f64,
    end_ns: Option<i64>,
}

impl Counters {
    pub(super) fn read(run: &Run) -> Result<Self, Error> {
        let series = |name, unit, sql: &str| {
            Ok::<_, Error>(Series { name, unit, rows: Rows::query(run, sql)? })
        };
        Ok(Self(vec![
            // Of several changes at one time, the last counts.
            series(
                "Queue length",
                "activities",
                "SELECT rank, device, 'stream ' || stream AS part, ts_ns, CAST(NULL AS BIGINT) AS end_ns,
                    CAST(queue_length AS DOUBLE) AS value
                FROM queue_length_series WHERE dur_ns IS NULL OR dur_ns > 0
                ORDER BY rank, device, stream, ts_ns",
            )?,
            series(
                "Memory bandwidth",
                "GB/s",
                "SELECT rank, device, kind AS part, ts_ns, CAST(NULL AS BIGINT) AS end_ns,
                    bandwidth_gb_per_s AS value
                FROM memory_bandwidth_series ORDER BY rank, device, kind, ts_ns",
            )?,
            series(
                "GPU utilization",
                "%",
                "SELECT rank, device, '' AS part, ts_ns, ts_ns + dur_ns AS end_ns, 100 * busy_ratio AS value
                FROM gpu_utilization_series ORDER BY rank, device, ts_ns",
            )?,
            series(
                "SM efficiency",
                "%",
                "SELECT rank, device, '' AS part, ts_ns, ts_ns + dur_ns AS end_ns, 100 * sm_efficiency_ratio AS value
                FROM gpu_utilization_series ORDER BY rank, device, ts_ns",
            )?,
        ]))
    }

    pub(super) fn write(
        &self,
        lanes: &RankLanes<'_>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        for series in &self.0 {
            series.write(lanes, out, added)?;
        }
        Ok(())
    }
}

impl Series {
    fn write(
        &self,
        lanes: &RankLanes<'_>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        let rows = &self.rows;
        let (devices, parts) = (rows.ints("device"), rows.texts("part"));
        let (starts, ends) = (rows.ints("ts_ns"), rows.ints("end_ns"));
        let values = rows.floats("value");
        let mut track: Option<Track<'_>> = None;
        for row in rows.of(lanes.rank).filter(|&row| values.is_valid(row)) {
            let (device, part) = (devices.value(row), text(parts, row));
            let track = match &mut track {
                Some(track) if track.device == device && track.part == part => track,
                other => {
                    self.close(other.take(), out, added)?;
                    added.counters += 1;
                    let space = if part.is_empty() { "" } else { " " };
                    let name = format!("{}{}{space}{part}", self.name, lanes.device_label(device));
                    let pid = lanes.device_process(device);
                    other.insert(Track { device, part, pid, name, last: f64::NAN, end_ns: None })
                }
            };
            let value = values.value(row);
            if value.to_bits() != track.last.to_bits() {
                out.counter(track.pid, &track.name, self.unit, starts.value(row), value)?;
                added.samples += 1;
                track.last = value;
            }
            track.end_ns = get(ends, row);
        }
        self.close(track, out, added)
    }

    /// A value with an end is followed by zero.
    fn close(
        &self,
        track: Option<Track<'_>>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        if let Some(Track { pid, name, end_ns: Some(end_ns), .. }) = track {
            out.counter(pid, &name, self.unit, end_ns, 0.0)?;
            added.samples += 1;
        }
        Ok(())
    }
}
