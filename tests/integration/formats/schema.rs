//! A validator of the keywords that our own schema uses, so that reports are held against it where nothing is
//! installed. One that it does not know is an error.

use serde_json::Value;

/// The violations in `value`, each with its position.
pub(crate) fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let mut walk = Walk { root: schema, errors: Vec::new() };
    walk.check(schema, value, "$");
    walk.errors
}

struct Walk<'a> {
    root: &'a Value,
    errors: Vec<String>,
}

impl Walk<'_> {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        for (keyword, says) in schema.as_object().expect("a schema is an object") {
            let holds = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
                "$ref" => {
                    let pointer = says.as_str().unwrap().trim_start_matches('#');
                    let target = self.root.pointer(pointer).expect("a definition").clone();
                    self.check(&target, value, at);
                    true
                }
                "type" => match says {
                    Value::Array(names) => names.iter().any(|name| is(name, value)),
                    name => is(name, value),
                },
                "const" => says == value,
                "enum" => says.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|v| v >= says.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|v| v <= says.as_f64().unwrap()),
                "required" => {
                    let names = says.as_array().unwrap().iter();
                    names.map(|name| name.as_str().unwrap()).all(|name| value.get(name).is_some())
                }
                "properties" => {
                    for (name, schema) in says.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.check(schema, value, &format!("{at}.{name}"));
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = schema["properties"].as_object();
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if !known.is_some_and(|known| known.contains_key(name)) {
                            self.check(says, value, &format!("{at}.{name}"));
                        }
                    }
                    true
                }
                "items" => {
                    for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(says, value, &format!("{at}[{i}]"));
                    }
                    true
                }
                "anyOf" | "oneOf" => says.as_array().unwrap().iter().any(|schema| {
                    let mut walk = Walk { root: self.root, errors: Vec::new() };
                    walk.check(schema, value, at);
                    walk.errors.is_empty()
                }),
                other => panic!("{at}: `{other}` is not known here"),
            };
            if !holds {
                self.errors.push(format!("{at}: {value} is not {keyword} {says}"));
            }
        }
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}
