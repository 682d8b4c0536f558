//! The rows of one query from several runs, with a first column that names the run.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use trace_advisor::arrow;

use crate::diagnostics::with_help;

/// Name of the column with the path of the run.
const RUN: &str = "run";

/// Rows of one query, from one run after the other.
#[derive(Debug, Default)]
pub(crate) struct RowsOfRuns {
    /// That of the first run that has rows or columns.
    schema: Option<SchemaRef>,
    batches: Vec<RecordBatch>,
}

impl RowsOfRuns {
    /// Adds the rows of the run at `path`.
    ///
    /// # Errors
    ///
    /// If the rows have a column `run` already, or other columns than those of the runs before.
    pub(crate) fn add(&mut self, path: &Path, batches: &[RecordBatch]) -> anyhow::Result<()> {
        let Some(first) = batches.first() else { return Ok(()) };
        let schema = match &self.schema {
            Some(schema) => Arc::clone(schema),
            None => Arc::clone(self.schema.insert(schema_with_run(&first.schema())?)),
        };
        let path = path.display().to_string();
        for batch in batches {
            let names = batch.schema();
            let names = names.fields().iter().map(|field| field.name());
            if !schema.fields().iter().skip(1).map(|field| field.name()).eq(names) {
                return Err(with_help(
                    format!("{path}: the query has other columns than in the runs before"),
                    "name the columns in the query",
                ));
            }
            let run: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
                &path,
                batch.num_rows(),
            )));
            // A column that is empty in one run may have no type there.
            let fields = schema.fields().iter().skip(1);
            let columns = fields.zip(batch.columns()).map(|(f, array)| cast(array, f.data_type()));
            let columns = [Ok(run)].into_iter().chain(columns).collect::<Result<_, _>>()?;
            self.batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
        }
        Ok(())
    }

    /// The rows of all runs.
    pub(crate) fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }
}

/// The columns with that of the run in front. All may be null, since they may be in another run.
fn schema_with_run(schema: &Schema) -> anyhow::Result<SchemaRef> {
    if schema.fields().iter().any(|field| field.name() == RUN) {
        return Err(with_help(
            format!("with --each, the column `{RUN}` names the run, but the query has one, too"),
            "give the column of the query another name",
        ));
    }
    let run = Arc::new(Field::new(RUN, DataType::Utf8, false));
    let columns = schema.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true)));
    Ok(Arc::new(Schema::new([run].into_iter().chain(columns).collect::<Vec<_>>())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, NullArray, RecordBatch};
    use arrow::datatypes::Int64Type;
    use trace_advisor::arrow;

    use super::RowsOfRuns;

    fn rows(column: &str, values: ArrayRef) -> Vec<RecordBatch> {
        vec![RecordBatch::try_from_iter_with_nullable([(column, values, true)]).unwrap()]
    }

    #[test]
    fn rows_of_runs_name_their_run() {
        let mut all = RowsOfRuns::default();
        all.add(Path::new("a"), &rows("n", Arc::new(Int64Array::from(vec![1, 2])))).unwrap();
        all.add(Path::new("b"), &rows("n", Arc::new(NullArray::new(1)))).unwrap();
        let batches = all.into_batches();
        let runs: Vec<&str> =
            batches.iter().flat_map(|b| b.column(0).as_string::<i32>().iter().flatten()).collect();
        assert_eq!(runs, ["a", "a", "b"]);
        assert!(batches[1].column(1).as_primitive::<Int64Type>().iter().eq([None]));
    }

    #[test]
    fn rows_of_runs_need_the_same_columns() {
        let mut all = RowsOfRuns::default();
        let one = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        assert!(all.add(Path::new("a"), &rows("run", one())).is_err());
        all.add(Path::new("a"), &rows("n", one())).unwrap();
        assert!(all.add(Path::new("b"), &rows("m", one())).is_err());
    }
}
