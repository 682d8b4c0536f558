//! Kineto's names of copies and fills, from the kinds that CUPTI defines: `Memcpy HtoD (Pageable -> Device)`.
//!
//! Views and rules read direction and memory from the names, so importers give every copy such a name.

/// Directions by CUPTI's numbers, which start at 1.
const COPIES: [&str; 10] =
    ["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

/// Names of the kinds of memory in Cuspy's and in Kineto's traces, by CUPTI's numbers.
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

/// Returns the name of a copy from its direction and the kinds of memory that it reads and writes. Each argument is a name, a
/// number, or empty.
pub(crate) fn copy_name(copy: &str, source: &str, target: &str) -> String {
    let (source, target) = (memory(source), memory(target));
    let stated = COPIES.into_iter().find(|known| *known == copy);
    let numbered = || COPIES.get(number(copy)?.checked_sub(1)?).copied();
    let copy = stated.or_else(numbered).or_else(|| direction(source, target));
    format!("Memcpy {} ({source} -> {target})", copy.unwrap_or("<unknown>"))
}

/// Returns the name of a fill from the name or number of the kind of memory that it writes.
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

/// Returns the direction that follows from the kinds of memory. Managed memory may be on the host or on the device.
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
            // Cuspy writes these directions as numbers, because it has no names for them.
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
