//! The vocabulary of Trace Advisor: tables, units, metrics. The waist of the pipeline.
//!
//! ```text
//! bytes -> decoder -> Arrow batches -> tables -> SQL views -> metrics -> rules -> findings
//! '------- ingest -------'  'trace-model'  '---- analyses ----'  '--- advisor ---'
//! ```
//!
//! `ingest`, `analyses` and `advisor` never see each other; what they have in common is declared
//! here once: which tables exist, what a row of each is, the unit of each column ([`tables`]), what
//! a metric is ([`metric`]), and what was read from where ([`dataset`]). No I/O, nothing printed.
//!
//! All times are integer nanoseconds ([`time`]).

pub mod column;
pub mod dataset;
pub mod metric;
mod spec;
pub mod strings;
mod table_source;
pub mod tables;
pub mod time;

pub use arrow_array::RecordBatch;
pub use arrow_schema::Schema;
pub use dataset::{Dataset, RunInfo, Source, TableSet, Warning, Word};
pub use metric::{COMPARISON_VIEWS, MetricSpec, MetricTable, Scope, Value};
pub use spec::{ColumnSpec, ColumnType, TableSpec, Unit};
pub use strings::{StrId, Strings};
pub use table_source::{Batches, Partition, ScanError, TableSource};

/// Version of the table schema, written into Parquet metadata. It grows when a column is renamed,
/// removed or changes meaning; not when one is added.
pub const SCHEMA_VERSION: u32 = 1;
