//! JSON schemas: of rule files, for editors (`rules/rules.schema.json`), and of reports
//! (`docs/report.schema.json`).

use schemars::generate::SchemaSettings;
use schemars::{Schema, schema_for};

use crate::report::Report;
use crate::table::RuleFile;

/// The schema as a value.
pub(crate) fn rule_file_schema() -> Schema {
    schema_for!(RuleFile)
}

/// The JSON schema of rule files: pretty-printed, with a newline at the end.
pub fn rule_schema_json() -> String {
    pretty(rule_file_schema())
}

/// The JSON schema of a [`Report`] as JSON: pretty-printed, with a newline at the end. Fields may be added
/// within a version; what it says of those it names holds.
pub fn report_schema_json() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    pretty(settings.into_generator().into_root_schema_for::<Report>())
}

fn pretty(schema: Schema) -> String {
    let mut text = format!("{:#}", serde_json::Value::from(schema));
    text.push('\n');
    text
}
