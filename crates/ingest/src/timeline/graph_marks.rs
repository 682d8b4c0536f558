//! Marks that a program adds to graph nodes during the capture (`torch.cuda.graph_annotations.mark_kernels`).

use serde_json::{Map, Value};

/// Field of a mark with the module of the node, for example `layers.0.attention`.
pub(crate) const MODULE: &str = "module_fqn";

/// Returns the module that the marks of a node name. Marks are ordered from the outermost to the innermost scope; the last
/// module counts.
pub(crate) fn module_of(marks: &Value) -> Option<&str> {
    match marks {
        Value::Array(marks) => marks.iter().rev().find_map(module_of),
        Value::Object(fields) => fields.get(MODULE)?.as_str().filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// Returns the module that marks in JSON text name, see [`module_of`].
pub(crate) fn module_in(text: &str) -> Option<String> {
    let marks: Value = serde_json::from_str(text).ok()?;
    module_of(&marks).map(str::to_owned)
}

/// Returns the fields of all marks in JSON text, with names and values as JSON. If a field occurs several times, the last counts.
pub(crate) fn fields_in(text: &str) -> Vec<(String, String)> {
    let marks = match serde_json::from_str(text) {
        Ok(Value::Array(marks)) => marks,
        Ok(mark) => vec![mark],
        Err(_) => Vec::new(),
    };
    let mut fields = Map::new();
    for mark in marks {
        if let Value::Object(of_mark) = mark {
            fields.extend(of_mark);
        }
    }
    let name_in_json = |name: String| {
        let quoted = Value::String(name).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    fields.into_iter().map(|(name, value)| (name_in_json(name), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::{fields_in, module_in};

    #[test]
    fn fields_are_those_of_all_marks() {
        let fields = fields_in(r#"[{"a": 1}, "phase", {"b": "x", "a": [2]}]"#);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(fields, [("a", "[2]"), ("b", "\"x\"")]);
        assert_eq!(fields_in(r#"{"a\"b": 1}"#)[0].0, r#"a\"b"#);
        assert!(fields_in("phase").is_empty() && fields_in("3").is_empty());
    }

    #[test]
    fn the_innermost_mark_with_a_module_counts() {
        for (text, module) in [
            (
                r#"[{"module_fqn": "layers.0"}, {"module_fqn": "layers.0.mlp"}]"#,
                Some("layers.0.mlp"),
            ),
            (r#"[{"module_fqn": "layers.0"}, {"name": "phase"}]"#, Some("layers.0")),
            (r#"{"module_fqn": "layers.0"}"#, Some("layers.0")),
            (r#"[{"module_fqn": 3}, "layers.0", null, {"module_fqn": ""}]"#, None),
            ("layers.0", None),
            ("", None),
        ] {
            assert_eq!(module_in(text).as_deref(), module, "{text}");
        }
    }
}
