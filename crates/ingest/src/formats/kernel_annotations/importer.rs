//! Registers the format: annotations of CUDA graphs, in two encodings.

use super::attachment::ATTACHMENT;
use super::{Encoding, node_id, read};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::formats::pickle;
use crate::run::attachment::AttachmentKind;
use crate::timeline::graph_marks::MODULE;

/// Annotations with which a program marked the nodes of its graphs.
pub(crate) struct KernelAnnotations(pub(crate) Encoding);

static DESCRIPTOR: Descriptor = Descriptor {
    name: "kernel annotations",
    files: "annotations of CUDA graphs",
    written_by: "torch.cuda.graph_annotations.get_kernel_annotations",
    docs_page: "graphs.md",
    fuzz_target: "kernel_annotations",
    file_name: "kernel_annotations_rank0_0.json",
    provides: &[],
    search: SearchScope::BesideOrBelow,
};

impl Importer for KernelAnnotations {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    /// JSON begins with the id of a node: `{"21474836580": [{"module_fqn": "layers.0"}], ...`.
    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Likely.when(match self.0 {
            Encoding::Json => first_key(head.text()).and_then(node_id).is_some(),
            Encoding::Pickle => pickle::is_pickle(head.bytes()) && head.has(MODULE),
        })
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let nodes = read(self.0, input.text()?, input.advance).map_err(FileError::Unusable)?;
        Ok(Content::attached(&ATTACHMENT, nodes))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}

/// Returns the first key of a JSON object whose first value is a list or an object.
fn first_key(text: &[u8]) -> Option<&str> {
    let key = text.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let length = key.iter().take(32).position(|&byte| byte == b'"')?;
    let (key, rest) = (key.get(..length)?, key.get(length + 1..)?);
    let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let is_compound = matches!(value.first(), Some(b'[' | b'{'));
    std::str::from_utf8(key).ok().filter(|_| is_compound)
}

#[cfg(test)]
mod tests {
    use super::{first_key, node_id};

    #[test]
    fn a_file_is_told_by_the_number_of_its_first_node() {
        let is_own = |text: &str| first_key(text.as_bytes()).and_then(node_id).is_some();
        assert!(is_own(r#"{"21474836580": [{"module_fqn": "layers.0"}]}"#));
        assert!(is_own("{\n  \"21474836580\" : {"));
        for other in [
            "",
            "{}",
            "[]",
            r#"{"21474836580": 3}"#,
            r#"{"7": [{"module_fqn": "layers.0"}]}"#,
            r#"{"-21474836580": []}"#,
            r#"{"traceEvents": []}"#,
            r#"{"21474836580"#,
            r#"{"214748365809999999999999999999999999999999": []}"#,
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
