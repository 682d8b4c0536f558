//! Runs documented SQL views over the tables of a run. The only crate that names DataFusion.
//!
//! A view is one SQL file. Its `--!` lines say what a row is, what the query reads, which parameters it has, and the
//! meaning and unit of each column. A [`Catalog`] holds views in dependency order; a [`Session`] runs them over the
//! tables of a run. Views that are graph or tree algorithms are Rust ([`RustView`]) with the same header in a TOML file.
//!
//! ```
//! use query::{Catalog, Params, Session, ViewSource};
//! use trace_model::TableSet;
//!
//! let text = "--! row = \"one kernel name\"\n--! needs = [\"kernels\"]\n--! [columns]\n--! name = \"name\"
//! SELECT DISTINCT name FROM kernels";
//! let sources = [ViewSource { path: "src/kernel/names.sql", text }];
//! let catalog: &'static Catalog = Box::leak(Box::new(Catalog::new(&sources, &[])?));
//! let session = Session::new(catalog, TableSet::default(), &Params::default())?;
//! assert_eq!(session.analyze("kernel_names")?[0].num_rows(), 0);
//! # Ok::<(), query::Error>(())
//! ```

mod batch_builder;
mod bounded_functions;
mod cancellation;
mod catalog;
pub mod columns;
mod context;
mod error;
mod exec;
mod execution;
mod header;
pub mod id_index;
mod inline_sql;
mod known_schemas;
mod metric_table;
mod parallel;
mod params;
mod plan;
mod prepared;
mod progress;
mod provider;
mod query_diagnostic;
mod query_error;
mod rank_groups;
mod row_order;
pub mod rust_view;
mod scan;
mod selection;
mod session;
mod spill_file;
mod storage;
mod stored_rows;
mod view;

pub use batch_builder::{BatchBuilder, dictionary_array};
pub use cancellation::Cancellation;
pub use catalog::Catalog;
pub use error::{Error, Result, similar};
pub use metric_table::query_table;
pub use parallel::{both, per_item, per_item_on};
pub use params::{ParamValue, Params};
pub use progress::ViewProgress;
pub use query_diagnostic::{QueryDiagnostic, QueryHelp};
pub use rank_groups::{fits_in_memory, fits_rank_by_rank};
pub use rust_view::{RustView, SharedComputation, ViewError, ViewInputs, ViewOutputs};
pub use selection::{Range, Ranges, Selection, SelectionError};
pub use session::{FirstRows, Session, Tables, ViewUse, prepare_plans};
pub use view::{Column, Param, ViewDef, ViewScope, ViewSource, Window};
