//! Manifests of exports and of mapped runs with a checksum that fits, as a forger can compute it.

/// What precedes the checksum, the last entry.
pub(crate) const CHECKSUM: &str = ",\"manifest_crc32\":";

/// The text of a changed manifest with the checksum of this text.
pub(crate) fn resealed(changed: &str) -> String {
    let (content, _) = changed.rsplit_once(CHECKSUM).expect("a checksum");
    sealed(content, content)
}

/// A manifest that begins with `content`, with the checksum of the one that begins with `original`.
pub(crate) fn sealed(content: &str, original: &str) -> String {
    format!("{content}{CHECKSUM}{}}}\n", libdeflater::crc32(original.as_bytes()))
}
