//! Tables in, rows of documented SQL views out. The only crate that knows the query engine.
//!
//! A view is one file, `sql/<area>/<name>.sql`, named `<area>_<name>` (files in `sql/prelude/` are
//! building blocks and go by their own name). Its `--!` lines say what a row is, what the query reads,
//! which parameters it has, and the meaning and unit of each column. The [`catalog`] holds all of
//! them; a [`Session`] runs them over the tables of a run:
//!
//! ```
//! use analyses::{Params, Session};
//! use trace_model::TableSet;
//!
//! let mut params = Params::default();
//! params.set("short_kernel_us", 10);
//! let session = Session::new(TableSet::default(), params)?;
//! let batches = session.analyze("gpu_utilization")?;
//! let rows = session.sql("SELECT name, count(*) FROM kernels GROUP BY name")?;
//! # assert_eq!((batches[0].num_rows(), rows[0].num_rows()), (0, 0));
//! # Ok::<(), analyses::Error>(())
//! ```
//!
//! What is truly an algorithm on a graph or a tree (the critical path, sequences of kernels) is Rust in
//! `src/native/`, with the same header in a TOML file: a view to whoever reads it.
//!
//! SQL views use what the engine has built in and nothing of our own, so that the same files run over
//! Parquet on a cluster. Interval algebra is done with window functions: sorted boundaries, running
//! sums and running maxima, never a join on time ranges.

mod by_rank;
mod catalog;
mod columns;
mod ctes;
mod devices;
pub mod diff;
mod error;
mod header;
mod in_order;
mod metrics;
mod mistake;
mod module;
mod native;
mod params;
mod planning;
mod scan;
mod schema;
mod selection;
mod session;
mod topics;
mod unfold;
mod whole;

pub use by_rank::{fits, fits_by_rank};
pub use catalog::{Catalog, catalog};
pub use datafusion;
pub use devices::{DEVICES, DTYPES, DeviceMistake, check_devices};
pub use error::{Error, Result};
pub use metrics::rows_to_values;
pub use mistake::QueryMistake;
pub use module::{Column, Module, Param, Source};
pub use params::{ParamValue, Params};
pub use selection::{Range, Ranges, Selection, SelectionError};
pub use session::{Session, Tables};
pub use topics::{TOPICS, Topic};
