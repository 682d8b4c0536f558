//! Physical plans of views, which are made once and come with the program. Making the plan of a view takes
//! milliseconds, which is most of the time of a check of a small trace; reading it takes a small part of that.
//!
//! A plan is kept before the physical optimizer rules that look at the number of rows; what is superfluous however many
//! there are is left out.
//! Its leaves name tables and views, whose rows a session adds.

mod recording;
mod relation;

use std::collections::HashMap;
use std::hash::Hasher as _;

use bytes::Bytes;
use datafusion::DATAFUSION_VERSION;
use prost::Message as _;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::error::{Error, Result};

pub(crate) use recording::Recording;
pub(crate) use relation::{NamedTable, RelationReader};

/// Prepared plans of queries, by the name of the query: of a view, of an input of a view in Rust as `view/input`, or of a
/// query of the program or its rules as [`text_name`]. There may be several of one query, which differ in the views that became
/// part of the plan, and in the relations that they leave out because they have no rows. Those that leave out most come
/// first.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreparedPlans {
    by_name: HashMap<String, Vec<PreparedQuery>>,
}

/// The file of prepared plans.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreparedFile {
    /// The version of DataFusion that made the plans, which another one may not be able to read.
    #[prost(string, tag = "1")]
    pub(crate) engine_version: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) queries: Vec<PreparedQuery>,
}

/// The plans of one query.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreparedQuery {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// Of its text, see [`digest`].
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) digest: Bytes,
    /// Tables and views whose rows the plans read.
    #[prost(string, repeated, tag = "3")]
    pub(crate) relations: Vec<String>,
    /// Those of them that the query needs: if one is empty, the query returns no rows.
    #[prost(string, repeated, tag = "4")]
    pub(crate) indispensable: Vec<String>,
    /// Views that are part of the plans.
    #[prost(message, repeated, tag = "5")]
    pub(crate) inlined: Vec<InlinedView>,
    /// The plans in the order of computation. The last one is the query; the others are common table expressions that are
    /// computed once, and whose rows later plans read as [`step_name`].
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) plans: Vec<Bytes>,
    /// Tables and views that the plans leave out: they are right if none of these has rows.
    #[prost(string, repeated, tag = "7")]
    pub(crate) empty: Vec<String>,
}

/// A view that is part of a plan.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InlinedView {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) digest: Bytes,
}

impl PreparedPlans {
    /// Reads a file of plans; of plans of another version of DataFusion nothing is kept.
    ///
    /// # Errors
    /// If it is not such a file.
    pub(crate) fn read(file: &'static [u8]) -> Result<Self> {
        let file = PreparedFile::read(Bytes::from_static(file))?;
        let mut by_name: HashMap<String, Vec<PreparedQuery>> = HashMap::new();
        if file.engine_version == DATAFUSION_VERSION {
            for query in file.queries {
                by_name.entry(query.name.clone()).or_default().push(query);
            }
        }
        Ok(Self { by_name })
    }

    /// The prepared plans of a query.
    pub(crate) fn of(&self, name: &str) -> &[PreparedQuery] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

impl PreparedFile {
    pub(crate) fn read(bytes: Bytes) -> Result<Self> {
        Self::decode(bytes).map_err(|e| Error::PreparedPlans(e.to_string()))
    }
}

impl PreparedQuery {
    /// Whether the plans are those of another query except for the order of columns: they consist of the same bytes.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let sorted = |query: &Self| {
            let sorted = |plan: &Bytes| {
                let mut bytes = plan.to_vec();
                bytes.sort_unstable();
                bytes
            };
            query.plans.iter().map(sorted).collect::<Vec<_>>()
        };
        let without_plans = |query: &Self| Self { plans: Vec::new(), ..query.clone() };
        without_plans(self) == without_plans(other) && sorted(self) == sorted(other)
    }
}

/// The name of a query that is not one of a view among prepared plans. No view has such a name.
pub(crate) fn text_name(sql: &str) -> String {
    format!("query {:08x}", crc32fast::hash(sql.as_bytes()))
}

/// The name of the rows of a plan among the relations of later plans. No table or view has such a name.
pub(crate) fn step_name(step: usize) -> String {
    format!("#{step}")
}

/// Whether a relation of a plan is a step, see [`step_name`].
fn is_step(relation: &str) -> bool {
    relation.starts_with('#')
}

/// Distinguishes queries by their text and the columns by which the rows are sorted.
pub(crate) fn digest(sql: &str, order: &[String]) -> Bytes {
    let mut hash = SipHasher13::new();
    hash.write(sql.as_bytes());
    for column in order {
        hash.write(&[0]);
        hash.write(column.as_bytes());
    }
    Bytes::copy_from_slice(&hash.finish128().as_bytes())
}
