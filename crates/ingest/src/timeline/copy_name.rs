//! Names of copies and fills as Kineto writes them, from the kinds that CUPTI numbers: `Memcpy HtoD (Pageable -> Device)`.
//!
//! Views and rules read direction and memory from the names, so importers give every copy such a name.

/// Directions by the numbers of CUPTI, from 1.
const COPIES: [&str; 10] =
    ["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

/// Kinds of memory by the numbers of CUPTI: as PyTorch's second writer (Cuspy) writes them, and as Kineto does.
const MEMORIES: [(&str, &str); 8] = [
    ("unknown", "Unknown"),
    ("pageable", "Pageable"),
    ("pinned", "Pinned"),
    ("device", "Device"),
    ("array", "Array"),
    ("managed", "Managed"),
    ("device_static", "Device Static"),
    ("managed_static", "Managed Static"),
];

/// The name of a copy, from its direction and the kinds of memory that it reads and writes. Each is given by name or
/// number, or is empty.
pub(crate) fn copy_name(copy: &str, source: &str, target: &str) -> String {
    let (source, target) = (memory(source), memory(target));
    let stated = COPIES.into_iter().find(|known| *known == copy);
    let numbered = || COPIES.get(number(copy)?.checked_sub(1)?).copied();
    let copy = stated.or_else(numbered).or_else(|| direction(source, target));
    format!("Memcpy {} ({source} -> {target})", copy.unwrap_or("<unknown>"))
}

/// The name of a fill, from the kind of memory that it writes: its name or number.
pub(crate) fn fill_name(kind: &str) -> String {
    format!("Memset ({})", memory(kind))
}

fn memory(kind: &str) -> &'static str {
    let stated = MEMORIES.iter().find(|(known, _)| *known == kind);
    let numbered = || MEMORIES.get(number(kind)?);
    stated.or_else(numbered).map_or("Unknown", |(_, name)| name)
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

/// The direction that follows from the kinds of memory. Managed memory may be on either side.
fn direction(source: &str, target: &str) -> Option<&'static str> {
    let is_on_host = |memory: &str| match memory {
        "Pageable" | "Pinned" => Some(true),
        "Device" | "Device Static" => Some(false),
        _ => None,
    };
    Some(match (is_on_host(source)?, is_on_host(target)?) {
        (true, true) => "HtoH",
        (true, false) => "HtoD",
        (false, true) => "DtoH",
        (false, false) => "DtoD",
    })
}

#[cfg(test)]
mod tests {
    use super::{copy_name, fill_name};

    #[test]
    fn copies_are_named_as_kineto_names_them() {
        for (kinds, name) in [
            (["HtoD", "pageable", "device"], "Memcpy HtoD (Pageable -> Device)"),
            (["PtoP", "device", "device"], "Memcpy PtoP (Device -> Device)"),
            // Cuspy has no names for these numbers.
            (["9", "pinned", "pinned"], "Memcpy HtoH (Pinned -> Pinned)"),
            (["0", "device", "pinned"], "Memcpy DtoH (Device -> Pinned)"),
            (["0", "managed", "device"], "Memcpy <unknown> (Managed -> Device)"),
            (["11", "device_static", "9"], "Memcpy <unknown> (Device Static -> Unknown)"),
            (["", "", ""], "Memcpy <unknown> (Unknown -> Unknown)"),
        ] {
            let [copy, source, target] = kinds;
            assert_eq!(copy_name(copy, source, target), name);
        }
    }

    #[test]
    fn fills_are_named_as_kineto_names_them() {
        assert_eq!(fill_name("3"), "Memset (Device)");
        assert_eq!(fill_name("managed"), "Memset (Managed)");
        assert_eq!(fill_name("99"), "Memset (Unknown)");
    }
}
