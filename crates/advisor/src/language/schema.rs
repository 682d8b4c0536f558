//! The JSON schema of rule files, for editors (`rules/rules.schema.json`).

use schemars::{Schema, schema_for};

use crate::language::file_schema::RuleFile;

/// The schema as a value.
pub(crate) fn rule_file_schema() -> Schema {
    schema_for!(RuleFile)
}

/// The JSON schema of rule files: pretty-printed, with a newline at the end.
pub fn rule_schema_json() -> String {
    pretty(rule_file_schema())
}

pub(crate) fn pretty(schema: Schema) -> String {
    let mut text = format!("{:#}", serde_json::Value::from(schema));
    text.push('\n');
    text
}
