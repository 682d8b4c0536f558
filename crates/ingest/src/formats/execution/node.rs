//! One node of an execution trace as slices of the text, whichever generation of the format wrote it.
//!
//! The older generation is flat: `{"id", "name", "parent", "rf_id", "inputs", "input_shapes", ...}`.
//! The newer one, shared with Chakra, has `ctrl_deps` for the parent, `inputs` and `outputs` as
//! objects of `values`, `shapes`, `types` and `strides`, and the rest in
//! `"attrs": [{"name": "rf_id", "type": "uint64", "value": 7}, ...]`.

use crate::json::lexer::{LexError, Lexer, RawStr};

macro_rules! fields {
    ($($field:ident: $($text:literal)|+;)+) => {
        /// Entries of a node with a column of their own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $($field,)+ }

        impl Field {
            const COUNT: usize = [$(Self::$field),+].len();

            fn from_key(key: &[u8]) -> Option<Self> {
                match key {
                    $($($text)|+ => Some(Self::$field),)+
                    _ => None,
                }
            }
        }
    };
}

fields! {
    Id: b"id";
    Name: b"name";
    Parent: b"parent" | b"ctrl_deps";
    RfId: b"rf_id";
    FwParent: b"fw_parent";
    SeqId: b"seq_id";
    Scope: b"scope";
    Tid: b"tid";
    FwTid: b"fw_tid";
    OpSchema: b"op_schema";
    KernelBackend: b"kernel_backend";
    KernelFile: b"kernel_file";
    Inputs: b"inputs";
    InputShapes: b"input_shapes";
    InputTypes: b"input_types";
    InputStrides: b"input_strides";
    Outputs: b"outputs";
    OutputShapes: b"output_shapes";
    OutputTypes: b"output_types";
    OutputStrides: b"output_strides";
}

/// One node, borrowed from the text.
#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    slots: [Option<&'a [u8]>; Field::COUNT],
    /// Attributes without a slot, as `(key, value)` text.
    pub(super) others: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Node<'a> {
    /// The value as written, if the node has it.
    pub(super) fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.slots[field as usize]
    }

    /// Reads the object at the lexer's position. Keys may come in any order.
    pub(super) fn read(lexer: &mut Lexer<'a>) -> Result<Self, LexError> {
        let mut node = Self::default();
        lexer.object(|lexer, key| match (&*key.unescaped(), lexer.peek()?) {
            (b"inputs", b'{') => node.values(
                lexer,
                [Field::Inputs, Field::InputShapes, Field::InputTypes, Field::InputStrides],
            ),
            (b"outputs", b'{') => node.values(
                lexer,
                [Field::Outputs, Field::OutputShapes, Field::OutputTypes, Field::OutputStrides],
            ),
            (b"attrs", b'[') => node.attributes(lexer),
            _ => {
                let value = lexer.value()?;
                node.set(key, value);
                Ok(())
            }
        })?;
        Ok(node)
    }

    fn set(&mut self, key: RawStr<'a>, value: &'a [u8]) {
        match Field::from_key(&key.unescaped()) {
            Some(field) => self.slots[field as usize] = Some(value),
            None => self.others.push((key.bytes, value)),
        }
    }

    fn values(
        &mut self,
        lexer: &mut Lexer<'a>,
        [values, shapes, types, strides]: [Field; 4],
    ) -> Result<(), LexError> {
        lexer.object(|lexer, key| {
            let value = lexer.value()?;
            let field = match &*key.unescaped() {
                b"values" => values,
                b"shapes" => shapes,
                b"types" => types,
                b"strides" => strides,
                _ => return Ok(()),
            };
            self.slots[field as usize] = Some(value);
            Ok(())
        })
    }

    fn attributes(&mut self, lexer: &mut Lexer<'a>) -> Result<(), LexError> {
        lexer.expect(b'[')?;
        loop {
            match lexer.peek()? {
                b']' => {
                    lexer.bump();
                    return Ok(());
                }
                b',' => lexer.bump(),
                b'{' => self.attribute(lexer)?,
                _ => {
                    lexer.value()?;
                }
            }
        }
    }

    fn attribute(&mut self, lexer: &mut Lexer<'a>) -> Result<(), LexError> {
        let (mut name, mut value) = (None, None);
        lexer.object(|lexer, key| {
            match &*key.unescaped() {
                b"name" if lexer.peek()? == b'"' => name = Some(lexer.string()?),
                b"value" => value = Some(lexer.value()?),
                // type: the value shows it
                _ => {
                    lexer.value()?;
                }
            }
            Ok(())
        })?;
        if let (Some(name), Some(value)) = (name, value) {
            self.set(name, value);
        }
        Ok(())
    }
}

/// The text between the quotes of a string; `None` for other values.
pub(super) fn unquoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}
