//! Patterns over dictionaries give what they give over plain text.

use std::sync::Arc;

use arrow::array::{DictionaryArray, Int32Array, StringArray};
use arrow::datatypes::Int32Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionState;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;
use trace_model::RecordBatch;

use crate::plan::match_dictionaries::{MatchDictionaries, MatchDictionary};

const VALUES: [Option<&str>; 8] = [
    Some("aten::mm"),
    Some("aten::MM_"),
    Some("ncclKernel%"),
    Some(""),
    Some("a\nb"),
    Some("a.*b\\"),
    Some("axb%b_c"),
    None,
];

/// Of the column `name`, which is a dictionary, and `text`, with the same rows.
const PATTERNS: [&str; 22] = [
    "{} ~ '^aten::'",
    "{} ~* 'MM'",
    "{} !~ 'mm$'",
    "{} !~* 'mm'",
    "{} LIKE 'aten%'",
    "{} NOT LIKE '%\\_'",
    "{} ILIKE '%mm%'",
    "{} NOT ILIKE 'NCCL%'",
    "{} LIKE 'a%b'",
    "{} LIKE '_%b%'",
    "{} LIKE 'a_b%'",
    "{} LIKE '%_'",
    "{} LIKE 'a.*_%'",
    "{} LIKE '%\\%'",
    "{} LIKE '%\\\\'",
    "{} LIKE '%b\\'",
    "{} ILIKE 'A%B\\_c'",
    "{} NOT ILIKE '%::mm_%'",
    "regexp_like({}, '(?i)nccl|mm_')",
    "regexp_like({}, 'MM', 'i')",
    "CAST({} AS VARCHAR) LIKE '%l%'",
    "CASE WHEN regexp_like(CAST({} AS VARCHAR), '^a.b') THEN true WHEN {} LIKE '' THEN NULL ELSE {} ~ 'K' END",
];

fn states() -> [SessionState; 2] {
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(4);
    let theirs = SessionContext::new_with_config(config.clone());
    let ours = SessionContext::new_with_config(config);
    ours.register_udf(MatchDictionary::function());
    ours.add_optimizer_rule(Arc::new(MatchDictionaries::new()));
    [ours, theirs].map(|context| context.state())
}

/// Rows are picks of [`VALUES`]. The dictionary has all values, which are more than a batch has rows, or as few as are
/// used, some of them twice.
fn table(picks: &[usize], is_large: bool) -> RecordBatch {
    let text: StringArray = picks.iter().map(|&pick| VALUES[pick]).collect();
    let (keys, values): (Int32Array, StringArray) = if is_large {
        let keys = picks.iter().map(|&pick| Some(pick as i32)).collect();
        (keys, VALUES.into_iter().collect())
    } else {
        let few: DictionaryArray<Int32Type> = picks.iter().map(|&pick| VALUES[pick]).collect();
        (few.keys().clone(), few.values().as_any().downcast_ref::<StringArray>().unwrap().clone())
    };
    let name = DictionaryArray::new(keys, Arc::new(values));
    RecordBatch::try_from_iter_with_nullable([
        ("number", Arc::new(Int32Array::from_iter_values(0..picks.len() as i32)) as _, false),
        ("name", Arc::new(name) as _, true),
        ("text", Arc::new(text) as _, true),
    ])
    .unwrap()
}

/// Rows of a query, and its plan.
fn answer(state: &SessionState, rows: &RecordBatch, query: &str) -> (String, String) {
    let context = SessionContext::new_with_state(state.clone());
    context.register_batch("t", rows.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(async {
        let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let batches = collect(plan, context.task_ctx()).await.unwrap();
        (pretty_format_batches(&batches).unwrap().to_string(), shown)
    });
    context.deregister_table("t").unwrap();
    answer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn patterns_over_dictionaries_are_those_over_text(
        picks in proptest::collection::vec(0..VALUES.len(), 1..20),
        is_large in any::<bool>(),
        pattern in 0..PATTERNS.len(),
    ) {
        let rows = table(&picks, is_large);
        let [ours, theirs] = states();
        for query in ["SELECT number, {} AS matches FROM t", "SELECT number FROM t WHERE {}",
            "SELECT {} AS matches, count(*) FROM t GROUP BY {} ORDER BY matches"] {
            let of = |column: &str| {
                query.replace("{}", &PATTERNS[pattern].replace("{}", column))
            };
            let (matched, plan) = answer(&ours, &rows, &of("name"));
            prop_assert!(plan.contains("match_dictionary("), "{}", plan);
            let (expected, plan) = answer(&theirs, &rows, &of("text"));
            prop_assert!(!plan.contains("match_dictionary("), "{}", plan);
            prop_assert_eq!(matched, expected);
        }
    }
}

#[test]
fn patterns_that_are_not_literals_stay() {
    let [ours, _] = states();
    let rows = table(&[0, 1, 2], false);
    for pattern in ["name LIKE text", "text ~ 'a'", "name = 'aten::mm'"] {
        let (_, plan) = answer(&ours, &rows, &format!("SELECT number FROM t WHERE {pattern}"));
        assert!(!plan.contains("match_dictionary("), "{plan}");
    }
}
