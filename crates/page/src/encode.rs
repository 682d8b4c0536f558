//! Base64 and gzip.

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Base64 with padding (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Little-endian 32-bit floats as base64; missing values are NaN.
pub(crate) fn floats(values: &[Option<f64>]) -> String {
    let mut bytes = Vec::with_capacity(values.len() * 4);
    for value in values {
        bytes.extend(value.map_or(f32::NAN, |v| v as f32).to_le_bytes());
    }
    base64(&bytes)
}

/// The bytes compressed; the header holds no time, so that the result depends on them alone.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{base64, floats, gzip};

    #[test]
    fn base64_pads_as_the_standard_says() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn floats_mark_missing_values() {
        assert_eq!(floats(&[Some(1.0), None]), base64(&[0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f]));
    }

    #[test]
    fn gzip_is_deterministic() {
        assert_eq!(gzip(b"trace"), gzip(b"trace"));
        assert_eq!(gzip(b"trace")[..2], [0x1f, 0x8b]);
    }
}
