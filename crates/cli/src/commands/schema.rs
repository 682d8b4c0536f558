//! `advisor schema`: the JSON schemas of what programs read and write.

use trace_advisor::advisor::{report_schema_json, rule_schema_json};

use crate::args::{Schema, SchemaOf};
use crate::{Console, Exit};

pub(crate) fn run(args: &Schema, console: &mut Console) -> anyhow::Result<Exit> {
    let schema = match args.what {
        SchemaOf::Report => report_schema_json(),
        SchemaOf::Rules => rule_schema_json(),
    };
    write!(console.out, "{schema}")?;
    Ok(Exit::Clean)
}
