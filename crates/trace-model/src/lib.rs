//! Types that all stages of Trace Advisor share: tables, units, metrics.
//!
//! ```text
//! bytes -> decoder -> Arrow batches -> tables -> SQL views -> metrics -> rules -> findings
//! '------- ingest -------'  'trace-model'  '---- analyses ----'  '--- advisor ---'
//! ```
//!
//! `ingest`, `analyses` and `advisor` do not depend on each other; what they share is declared here: the tables with
//! their rows, columns and units ([`tables`]), metrics ([`metric`]), rows of values ([`row`]), what a recording can contain
//! ([`capability`]), the input of a run ([`dataset`]), names with a meaning ([`vocabulary`]), and how commands name a run ([`command_line`]). This crate does no I/O and prints nothing.
//!
//! All times are integer nanoseconds ([`time`]).

pub mod capability;
pub mod column;
pub mod command_line;
pub mod damage;
pub mod dataset;
pub mod metric;
pub mod number;
pub mod retiming;
pub mod row;
mod spec;
pub mod statistics;
pub mod strings;
pub mod suggest;
mod table_source;
pub mod tables;
pub mod text;
pub mod time;
pub mod vocabulary;

pub use arrow_array::RecordBatch;
pub use arrow_schema::Schema;
pub use capability::{Capabilities, Capability, Provider};
pub use dataset::{Dataset, RunInfo, SPLIT_RANK, Source, TableSet, Warning};
pub use metric::{COMPARISON_VIEWS, FailedTable, MetricSpec, MetricTable, Scope};
pub use row::{Row, Value};
pub use spec::{ColumnSpec, ColumnType, TableSpec, Unit};
pub use strings::{StrId, Strings};
pub use table_source::{Batches, Partition, ScanError, TableSource};

/// Version of the table schema, written into Parquet metadata. It grows when a column is renamed,
/// removed or changes meaning; not when one is added.
pub const SCHEMA_VERSION: u32 = 1;
