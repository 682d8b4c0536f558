//! Finds the packets of a trace in its bytes.

use std::ops::Range;

use super::wire::{Fields, Malformed, Value, VarintError, kind, varint};

/// Longest packet that is accepted, in bytes.
pub(super) const MAX_PACKET: usize = 64 << 20;

/// Number of the field that contains a packet.
const PACKET: u64 = 1;

/// The content at a position of a trace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A packet.
    Packet(Range<usize>),
    /// Another field, which ends at this position.
    Other(usize),
    /// A field whose end is beyond the bytes.
    Cut,
    /// Bytes that are not a field of a trace.
    Damaged,
}

/// Classifies the field that begins at `at`, which is within `bytes` or at its end.
pub(super) fn find(bytes: &[u8], at: usize) -> Found {
    let number = |at: usize| varint(&bytes[at..]);
    let (key, key_bytes) = match number(at) {
        Ok(found) => found,
        Err(VarintError::End) => return Found::Cut,
        Err(VarintError::Overflow) => return Found::Damaged,
    };
    let at = at + key_bytes;
    let after = |length: usize| {
        if bytes.len() - at < length { Found::Cut } else { Found::Other(at + length) }
    };
    match (key >> 3, key & 7) {
        (0, _) => Found::Damaged,
        (_, kind::VARINT) => match number(at) {
            Ok((_, length)) => Found::Other(at + length),
            Err(VarintError::End) => Found::Cut,
            Err(VarintError::Overflow) => Found::Damaged,
        },
        (_, kind::FIXED64) => after(8),
        (_, kind::FIXED32) => after(4),
        (field, kind::BYTES) => match number(at) {
            Ok((length, _)) if length > MAX_PACKET as u64 => Found::Damaged,
            Ok((length, length_bytes)) => {
                let start = at + length_bytes;
                let length = length as usize;
                if bytes.len() - start < length {
                    Found::Cut
                } else if field == PACKET {
                    Found::Packet(start..start + length)
                } else {
                    Found::Other(start + length)
                }
            }
            Err(VarintError::End) => Found::Cut,
            Err(VarintError::Overflow) => Found::Damaged,
        },
        _ => Found::Damaged,
    }
}

/// Numbers and wire kinds of packet fields that no other format has at this depth: timestamp, sequence id, track event, interned
/// data, configuration, synchronization marker, process and thread descriptors, compressed packets, GPU counter and render stage
/// events, packet defaults, track descriptor, packets compressed with zstd.
const KNOWN: [(u32, u64); 14] = [
    (8, kind::VARINT),
    (10, kind::VARINT),
    (11, kind::BYTES),
    (12, kind::BYTES),
    (33, kind::BYTES),
    (36, kind::BYTES),
    (43, kind::BYTES),
    (44, kind::BYTES),
    (50, kind::BYTES),
    (52, kind::BYTES),
    (53, kind::BYTES),
    (59, kind::BYTES),
    (60, kind::BYTES),
    (133, kind::BYTES),
];

/// Maximum packets at the beginning of a file that are checked.
const MAX_LOOKED_AT: usize = 8;

/// Returns whether a file with these first bytes begins with packets.
pub(super) fn begin_with_packets(head: &[u8]) -> bool {
    let mut at = 0;
    for _ in 0..MAX_LOOKED_AT {
        match find(head, at) {
            Found::Packet(range) => match has_known_field(&head[range.clone()], true) {
                Some(true) => return true,
                Some(false) => at = range.end,
                None => return false,
            },
            // The first packet may be longer than the head.
            Found::Cut if at == 0 && head.first() == Some(&0x0a) => {
                let start = 1 + varint(&head[1..]).map_or(0, |(_, length)| length);
                return has_known_field(&head[start..], false) == Some(true);
            }
            Found::Other(_) | Found::Cut | Found::Damaged => return false,
        }
    }
    false
}

/// Returns whether a packet has a known field; `None` if the bytes are not a packet. If the packet is not whole, only its complete
/// fields count.
fn has_known_field(packet: &[u8], is_whole: bool) -> Option<bool> {
    let mut fields = Fields::new(packet);
    let mut is_known = false;
    loop {
        match fields.next() {
            Ok(Some((number, value))) => {
                let kind = match value {
                    Value::Varint(_) => kind::VARINT,
                    Value::Fixed64(_) => kind::FIXED64,
                    Value::Bytes(_) => kind::BYTES,
                    Value::Fixed32(_) => kind::FIXED32,
                };
                is_known |= KNOWN.contains(&(number, kind));
            }
            Err(Malformed) if is_whole => return None,
            Ok(None) | Err(Malformed) => return Some(is_known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_tells_packets_from_other_fields_and_from_damage() {
        let bytes = [0x0a, 2, 0x08, 5, 0x10, 7, 0x1a, 1, 0, 0x0a, 9, 1];
        assert_eq!(find(&bytes, 0), Found::Packet(2..4));
        assert_eq!(find(&bytes, 4), Found::Other(6));
        assert_eq!(find(&bytes, 6), Found::Other(9));
        assert_eq!(find(&bytes, 9), Found::Cut);
        assert_eq!(find(&bytes, 12), Found::Cut);
        // A length above the limit, a number of more than 64 bits, a group, and field number 0.
        assert_eq!(find(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], 0), Found::Damaged);
        assert_eq!(
            find(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 9], 0),
            Found::Damaged
        );
        assert_eq!(find(&[0x0b], 0), Found::Damaged);
        assert_eq!(find(&[0x02, 1], 0), Found::Damaged);
    }

    #[test]
    fn files_that_begin_with_a_line_feed_are_not_traces_yet() {
        // A line feed is also the key of a packet, and `{` may be its length.
        let text = b"\n{\"traceEvents\": [], \"otherData\": {\"a\": 1, \"b\": \"some text that is long enough for this\"}, \"more\": [1, 2, 3, 4, 5, 6, 7]}";
        assert!(!begin_with_packets(text));
        // An XLA profile: field 1 contains a number, a name and statistics.
        assert!(!begin_with_packets(&[0x0a, 9, 0x08, 1, 0x12, 1, b'a', 0x32, 2, 0x08, 1]));
        assert!(!begin_with_packets(b""));
        assert!(!begin_with_packets(b"\n"));
        assert!(begin_with_packets(&[0x0a, 2, 0x40, 5]));
        // The file ends in the middle of the first packet.
        assert!(begin_with_packets(&[0x0a, 0xff, 0x01, 0x40, 5, 0x62, 100, 1, 2]));
    }
}
