//! SQL views and graph algorithms over profiler tables.
//!
//! Each folder of `src` is a topic with its SQL files and its Rust side by side. `src/<topic>/<name>.sql` is the view
//! `<topic>_<name>`; views in `src/base/` are building blocks and go by their own name. A header in `<name>.toml` stands for a view that is
//! computed in Rust: the critical path, call trees, collectives matched across ranks. [`catalog`] holds all of them:
//!
//! ```
//! use analyses::catalog;
//! use query::{Params, Session};
//! use trace_model::TableSet;
//!
//! let mut params = Params::default();
//! params.set("short_kernel_us", 10);
//! let session = Session::new(catalog(), TableSet::default(), &params)?;
//! let batches = session.analyze("gpu_utilization")?;
//! let rows = session.sql("SELECT name, count(*) FROM kernels GROUP BY name")?;
//! # assert_eq!((batches[0].num_rows(), rows[0].num_rows()), (0, 0));
//! # Ok::<(), query::Error>(())
//! ```
//!
//! SQL views use only functions that DataFusion has built in, so that the same text runs over Parquet on a cluster. Their files
//! may also use the macros of `src/sql_macros.rs`, which `build.rs` expands to plain SQL. Interval algebra uses window
//! functions (sorted boundaries, running sums, running maxima), never a join on time ranges.

mod call_tree;
mod comm;
mod hta;
mod idle;
mod interval_set;
mod kernel;
mod lightning;
mod loader;
mod memory;
mod module;
mod op;
mod pipeline;
mod registry;
mod roofline;
#[cfg(test)]
mod sql_macros;
mod statistics;
mod step;
mod system;
mod topics;
mod trainer;
mod vocabulary;

use std::sync::OnceLock;

use query::{Catalog, ViewSource};

pub use roofline::device_peaks::{DEVICES, DTYPES, DeviceTableError, check_devices};
pub use topics::{START_HERE, TOPICS, Topic};

const SOURCES: &[ViewSource<'static>] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Schemas of their queries, which `tests/it/catalog.rs` holds current.
const SCHEMAS: &str = include_str!("schemas.txt");

/// Plans of their queries, as `check` runs them with the rules that come with the program; held current as the schemas are.
const PREPARED_PLANS: &[u8] = include_bytes!("prepared_plans.bin");

/// The views that come with the program.
///
/// # Panics
/// If an embedded file is not a valid view, which the tests of this crate rule out.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    if let Some(catalog) = CATALOG.get() {
        return catalog;
    }
    // Not below a lock: sources are parsed in parallel, and a thread of rayon that waits for the others may take up
    // work that needs the catalog, too.
    let catalog = Catalog::new(SOURCES, registry::VIEWS)
        .and_then(|catalog| catalog.with_schemas(SCHEMAS).with_prepared_plans(PREPARED_PLANS));
    CATALOG.get_or_init(|| catalog.unwrap_or_else(|e| panic!("embedded views: {e}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{SOURCES, sql_macros};

    #[test]
    fn embedded_sql_is_the_expansion_of_its_file() {
        for source in SOURCES.iter().filter(|source| source.path.ends_with("sql")) {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(source.path);
            let text = std::fs::read_to_string(file).unwrap();
            assert!(sql_macros::expand(&text).unwrap() == source.text, "{}", source.path);
        }
    }
}
