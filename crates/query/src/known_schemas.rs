//! Schemas of queries that are known before the queries are planned.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Schemas by name: of a view, or of an input of a view in Rust as `view/input`.
///
/// The text has a line with each name, followed by its columns, indented, each as a name and an Arrow type, with a question
/// mark if the column may have nulls:
///
/// ```text
/// gpu_utilization
///   rank Int32
///   kernel_busy_ratio Float64?
/// ```
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownSchemas {
    columns_by_name: HashMap<&'static str, &'static str>,
}

impl KnownSchemas {
    /// Finds the names; columns are parsed when they are needed.
    pub(crate) fn new(text: &'static str) -> Self {
        let mut columns_by_name = HashMap::new();
        let mut rest = text;
        while let Some((name, after)) = rest.split_once('\n') {
            let end = if after.starts_with(' ') {
                after
                    .match_indices('\n')
                    .map(|(at, _)| at + 1)
                    .find(|&at| !after[at..].starts_with(' '))
            } else {
                Some(0)
            };
            let (columns, next) = after.split_at(end.unwrap_or(after.len()));
            columns_by_name.insert(name, columns);
            rest = next;
        }
        Self { columns_by_name }
    }

    /// The schema of that name. `None` if it is not known.
    pub(crate) fn get(&self, name: &str) -> Option<SchemaRef> {
        let fields: Option<Vec<Field>> =
            self.columns_by_name.get(name)?.lines().map(parse_column).collect();
        Some(Arc::new(Schema::new(fields?)))
    }
}

fn parse_column(line: &str) -> Option<Field> {
    let (name, data_type) = line.trim_start().split_once(' ')?;
    let (data_type, is_nullable) = match data_type.strip_suffix('?') {
        Some(data_type) => (data_type, true),
        None => (data_type, false),
    };
    let data_type = match data_type {
        "Int64" => DataType::Int64,
        "Float64" => DataType::Float64,
        "Utf8" => DataType::Utf8,
        other => other.parse().ok()?,
    };
    Some(Field::new(name, data_type, is_nullable))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, FieldRef};

    use super::KnownSchemas;

    #[test]
    fn schemas_are_found_by_name() {
        let text = "a\n  x Int64\n  name Dictionary(Int32, Utf8)?\nb/c\n  flag Boolean\nnone\nlast\n  y Utf8\n";
        let schemas = KnownSchemas::new(text);
        let columns = |name| -> Option<Vec<(String, DataType, bool)>> {
            let schema = schemas.get(name)?;
            let fields = schema.fields().iter();
            let parts = |f: &FieldRef| (f.name().clone(), f.data_type().clone(), f.is_nullable());
            Some(fields.map(parts).collect())
        };
        let names = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
        let a = [("x".to_owned(), DataType::Int64, false), ("name".to_owned(), names, true)];
        assert_eq!(columns("a").unwrap(), a);
        assert_eq!(columns("b/c").unwrap(), [("flag".to_owned(), DataType::Boolean, false)]);
        assert_eq!(columns("none").unwrap(), []);
        assert_eq!(columns("last").unwrap(), [("y".to_owned(), DataType::Utf8, false)]);
        assert_eq!(columns("c"), None);
    }

    #[test]
    fn a_type_that_cannot_be_read_makes_the_schema_unknown() {
        assert!(KnownSchemas::new("a\n  x Galaxy\n").get("a").is_none());
    }
}
