//! The text of an FX graph: its nodes, their source lines, and the bytes of the tensors that they compute.

use rustc_hash::FxHashMap;
use trace_model::Strings;

use super::source_line::SourceLine;

/// Sizes of dimensions that are not fixed, when the graph was traced.
pub(super) type SymbolSizes = FxHashMap<String, u64>;

/// A graph, as `print_readable` writes it. Of graphs inside of it (the bodies of higher-order operators) nothing is
/// read: their nodes belong to the operator.
#[derive(Debug, Default)]
pub(super) struct Graph {
    numbers: FxHashMap<String, usize>,
    nodes: Vec<Node>,
}

/// A node.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) source: Option<SourceLine>,
    /// Bytes of the tensor that it computes: 0 if it is none, `None` if its size is unknown.
    pub(super) bytes: Option<u64>,
    /// Nodes whose result it uses, each once.
    pub(super) inputs: Vec<usize>,
    /// Nodes that use its result.
    pub(super) users: Vec<usize>,
    /// The graph returns its result.
    pub(super) is_output: bool,
}

impl Graph {
    pub(super) fn parse(text: &str, sizes: &SymbolSizes, strings: &mut Strings) -> Self {
        let mut graph = Self::default();
        let mut source = None;
        let mut class_count = 0;
        for line in text.lines().map(str::trim) {
            if line.starts_with('#') {
                if line.contains("File: ") {
                    source = SourceLine::of_comment(line, strings);
                } else if line.starts_with("# No stacktrace found") {
                    source = None;
                }
            } else if line.starts_with("class ") {
                class_count += 1;
                if class_count > 1 {
                    break;
                }
            } else if let Some(parameters) = line.strip_prefix("def forward(") {
                graph.add_parameters(parameters, sizes);
            } else if let Some(values) = line.strip_prefix("return") {
                for number in graph.names_in(values) {
                    graph.nodes[number].is_output = true;
                }
            } else {
                graph.add_line(line, source, sizes);
            }
        }
        graph
    }

    /// Number of a node.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub(super) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The source lines of its nodes.
    pub(super) fn lines(&self) -> impl Iterator<Item = (String, SourceLine)> {
        let line = |(name, &number): (&String, &usize)| {
            self.nodes[number].source.map(|line| (name.clone(), line))
        };
        self.numbers.iter().filter_map(line)
    }

    /// Adds the inputs of the graph that are on the line of `def`: `self, a: "f32[8]", b: "f32[8]"):`.
    fn add_parameters(&mut self, parameters: &str, sizes: &SymbolSizes) {
        let mut rest = parameters;
        while let Some((before, after)) = rest.split_once(": \"") {
            let Some((annotation, after)) = after.split_once('"') else { break };
            let name = before.rsplit([',', ' ', '(']).next().unwrap_or_default();
            if is_name(name) {
                self.add(name, None, tensor_bytes(annotation, sizes), Vec::new());
            }
            rest = after;
        }
    }

    /// Adds the node of a line: `name: "f32[8]" = call(other, 2);  other = None`, or an input on a line of its own.
    fn add_line(&mut self, line: &str, source: Option<SourceLine>, sizes: &SymbolSizes) {
        let name_len = line.len() - line.trim_start_matches(is_name_char).len();
        let (name, rest) = line.split_at(name_len);
        if !is_name(name) {
            return;
        }
        let (bytes, rest) = match rest.strip_prefix(": \"").and_then(|rest| rest.split_once('"')) {
            Some((annotation, rest)) => (tensor_bytes(annotation, sizes), rest),
            None => (Some(0), rest),
        };
        match rest.strip_prefix(" = ") {
            Some(value) => {
                let value = value.split_once(";  ").map_or(value, |(value, _)| value);
                let inputs = self.names_in(value);
                self.add(name, source, bytes, inputs);
            }
            None if rest.starts_with(',') || rest.is_empty() || rest.starts_with("  #") => {
                self.add(name, None, bytes, Vec::new());
            }
            None => {}
        }
    }

    fn add(
        &mut self,
        name: &str,
        source: Option<SourceLine>,
        bytes: Option<u64>,
        inputs: Vec<usize>,
    ) {
        let number = self.nodes.len();
        for &input in &inputs {
            self.nodes[input].users.push(number);
        }
        self.nodes.push(Node { source, bytes, inputs, users: Vec::new(), is_output: false });
        self.numbers.insert(name.to_owned(), number);
    }

