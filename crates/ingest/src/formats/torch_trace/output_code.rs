//! The code that Inductor generates for a graph: which kernels it defines, and what its comments say of them.

use std::collections::BTreeMap;

/// Names and kernels in generated code.
#[derive(Debug, Default)]
pub(super) struct OutputCode {
    /// Name of the graph: `0_forward`, `1_inference`.
    pub(super) aot_id: Option<String>,
    /// Kernels that the code defines, and functions of libraries that it calls (`extern_kernels.mm`), by name.
    pub(super) kernels: BTreeMap<String, Kernel>,
}

/// A kernel of generated code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) backend: &'static str,
    /// Post-grad nodes, from the comment before its definition.
    pub(super) nodes: Vec<String>,
}

const EXTERN: &str = "extern_kernels.";

impl OutputCode {
    pub(super) fn parse(text: &str) -> Self {
        let mut code = Self::default();
        // The nodes in the comments before a definition.
        let mut nodes = Vec::new();
        let mut in_mapping = false;
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix('#') {
                if let Some(id) = comment.strip_prefix(" AOT ID: ['") {
                    code.aot_id = id.strip_suffix("']").map(str::to_owned);
                }
                if comment.contains("Source Nodes:") {
                    nodes.clear();
                }
                match comment.split_once(" => ") {
                    Some((_, list)) if in_mapping => {
                        nodes.extend(list.split(", ").map(|node| node.trim().to_owned()));
                    }
                    _ => in_mapping = comment.starts_with(" Source node to ATen node mapping"),
                }
                continue;
            }
            if let Some((name, definition)) = line.split_once(" = async_compile.") {
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if is_name && !name.is_empty() {
                    let backend = if definition.starts_with("triton") { "triton" } else { "cpp" };
                    let kernel = Kernel { backend, nodes: std::mem::take(&mut nodes) };
                    code.kernels.insert(name.to_owned(), kernel);
                }
            } else if let Some(at) = line.find(EXTERN) {
                let rest = &line[at + EXTERN.len()..];
                if let Some((name, _)) = rest.split_once('(') {
                    let kernel = Kernel { backend: "extern", nodes: Vec::new() };
                    code.kernels.entry(format!("{EXTERN}{name}")).or_insert(kernel);
                }
            }
            in_mapping = false;
        }
        code
    }

    /// Returns whether this is the code of a backward pass; `None` if it does not say.
    pub(super) fn is_backward(&self) -> Option<bool> {
        self.aot_id.as_deref().map(|id| id.ends_with("_backward"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_code_reads_definitions_and_their_comments() {
        let text = "# AOT ID: ['3_backward']
# kernel path: /tmp/x.py
# Topologically Sorted Source Nodes: [add, z], Original ATen: [aten.addmm, aten.gelu]
# Source node to ATen node mapping:
#   add => add_tensor
#   z => add, erf
# Graph fragment:
#   %add : [num_users=1] = call_function[target=x](args = (%erf, 1)) => no
triton_poi_fused_addmm_gelu_2 = async_compile.triton('triton_poi_fused_addmm_gelu_2', '''
import triton
''', device_str='cuda')
cpp_fused_sum_1 = async_compile.cpp_pybinding(['const float*'], r'''
async_compile.wait(globals())
        extern_kernels.mm(arg2_1, out=buf0)
        triton_poi_fused_addmm_gelu_2.run(buf1, arg1_1, 128, stream=stream0)
";
        let code = OutputCode::parse(text);
        assert_eq!(code.is_backward(), Some(true));
        let kernels: Vec<_> = code
            .kernels
            .iter()
            .map(|(name, k)| (name.as_str(), k.backend, k.nodes.len()))
            .collect();
        assert_eq!(
            kernels,
            [
                ("cpp_fused_sum_1", "cpp", 0),
                ("extern_kernels.mm", "extern", 0),
                ("triton_poi_fused_addmm_gelu_2", "triton", 3),
            ]
        );
        let nodes = &code.kernels["triton_poi_fused_addmm_gelu_2"].nodes;
        assert_eq!(nodes[..], ["add_tensor", "add", "erf"]);
        assert_eq!(OutputCode::parse("").is_backward(), None);
    }
}
