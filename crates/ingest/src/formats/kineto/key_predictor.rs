//! Predicts the next key of an event from the text between values.
//!
//! Profilers repeat the same keys, commas and white space. Comparing the text after a value with the texts at the same
//! place in earlier events mostly determines the next value without parsing keys. Unknown text is read token by token
//! and added to the predictor.

use super::arg::Arg;
use crate::json::lexer::{LexError, Lexer};

/// More places than the events of any profiler have. Beyond this, text is read token by token.
const MAX_NODES: usize = 4096;
/// Continuations of one place that are compared.
const MAX_TRANSITIONS: usize = 12;
/// Longer texts between values are not remembered.
const MAX_TEXT: usize = 128;
/// Bytes compared at once.
const HEAD: usize = 16;

/// The next part of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextField {
    /// The value of this key of the event.
    Field(Field),
    /// The value of an argument.
    Arg(Arg),
    /// The value of an argument without a slot, with the position of its key, counted back from the end of the text
    /// read so far.
    Other { back: u32, len: u32 },
    /// The end of the event.
    End,
}

/// The keys of an event that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Phase,
    Category,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Id,
    /// Arguments that are not an object. The text before them is the same as before an object, so it is not remembered.
    NoArgs,
    /// `bp`, `s`, `tts`, `tdur`, `cname` ...: how to draw the event, not what happened.
    Unused,
}

impl Field {
    fn from_key(key: &[u8]) -> Self {
        match key {
            b"ph" => Self::Phase,
            b"cat" => Self::Category,
            b"name" => Self::Name,
            b"pid" => Self::Pid,
            b"tid" => Self::Tid,
            b"ts" => Self::Ts,
            b"dur" => Self::Dur,
            b"id" | b"id2" => Self::Id,
            b"args" => Self::NoArgs,
            _ => Self::Unused,
        }
    }
}

/// Position in the grammar of an event.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before the event.
    Start,
    /// Behind a value of the event.
    InEvent,
    /// Behind an argument.
    InArgs,
}

#[derive(Debug)]
struct Transition {
    /// The first bytes, and which of them there are.
    head: u128,
    mask: u128,
    text: Box<[u8]>,
    next: NextField,
    /// The node behind it.
    to: usize,
}

#[derive(Debug)]
struct Node {
    place: Place,
    transitions: Vec<Transition>,
}

/// A place between two values of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    place: Place,
    /// A number past the end where texts are not remembered.
    node: usize,
}

impl Position {
    /// Before an event.
    pub(super) const START: Self = Self { place: Place::Start, node: 0 };
    const UNKNOWN: usize = usize::MAX;
}

/// The texts between values that were seen, as a tree.
#[derive(Debug)]
pub(crate) struct KeyPredictor {
    nodes: Vec<Node>,
}

impl KeyPredictor {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node { place: Place::Start, transitions: Vec::new() }] }
    }

    /// Moves from one value, or from the start of the event, to the next value.
    #[inline]
    pub(super) fn advance(
        &mut self,
        lexer: &mut Lexer<'_>,
        position: &mut Position,
    ) -> Result<NextField, LexError> {
        let rest = lexer.rest();
        if let Some(node) = self.nodes.get(position.node)
            && let Some(head) = rest.first_chunk::<HEAD>()
        {
            let head = u128::from_le_bytes(*head);
            for transition in &node.transitions {
                let len = transition.text.len();
                if head & transition.mask == transition.head
                    && (len <= HEAD || rest.get(HEAD..len) == Some(&transition.text[HEAD..]))
                {
                    lexer.skip(len);
                    position.node = transition.to;
                    return Ok(transition.next);
                }
            }
        }
        self.read(lexer, position)
    }

    #[cold]
    fn read(
        &mut self,
        lexer: &mut Lexer<'_>,
        position: &mut Position,
    ) -> Result<NextField, LexError> {
        let rest = lexer.rest();
        let start = lexer.pos();
        let known = self.nodes.get(position.node);
        let place = known.map_or(position.place, |node| node.place);
        let (next, place) = read(lexer, place)?;
        let len = lexer.pos() - start;
        let is_kept = known.is_some_and(|node| node.transitions.len() < MAX_TRANSITIONS)
            && next != NextField::Field(Field::NoArgs)
            && self.nodes.len() < MAX_NODES
            && len <= MAX_TEXT;
        let to = if is_kept { self.nodes.len() } else { Position::UNKNOWN };
        if is_kept {
            let text = &rest[..len];
            let mut head = [0; HEAD];
            let mut mask = [0; HEAD];
            let short = len.min(HEAD);
            head[..short].copy_from_slice(&text[..short]);
            mask[..short].fill(0xff);
            let transition = Transition {
                head: u128::from_le_bytes(head),
                mask: u128::from_le_bytes(mask),
                text: text.into(),
                next,
                to,
            };
            self.nodes[position.node].transitions.push(transition);
            self.nodes.push(Node { place, transitions: Vec::new() });
        }
        *position = Position { place, node: to };
        Ok(next)
    }
}

