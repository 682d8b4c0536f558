//! Tensor sizes and rank lists parsed from the text of event arguments.

/// Bytes per element of a type: `BFloat16`, `c10::BFloat16`, `long int`, `Float8_e4m3fn` and so on.
pub(super) fn element_bytes(dtype: &str) -> Option<i64> {
    let bare = dtype.trim().trim_start_matches("c10::").trim_start_matches("at::");
    let bare = bare.to_ascii_lowercase();
    if bare.starts_with("complex") {
        return Some(match bare.as_str() {
            "complex<double>" | "complexdouble" => 16,
            "complex<half>" | "complexhalf" => 4,
            _ => 8,
        });
    }
    match bare.as_str() {
        "double" | "long" | "long int" | "long long" | "int64" | "uint64" | "unsigned long" => {
            Some(8)
        }
        "float" | "int" | "int32" | "uint32" | "unsigned int" => Some(4),
        "half" | "bfloat16" | "short" | "short int" | "int16" | "uint16" | "unsigned short" => {
            Some(2)
        }
        "byte" | "char" | "unsigned char" | "signed char" | "bool" | "int8" | "uint8" => Some(1),
        _ if bare.starts_with("float8") => Some(1),
        _ => None,
    }
}

/// Total size of the tensors that `Input Dims` and `Input type` describe. `dtype` is set if all tensors have the same
/// type; `bytes` is absent if a type is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TensorSizes {
    pub(super) elements: i64,
    pub(super) bytes: Option<i64>,
    pub(super) dtype: Option<String>,
}

pub(super) fn tensor_sizes(dims: &str, types: &str) -> Option<TensorSizes> {
    let dims: Vec<i64> = element_counts(dims)?;
    let types: Vec<&str> = types
        .trim()
        .trim_matches(['[', ']'])
        .split(',')
        .map(|t| t.trim().trim_matches('"'))
        .collect();
    if dims.is_empty() || types.len() != dims.len() {
        return None;
    }
    let bytes = dims
        .iter()
        .zip(&types)
        .map(|(elements, dtype)| elements.checked_mul(element_bytes(dtype)?))
        .try_fold(0_i64, |sum, bytes| sum.checked_add(bytes?));
    let one = types.iter().all(|t| t == &types[0]) && element_bytes(types[0]).is_some();
    Some(TensorSizes {
        elements: dims.iter().try_fold(0_i64, |sum, &elements| sum.checked_add(elements))?,
        bytes,
        dtype: one.then(|| types[0].to_owned()),
    })
}

/// Elements of each tensor in `[[672],[3,4],[]]`; `None` unless the text is a list of lists of numbers.
fn element_counts(dims: &str) -> Option<Vec<i64>> {
    let inner = dims.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut all = Vec::new();
    let mut rest = inner.trim();
    while let Some(start) = rest.strip_prefix('[') {
        let (shape, after) = start.split_once(']')?;
        let mut elements = 1_i64;
        for size in shape.split(',').map(str::trim).filter(|size| !size.is_empty()) {
            elements = elements.checked_mul(size.parse().ok().filter(|&size: &i64| size >= 0)?)?;
        }
        all.push(elements);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    rest.is_empty().then_some(all)
}

/// The ranks of `[0, 1, 2]`; `None` if the text is truncated or not a list.
pub(crate) fn parse_ranks(list: &str) -> Option<Vec<i64>> {
    let inner = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(str::trim).filter(|r| !r.is_empty()).map(|r| r.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_bytes_knows_every_type() {
        for (dtype, bytes) in [
            ("Double", 8),
            ("double", 8),
            ("Long", 8),
            ("long int", 8),
            ("Float", 4),
            ("float", 4),
            ("Int", 4),
            ("c10::Half", 2),
            ("BFloat16", 2),
            ("Short", 2),
            ("unsigned char", 1),
            ("signed char", 1),
            ("Bool", 1),
            ("Float8_e4m3fn", 1),
            ("c10::Float8_e5m2", 1),
            ("c10::complex<float>", 8),
            ("ComplexDouble", 16),
        ] {
            assert_eq!(element_bytes(dtype), Some(bytes), "{dtype}");
        }
        assert_eq!(element_bytes("QInt8x"), None);
    }

    #[test]
    fn tensor_sizes_multiplies_shapes() {
        let found = tensor_sizes("[[2,3],[4]]", r#"["float","float"]"#).unwrap();
        assert_eq!(
            found,
            TensorSizes { elements: 10, bytes: Some(40), dtype: Some("float".into()) }
        );
        let mixed = tensor_sizes("[[2],[]]", r#"["double", "long int"]"#).unwrap();
        assert_eq!(mixed, TensorSizes { elements: 3, bytes: Some(24), dtype: None });
        assert_eq!(tensor_sizes("[[2]]", r#"["Scalar"]"#).unwrap().bytes, None);
        assert_eq!(tensor_sizes("[]", "[]"), None);
        assert_eq!(tensor_sizes("[[[1]], []]", r#"["TensorList", ""]"#), None);
        assert_eq!(tensor_sizes("[[9223372036854775807,2]]", r#"["float"]"#), None);
    }

    #[test]
    fn parse_ranks_rejects_truncated_lists() {
        assert_eq!(parse_ranks("[0, 1, 7]"), Some(vec![0, 1, 7]));
        assert_eq!(parse_ranks("[]"), Some(vec![]));
        assert_eq!(parse_ranks("[0, 1, ..., 7]"), None);
        assert_eq!(parse_ranks(""), None);
    }
}
