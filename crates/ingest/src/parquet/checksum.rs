//! Checksums of files, and of manifests: the last entry of a manifest is the checksum of all text before it.

use flate2::Crc;
use serde::Serialize;

/// What precedes the checksum in a manifest.
const ENTRY: &str = ",\"manifest_crc32\":";

/// The checksum of some bytes.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The JSON of a manifest, an object, with its checksum.
pub(crate) fn sealed_json(manifest: &impl Serialize) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(manifest)?;
    // The brace that ends the object follows the checksum.
    text.pop();
    text.push_str(&seal(text.as_bytes()));
    Ok(text)
}

/// Returns an error unless the text of a manifest is what [`sealed_json`] wrote.
pub(crate) fn check_seal(text: &[u8]) -> Result<(), String> {
    let end = memchr::memmem::rfind(text, ENTRY.as_bytes());
    let (content, rest) = text.split_at(end.unwrap_or(text.len()));
    if rest == seal(content).as_bytes() {
        Ok(())
    } else {
        Err("its content has changed since it was written".to_owned())
    }
}

/// The end of a manifest that begins with `content`.
fn seal(content: &[u8]) -> String {
    format!("{ENTRY}{}}}\n", crc32(content))
}

/// The text of a manifest with `to` in place of the first `from`, and with a checksum that fits.
#[cfg(test)]
pub(crate) fn forged(text: &str, from: &str, to: &str) -> String {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "{from}");
    let (content, _) = changed.rsplit_once(ENTRY).unwrap();
    format!("{content}{}", seal(content.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seal_notices_every_change() {
        let text = sealed_json(&serde_json::json!({"a": 1})).unwrap();
        assert_eq!(text, format!("{{\"a\":1,\"manifest_crc32\":{}}}\n", crc32(b"{\"a\":1")));
        assert_eq!(check_seal(text.as_bytes()), Ok(()));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(check_seal(&changed).is_err(), "{at}");
            assert!(check_seal(&text.as_bytes()[..at]).is_err(), "{at}");
        }
        assert!(check_seal(format!("{text}\n").as_bytes()).is_err());
    }
}
