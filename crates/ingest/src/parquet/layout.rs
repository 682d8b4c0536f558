//! Names of the files of an export.

/// Path of a partition below the folder of the export.
pub(crate) fn partition_path(table: &str, rank: Option<i32>) -> String {
    match rank {
        Some(rank) => format!("{table}/rank-{rank:05}.parquet"),
        None => format!("{table}/run.parquet"),
    }
}

/// Tables about the run as a whole: they have one file for all ranks.
pub(crate) const RUN_TABLES: [&str; 2] = ["ranks", "reading_warnings"];
