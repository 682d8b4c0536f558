//! Attention over a paged cache. The inputs of a call have the shape of a token; how many tokens it reads follows from the
//! lengths that an inference engine states in the name of each of its steps.

use query::columns::ints;
use query::rust_view::{Result, ViewInputs};
use rustc_hash::FxHashMap;

use super::cost::{Cost, OpClass, PagedAttention};
use super::inputs::{Arguments, Dtype};

/// Sums over the requests of a step of the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BatchLengths {
    /// New tokens.
    pub(super) query_tokens: f64,
    /// Tokens in the cache, the new ones included.
    pub(super) kv_tokens: f64,
    /// Pairs of a new token and a token that it attends to.
    pub(super) pairs: f64,
}

/// A cost whose lengths are still to be filled in, by [`cost`].
pub(super) fn paged_attention(
    library: &str,
    operator: &str,
    arguments: &Arguments,
) -> Option<Cost> {
    let is_paged = matches!(library, "vllm" | "sglang")
        && matches!(operator, "unified_attention" | "unified_attention_with_output");
    if !is_paged {
        return None;
    }
    let shape = |at: usize| match *arguments.matrix(at)?.shape.as_slice() {
        [tokens, heads, width] => Some([tokens, heads, width]),
        _ => None,
    };
    let ([tokens, heads, width], [_, key_heads, _], [_, _, value_width]) =
        (shape(0)?, shape(1)?, shape(2)?);
    let paged = PagedAttention {
        heads,
        key_heads,
        width,
        value_width,
        query_dtype: arguments.matrix(0)?.dtype,
        key_dtype: arguments.matrix(1)?.dtype,
    };
    // At least the new tokens are read.
    let lengths = BatchLengths { query_tokens: tokens, kv_tokens: tokens, pairs: tokens };
    Some(cost(&paged, lengths, None))
}

/// The cost of a call on a batch; `cache_dtype` is the type of the cache if that is known, else that of new keys.
pub(super) fn cost(
    paged: &PagedAttention,
    lengths: BatchLengths,
    cache_dtype: Option<Dtype>,
) -> Cost {
    let PagedAttention { heads, key_heads, width, value_width, .. } = *paged;
    let BatchLengths { query_tokens, kv_tokens, pairs } = lengths;
    let cache_bytes = cache_dtype.unwrap_or(paged.key_dtype).bytes();
    let output_elements = query_tokens * heads * value_width;
    let query_bytes = query_tokens * heads * width * paged.query_dtype.bytes();
    let shared = if key_heads < heads { format!(", {key_heads} of keys") } else { String::new() };
    Cost {
        class: OpClass::Attention,
        flops: 2.0 * heads * pairs * (width + value_width),
        read_bytes: query_bytes + kv_tokens * key_heads * (width + value_width) * cache_bytes,
        written_bytes: output_elements * paged.query_dtype.bytes(),
        output_elements,
        dtype: paged.query_dtype,
        gemm: None,
        convolution: None,
        paged: Some(*paged),
        details: format!("{heads} heads{shared}, {query_tokens} tokens, {kv_tokens} in the cache"),
    }
}

/// The lengths of the batch by rank and kernel, of kernels that a step with stated lengths launched.
pub(super) fn batch_lengths(
    inputs: &ViewInputs<'_>,
) -> Result<FxHashMap<(i64, i64), BatchLengths>> {
    let batch = inputs.batch("lengths")?;
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let (queries, cached) = (ints(batch, "query_token_count")?, ints(batch, "kv_token_count")?);
    let attended = ints(batch, "attention_pair_count")?;
    let lengths = |row: usize| BatchLengths {
        query_tokens: queries.value(row) as f64,
        kv_tokens: cached.value(row) as f64,
        pairs: attended.value(row) as f64,
    };
    Ok((0..batch.num_rows()).map(|row| ((rank.value(row), id.value(row)), lengths(row))).collect())
}
