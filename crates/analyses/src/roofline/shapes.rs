//! The little JSON that operators' inputs are written in: lists of numbers and texts. What is no such thing is
//! no value; nothing here panics on it.

/// How deep lists may lie in lists.
const MAX_DEPTH: usize = 8;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Number(f64),
    Text(String),
    List(Vec<Self>),
}

impl Json {
    /// The value that a text begins with.
    pub(super) fn first(text: &str) -> Option<Self> {
        Reader { text: text.as_bytes(), at: 0 }.value(0)
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The text of the value of `key` in an object, and what follows.
pub(super) fn member<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    let quoted = format!("\"{key}\"");
    let at = object.find(&quoted)? + quoted.len();
    Some(object[at..].trim_start().strip_prefix(':')?.trim_start())
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        match self.peek()? {
            b'[' if depth < MAX_DEPTH => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    match self.peek()? {
                        b']' => {
                            self.at += 1;
                            return Some(Json::List(items));
                        }
                        b',' => self.at += 1,
                        _ => items.push(self.value(depth + 1)?),
                    }
                }
            }
            b'"' => {
                self.at += 1;
                let from = self.at;
                let mut is_escaped = false;
                loop {
                    let byte = *self.text.get(self.at)?;
                    self.at += 1;
                    match byte {
                        b'"' if !is_escaped => break,
                        b'\\' => is_escaped = !is_escaped,
                        _ => is_escaped = false,
                    }
                }
                let text = std::str::from_utf8(&self.text[from..self.at - 1]).ok()?;
                Some(Json::Text(text.to_owned()))
            }
            _ => {
                let from = self.at;
                while self.text.get(self.at).is_some_and(|b| !b",]} \n\t".contains(b)) {
                    self.at += 1;
                }
                let text = std::str::from_utf8(&self.text[from..self.at]).ok()?;
                match text {
                    "true" | "false" | "null" => Some(Json::Text(text.to_owned())),
                    _ => text.parse().ok().map(Json::Number),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, member};

    #[test]
    fn lists_are_read() {
        let number = Json::Number;
        assert_eq!(
            Json::first("[[2, 3], [], \"a \\\" b\"] rest"),
            Some(Json::List(vec![
                Json::List(vec![number(2.0), number(3.0)]),
                Json::List(vec![]),
                Json::Text("a \\\" b".to_owned()),
            ]))
        );
        for broken in ["", "[", "[1, 2", "\"abc", "[[[[[[[[[[1]]]]]]]]]]", "{}", "[1, x]"] {
            assert_eq!(Json::first(broken), None, "{broken}");
        }
    }

    #[test]
    fn members_are_found() {
        let object = r#"{"Concrete Inputs":["", "1"],"Ev Idx":7}"#;
        assert_eq!(member(object, "Ev Idx"), Some("7}"));
        assert!(member(object, "Concrete Inputs").unwrap().starts_with("[\"\", \"1\"]"));
        assert_eq!(member(object, "Input Strides"), None);
    }
}
