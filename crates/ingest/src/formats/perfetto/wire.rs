//! The wire format of protocol buffers, read without copies.

/// The error for bytes that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The reason why a varint cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VarintError {
    /// The bytes end inside the varint.
    End,
    /// The varint has more than 64 bits.
    Overflow,
}

impl From<VarintError> for Malformed {
    fn from(_: VarintError) -> Self {
        Self
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A text, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// Numbers of the wire types.
pub(super) mod kind {
    pub(in crate::formats::perfetto) const VARINT: u64 = 0;
    pub(in crate::formats::perfetto) const FIXED64: u64 = 1;
    pub(in crate::formats::perfetto) const BYTES: u64 = 2;
    pub(in crate::formats::perfetto) const FIXED32: u64 = 5;
}

/// Reads a varint. Returns the number and its length in bytes.
#[inline]
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    const MAX_BYTES: usize = 10;
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if at == MAX_BYTES - 1 && byte > 1 {
            return Err(VarintError::Overflow);
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            return Ok((value, at + 1));
        }
    }
    Err(VarintError::End)
}

/// The fields of a message, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the number and the value of the next field; `None` at the end.
    ///
    /// # Errors
    /// If the bytes are not a field, or end inside a field. Groups, which no schema uses any more, are not supported.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match key & 7 {
            kind::VARINT => Value::Varint(self.varint()?),
            kind::FIXED64 => Value::Fixed64(u64::from_le_bytes(self.chunk()?)),
            kind::BYTES => {
                let length = self.varint()?;
                Value::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed)?)?)
            }
            kind::FIXED32 => Value::Fixed32(u32::from_le_bytes(self.chunk()?)),
            _ => return Err(Malformed),
        };
        Ok(Some((number, value)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, length) = varint(self.rest)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let (&chunk, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(chunk)
    }
}

/// Calls `each` with the numbers of a repeated field: one number, or many packed into one field.
pub(super) fn for_each_number(
    value: Value<'_>,
    mut each: impl FnMut(u64),
) -> Result<(), Malformed> {
    match value {
        Value::Varint(number) | Value::Fixed64(number) => each(number),
        Value::Fixed32(number) => each(u64::from(number)),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                let (number, length) = varint(packed)?;
                each(number);
                packed = &packed[length..];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_reads_up_to_64_bits() {
        assert_eq!(varint(&[0]), Ok((0, 1)));
        assert_eq!(varint(&[0xac, 0x02, 0xff]), Ok((300, 2)));
        let mut longest = [0xff; 10];
        longest[9] = 1;
        assert_eq!(varint(&longest), Ok((u64::MAX, 10)));
        longest[9] = 2;
        assert_eq!(varint(&longest), Err(VarintError::Overflow));
        assert_eq!(varint(&[0xff; 12]), Err(VarintError::Overflow));
        assert_eq!(varint(&[0x80]), Err(VarintError::End));
        assert_eq!(varint(&[]), Err(VarintError::End));
    }

    #[test]
    fn fields_end_with_an_error_where_the_bytes_are_no_message() {
        let all = |bytes: &[u8]| {
            let mut fields = Fields::new(bytes);
            let mut numbers = Vec::new();
            loop {
                match fields.next() {
                    Ok(Some((number, _))) => numbers.push(number),
                    Ok(None) => return Ok(numbers),
                    Err(error) => return Err(error),
                }
            }
        };
        let message =
            [0x08, 1, 0x12, 2, b'a', b'b', 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4];
        assert_eq!(all(&message), Ok(vec![1, 2, 3, 4]));
        for length in [1, 3, 4, 5, 7, 12, 16, 19] {
            assert_eq!(all(&message[..length]), Err(Malformed), "{length} bytes");
        }
        // Groups, field number 0, a field number of more than 32 bits, a length of 2^63.
        for bytes in [
            &[0x0b, 0x0c][..],
            &[0x00, 1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert_eq!(all(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn repeated_numbers_may_be_packed() {
        let numbers = |value| {
            let mut numbers = Vec::new();
            for_each_number(value, |number| numbers.push(number)).map(|()| numbers)
        };
        assert_eq!(numbers(Value::Varint(7)), Ok(vec![7]));
        assert_eq!(numbers(Value::Bytes(&[1, 0xac, 2])), Ok(vec![1, 300]));
        assert_eq!(numbers(Value::Bytes(&[1, 0xac])), Err(Malformed));
    }
}
