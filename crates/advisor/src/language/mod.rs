//! The language of rule files: TOML text becomes a [`RuleSet`](ruleset::RuleSet), or problems with their places.

pub(crate) mod compile;
pub(crate) mod explain;
pub(crate) mod expr;
pub(crate) mod file_schema;
pub(crate) mod fix;
pub(crate) mod ignore;
pub(crate) mod link;
pub(crate) mod merge;
pub(crate) mod one_or_more;
pub(crate) mod policy;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod rule;
pub(crate) mod rule_check;
pub(crate) mod rule_files;
pub(crate) mod rules_needing;
pub(crate) mod ruleset;
pub(crate) mod schema;
pub(crate) mod schema_check;
pub(crate) mod severity;
pub(crate) mod sql;
pub(crate) mod subject;
pub(crate) mod template_syntax;
pub(crate) mod text;
pub(crate) mod text_schema;
pub(crate) mod threshold;
