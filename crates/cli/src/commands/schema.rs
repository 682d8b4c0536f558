//! `advisor schema`: the JSON schemas of reports and rule files.

use trace_advisor::advisor::{report_schema_json, rule_schema_json};

use crate::args::{SchemaArgs, SchemaDocument};
use crate::console::Console;
use crate::exit::Exit;

pub(crate) fn run(args: &SchemaArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let schema = match args.document {
        SchemaDocument::Report => report_schema_json(),
        SchemaDocument::Rules => rule_schema_json(),
    };
    write!(console.out, "{schema}")?;
    Ok(Exit::Clean)
}
