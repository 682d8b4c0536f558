//! The formats that can be read. A new one is a module here and a line in [`recognise`].

pub(crate) mod kineto;

/// What the first bytes of a file say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recognised {
    /// A Chrome trace as PyTorch Profiler (Kineto) writes it.
    Kineto,
    /// Known, but not a timeline: the text says what it is.
    Other(&'static str),
    /// Nothing known.
    Unknown,
}

/// Recognises a format by the first bytes of its text.
pub(crate) fn recognise(prefix: &[u8]) -> Recognised {
    let text = prefix.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(prefix).trim_ascii_start();
    let has = |needle: &str| memchr::memmem::find(text, needle.as_bytes()).is_some();
    match text.first() {
        Some(b'{') if has("\"nodes\"") && has("\"schema\"") && !has("\"traceEvents\"") => {
            Recognised::Other("a PyTorch execution trace (no times)")
        }
        // Large metadata may push the events out of the prefix: these keys come first then.
        Some(b'{')
            if [
                "\"traceEvents\"",
                "\"schemaVersion\"",
                "\"deviceProperties\"",
                "\"distributedInfo\"",
            ]
            .iter()
            .any(|key| has(key)) =>
        {
            Recognised::Kineto
        }
        Some(b'[') if has("\"ph\"") => Recognised::Kineto,
        Some(b'{' | b'[') => Recognised::Other("JSON, but not a trace"),
        _ => Recognised::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_known_by_content() {
        assert_eq!(recognise(b" {\"schemaVersion\": 1,"), Recognised::Kineto);
        assert_eq!(recognise(b"[{\"ph\": \"X\"}]"), Recognised::Kineto);
        assert_eq!(recognise(b"{\"a\": 1}"), Recognised::Other("JSON, but not a trace"));
        assert_eq!(recognise(b"import torch"), Recognised::Unknown);
        assert_eq!(recognise(b""), Recognised::Unknown);
    }
}