    /// The nodes that an expression names, each once, in order of their first use.
    fn names_in(&self, expression: &str) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let mut quote = None;
        let mut start = None;
        let bytes = expression.as_bytes();
        for at in 0..=bytes.len() {
            let byte = bytes.get(at).copied().unwrap_or(b' ');
            if let Some(open) = quote {
                if byte == open {
                    quote = None;
                }
                continue;
            }
            if is_name_char(char::from(byte)) {
                start.get_or_insert(at);
                continue;
            }
            if let Some(from) = start.take() {
                let is_attribute = from > 0 && bytes[from - 1] == b'.';
                let rest = expression[at..].trim_start();
                let is_keyword = rest.starts_with('=') && !rest.starts_with("==");
                if !is_attribute
                    && !is_keyword
                    && let Some(number) = self.find(&expression[from..at])
                    && !found.contains(&number)
                {
                    found.push(number);
                }
            }
            if matches!(byte, b'\'' | b'"') {
                quote = Some(byte);
            }
        }
        found
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(is_name_char)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Bytes that a tensor takes: `f32[8, 10][10, 1]cuda:0` is 320. Dimensions with stride 0 repeat what is there once.
/// Other values take none. `None` if the size is unknown.
fn tensor_bytes(annotation: &str, sizes: &SymbolSizes) -> Option<u64> {
    let Some((dtype, rest)) = annotation.split_once('[') else { return Some(0) };
    if dtype.contains('(') {
        return Some(0); // Sym(s0), and the like
    }
    let element_bytes = element_bytes(dtype)?;
    let (shape, rest) = rest.split_once(']')?;
    let strides = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_repeated = |position: usize| {
        let stride = strides.and_then(|(strides, _)| strides.split(", ").nth(position));
        stride == Some("0")
    };
    let mut bytes = element_bytes;
    for (position, dimension) in shape.split(", ").enumerate() {
        if dimension.is_empty() || is_repeated(position) {
            continue;
        }
        bytes = bytes.checked_mul(dimension_size(dimension, sizes)?)?;
    }
    Some(bytes)
}

/// Size of a dimension: a number, a symbol, or a sum of products of these.
fn dimension_size(text: &str, sizes: &SymbolSizes) -> Option<u64> {
    let factor = |text: &str| {
        let text = text.trim();
        text.parse().ok().or_else(|| sizes.get(text).copied())
    };
    let product = |text: &str| {
        text.split('*').try_fold(1_u64, |product, text| product.checked_mul(factor(text)?))
    };
    text.split('+').try_fold(0_u64, |sum, text| sum.checked_add(product(text)?))
}

/// Bytes of an element, by the short name of its type.
fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "b8" | "i8" | "u8" => 1,
        "f16" | "bf16" | "i16" | "u16" => 2,
        "f32" | "i32" | "u32" | "c32" => 4,
        "f64" | "i64" | "u64" | "c64" => 8,
        "c128" => 16,
        _ if dtype.starts_with("f8") => 1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_bytes_multiplies_dimensions() {
        let sizes = SymbolSizes::from_iter([("s77".to_owned(), 300)]);
        for (annotation, bytes) in [
            ("f32[8, 10][10, 1]cuda:0", Some(320)),
            ("f32[][]cuda:0", Some(4)),
            ("bf16[0, 4][4, 1]cpu", Some(0)),
            ("i64[4]", Some(32)),
            ("f32[512, 1024][1, 0]cpu", Some(2048)),
            ("f32[s77, 2][2, 1]cpu", Some(2400)),
            ("f32[2*s77 + 1][1]cpu", Some(2404)),
            ("f32[s1][1]cpu", None),
            ("f32[(s77//2)][1]cpu", None),
            ("q7[8][1]cpu", None),
            ("Sym(s77)", Some(0)),
            ("f32[99999999999, 99999999999][1, 1]cpu", None),
        ] {
            assert_eq!(tensor_bytes(annotation, &sizes), bytes, "{annotation}");
        }
    }

    #[test]
    fn graph_reads_nodes_their_lines_and_uses() {
        let text = r#"class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[16, 10][10, 1]cuda:0", arg1_1: "f32[16][1]cuda:0"):
         # File: /a#b/aot.py:29 in forward, code: x = self.fc(x, code: 1)
        permute: "f32[10, 16][1, 10]cuda:0" = torch.ops.aten.permute.default(arg0_1, [1, 0]);  arg0_1 = None

        # No stacktrace found for following nodes
        add: "f32[10, 16][16, 1]cuda:0" = torch.ops.aten.add.Tensor(permute, arg1_1, alpha = arg1_1);  permute = None
        # Backward of forward node: File: b.py:7 in <lambda>, code: y
        pair = torch.ops.aten.topk(add, 'arg0_1')
        getitem: "i64[1][1]cuda:0" = pair[0]
        return (getitem, add)

    class inner(torch.nn.Module):
        def forward(self, arg0_1: "f64[1][1]cpu"):
            add: "f64[1][1]cpu" = arg0_1
"#;
        let mut strings = Strings::default();
        let graph = Graph::parse(text, &SymbolSizes::default(), &mut strings);
        let node = |name: &str| graph.node(graph.find(name).unwrap());
        let inputs = |name: &str| -> Vec<usize> { node(name).inputs.clone() };
        let numbers: Vec<_> = ["arg0_1", "arg1_1", "permute", "add", "pair", "getitem"]
            .map(|name| graph.find(name).unwrap())
            .to_vec();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        let line = node("permute").source.unwrap();
        assert_eq!(strings.get(line.file), "/a#b/aot.py");
        assert_eq!((line.line, strings.get(line.code)), (29, "x = self.fc(x, code: 1)"));
        assert_eq!(node("add").source, None);
        assert_eq!(node("pair").source.map(|line| line.line), Some(7));
        assert_eq!((inputs("permute"), inputs("add")), (vec![0], vec![2, 1]));
        assert_eq!((inputs("pair"), inputs("getitem")), (vec![3], vec![4]));
        assert_eq!((node("add").bytes, node("pair").bytes), (Some(640), Some(0)));
        assert!(node("add").is_output && node("getitem").is_output && !node("pair").is_output);
        assert_eq!(node("arg1_1").users, [3]);
    }
}
