//! Input shapes of operators, from the JSON text that traces record.

use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// The list that a JSON text begins with. Text after the list is ignored; a text that is truncated or that begins with
/// anything else has none.
pub(super) fn leading_list(text: &str) -> Option<Vec<Value>> {
    match Value::deserialize(&mut Deserializer::from_str(text)).ok()? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The text of the value of `key` in a JSON object, and the rest of the object after it. The object is not parsed: only
/// one of its many members is needed.
pub(super) fn member_text<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    let quoted = format!("\"{key}\"");
    let at = object.find(&quoted)? + quoted.len();
    Some(object[at..].trim_start().strip_prefix(':')?.trim_start())
}

/// The numbers of a list that holds nothing else. Numbers that are written as strings do not count.
pub(super) fn numbers(list: &Value) -> Option<Vec<f64>> {
    list.as_array()?.iter().map(Value::as_f64).collect()
}

/// Formats `[[64, 32], [32, 16], []]` as `64x32, 32x16`.
pub(super) fn format_shapes(dims: &str) -> Option<String> {
    let shape = |input: &Value| {
        let lengths: Vec<String> = numbers(input)?.iter().map(ToString::to_string).collect();
        (!lengths.is_empty()).then(|| lengths.join("x"))
    };
    let shapes: Vec<String> = leading_list(dims)?.iter().filter_map(shape).collect();
    Some(shapes.join(", "))
}

/// The number of elements of each input that has a shape.
pub(super) fn element_counts(dims: &str) -> Vec<f64> {
    let inputs = leading_list(dims).unwrap_or_default();
    inputs.iter().filter_map(|input| Some(numbers(input)?.iter().product())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{element_counts, format_shapes, leading_list, member_text, numbers};

    #[test]
    fn leading_list_ignores_text_after_the_list() {
        let list = leading_list("[[2, 3], [], \"a \\\" b\"] rest").unwrap();
        assert_eq!(list, [json!([2, 3]), json!([]), json!("a \" b")]);
    }

    #[test]
    fn leading_list_is_none_for_broken_or_truncated_text() {
        for broken in ["", "[", "[1, 2", "[[2, 3], [4", "\"abc", "7", "{}", "[1, x]"] {
            assert_eq!(leading_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn member_text_finds_a_member_and_the_rest_of_the_object() {
        let object = r#"{"Concrete Inputs":["", "1"],"Ev Idx":7}"#;
        assert_eq!(member_text(object, "Ev Idx"), Some("7}"));
        assert!(member_text(object, "Concrete Inputs").unwrap().starts_with("[\"\", \"1\"]"));
        assert_eq!(member_text(object, "Input Strides"), None);
    }

    #[test]
    fn numbers_rejects_numbers_written_as_strings() {
        assert_eq!(numbers(&json!([2, 0.5])), Some(vec![2.0, 0.5]));
        for list in [json!(["2", "3"]), json!([[2]]), json!([null]), json!([true]), json!(2)] {
            assert_eq!(numbers(&list), None, "{list}");
        }
    }

    #[test]
    fn format_shapes_leaves_out_inputs_without_dimensions() {
        assert_eq!(format_shapes("[[64, 32], [], 7, [32, 16]]").as_deref(), Some("64x32, 32x16"));
        assert_eq!(format_shapes("[]").as_deref(), Some(""));
        assert_eq!(format_shapes("[[64, 32"), None);
    }

    #[test]
    fn element_counts_multiply_the_lengths_of_each_shape() {
        assert_eq!(element_counts("[[64, 32], [], \"x\", [3]]"), [2048.0, 1.0, 3.0]);
        assert!(element_counts("[[64, 32").is_empty());
    }
}