/// Reads token by token up to the next value.
fn read(lexer: &mut Lexer<'_>, mut place: Place) -> Result<(NextField, Place), LexError> {
    loop {
        let first = lexer.peek()?;
        lexer.bump();
        match (place, first) {
            (Place::Start, b'{') => {
                if lexer.peek()? == b'}' {
                    lexer.bump();
                    return Ok((NextField::End, Place::InEvent));
                }
            }
            (Place::InEvent, b'}') => return Ok((NextField::End, Place::InEvent)),
            (Place::InEvent, b',') => {}
            (Place::InArgs, b'}') => {
                place = Place::InEvent;
                continue;
            }
            (Place::InArgs, b',') => return argument(lexer),
            _ => return Err(LexError::Syntax),
        }
        let key = lexer.string()?.unescaped();
        lexer.expect(b':')?;
        if lexer.peek()? != b'{' || *key != *b"args" {
            return Ok((NextField::Field(Field::from_key(&key)), Place::InEvent));
        }
        lexer.bump();
        if lexer.peek()? != b'}' {
            return argument(lexer);
        }
        lexer.bump();
        place = Place::InEvent;
    }
}

fn argument(lexer: &mut Lexer<'_>) -> Result<(NextField, Place), LexError> {
    let key = lexer.string()?;
    let key_end = lexer.pos() - 1;
    lexer.expect(b':')?;
    lexer.peek()?;
    let back = lexer.pos() - key_end + key.bytes.len();
    let next = match (Arg::from_key(&key.unescaped()), u32::try_from(back)) {
        (Some(arg), _) => NextField::Arg(arg),
        (None, Ok(back)) => NextField::Other { back, len: key.bytes.len() as u32 },
        (None, Err(_)) => return Err(LexError::Syntax),
    };
    Ok((next, Place::InArgs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexts(
        predictor: &mut KeyPredictor,
        text: &[u8],
    ) -> Result<Vec<(NextField, String)>, LexError> {
        let mut lexer = Lexer::new(text, 0);
        let mut position = Position::START;
        let mut nexts = Vec::new();
        loop {
            let next = predictor.advance(&mut lexer, &mut position)?;
            let key = match next {
                NextField::Other { back, len } => lexer.before(back as usize, len as usize),
                _ => b"",
            };
            nexts.push((next, String::from_utf8_lossy(key).into_owned()));
            if next == NextField::End {
                return Ok(nexts);
            }
            lexer.value()?;
        }
    }

    #[test]
    fn key_predictor_reads_known_text_like_unknown_text() {
        let events: [&[u8]; 6] = [
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "x": [1]}, "ts": 12.5}"#,
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "y": [1]}, "ts":   12.5  }"#,
            br#"{"ph":"X","name":"a","args":5,"ts":12.5}"#,
            br#"{"ph":"X","name":"a","args":{},"ts":12.5}"#,
            br#"{ "args": 5, "dur": 1 }                "#,
            br"{}                                     ",
        ];
        let mut predictor = KeyPredictor::new();
        let first: Vec<_> = events.map(|event| nexts(&mut KeyPredictor::new(), event)).into();
        for _ in 0..2 {
            for (event, expected) in events.iter().zip(&first) {
                assert_eq!(&nexts(&mut predictor, event), expected);
            }
        }
        let escaped = br#"{"p\u0068": "X", "n\u0061me": "a", "\u0061rgs": {"str\u0065am": 7, "x": [1]}, "ts": 12.5}"#;
        assert_eq!(&nexts(&mut predictor, escaped), &first[0], "keys mean the same with escapes");
        let first = first[0].as_ref().unwrap();
        assert_eq!(first[2].0, NextField::Arg(Arg::Stream));
        assert_eq!(first[3].1, "x");
    }

    #[test]
    fn key_predictor_refuses_invalid_events_every_time() {
        let mut predictor = KeyPredictor::new();
        for _ in 0..2 {
            for text in
                [&br#"{"a": 1 "b": 2}"#[..], br#"{"a" 1}"#, br"{,}", br#"{"args": {"a": 1]"#]
            {
                assert_eq!(nexts(&mut predictor, text), Err(LexError::Syntax), "{text:?}");
            }
        }
        assert_eq!(nexts(&mut predictor, br#"{"a": 1, "b"#), Err(LexError::End));
    }

    #[test]
    fn key_predictor_memory_is_bounded() {
        let mut predictor = KeyPredictor::new();
        for i in 0..100_000 {
            let event = format!("{{\"key{i}\": 1, \"other{i}\": {{\"a\": 2}}}}");
            assert_eq!(nexts(&mut predictor, event.as_bytes()).map(|nexts| nexts.len()), Ok(3));
        }
        assert!(predictor.nodes.len() <= MAX_NODES);
    }
}
