//! The cost of a call: chooses the formula by the name of the operator.

use super::cost::{Context, Cost};
use super::inputs::Arguments;
use super::paged_attention::paged_attention;
use super::{pointwise, products};

/// The cost of a call, if its operator is known and its inputs are complete enough.
pub(super) fn operator_cost(
    name: &str,
    arguments: &Arguments,
    context: Context<'_>,
) -> Option<Cost> {
    let (library, operator) = name.split_once("::")?;
    let cost = products::cost(library, operator, arguments, context)
        .or_else(|| paged_attention(library, operator, arguments))
        .or_else(|| pointwise::cost(library, operator, arguments))?;
    (cost.flops.is_finite() && cost.bytes().is_finite() && cost.bytes() > 0.0).then_some(cost)
}
