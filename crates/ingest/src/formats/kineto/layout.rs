//! What stands between the values of events, remembered.
//!
//! Profilers write the same keys, commas and white space over and over: a comparison with what stood there
//! in events before mostly tells which value comes next, without reading keys. What is not known is read
//! token by token, and known from then on.

use super::event::Arg;
use crate::json::{LexError, Lexer};

/// More places than the events of any profiler have. Beyond, text is read token by token.
const MAX_NODES: usize = 4096;
/// Continuations of one place that are compared with.
const MAX_EDGES: usize = 12;
/// Longer texts between values are not remembered.
const MAX_TEXT: usize = 128;
/// Bytes compared at once.
const HEAD: usize = 16;

/// What comes next in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// The value of this key of the event.
    Field(Field),
    /// The value of an argument.
    Arg(Arg),
    /// The value of an argument that has no use of its own, by key.
    Other(&'a [u8]),
    /// Nothing: the event is over.
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
            b"id" => Self::Id,
            _ => Self::Unused,
        }
    }
}

/// Where in the grammar a place is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before the event.
    Start,
    /// Behind a value of the event.
    InEvent,
    /// Behind an argument.
    InArgs,
}

/// What a text leads to; of an argument without a use, where its key stands in the text.
#[derive(Debug, Clone, Copy)]
enum Found {
    Field(Field),
    Arg(Arg),
    Other { from: usize, to: usize },
    End,
}

#[derive(Debug)]
struct Edge {
    /// The first bytes, and which of them there are.
    head: u128,
    mask: u128,
    text: Box<[u8]>,
    found: Found,
    /// The node behind it.
    to: usize,
}

#[derive(Debug)]
struct Node {
    place: Place,
    edges: Vec<Edge>,
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
pub(crate) struct Layout {
    nodes: Vec<Node>,
}

impl Layout {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node { place: Place::Start, edges: Vec::new() }] }
    }

    /// Moves from one value, or from the start of the event, to the next value.
    #[inline]
    pub(super) fn advance<'a>(
        &mut self,
        lexer: &mut Lexer<'a>,
        position: &mut Position,
    ) -> Result<Next<'a>, LexError> {
        let rest = lexer.rest();
        if let Some(node) = self.nodes.get(position.node)
            && let Some(head) = rest.first_chunk::<HEAD>()
        {
            let head = u128::from_le_bytes(*head);
            for edge in &node.edges {
                let len = edge.text.len();
                if head & edge.mask == edge.head
                    && (len <= HEAD || rest.get(HEAD..len) == Some(&edge.text[HEAD..]))
                {
                    lexer.skip(len);
                    position.node = edge.to;
                    return Ok(edge.found.within(rest));
                }
            }
        }
        self.read(lexer, position)
    }

    #[cold]
    fn read<'a>(
        &mut self,
        lexer: &mut Lexer<'a>,
        position: &mut Position,
    ) -> Result<Next<'a>, LexError> {
        let rest = lexer.rest();
        let start = lexer.pos();
        let known = self.nodes.get(position.node);
        let place = known.map_or(position.place, |node| node.place);
        let (found, place) = read(lexer, place, start)?;
        let len = lexer.pos() - start;
        let is_kept = known.is_some_and(|node| node.edges.len() < MAX_EDGES)
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
            let edge = Edge {
                head: u128::from_le_bytes(head),
                mask: u128::from_le_bytes(mask),
                text: text.into(),
                found,
                to,
            };
            self.nodes[position.node].edges.push(edge);
            self.nodes.push(Node { place, edges: Vec::new() });
        }
        *position = Position { place, node: to };
        Ok(found.within(rest))
    }
}

impl Found {
    #[inline]
    fn within(self, text: &[u8]) -> Next<'_> {
        match self {
            Self::Field(field) => Next::Field(field),
            Self::Arg(arg) => Next::Arg(arg),
            Self::Other { from, to } => Next::Other(&text[from..to]),
            Self::End => Next::End,
        }
    }
}

/// Reads token by token up to the next value; the white space before it is left. `start` is where the text
/// begins that keys are placed in.
fn read(lexer: &mut Lexer<'_>, mut place: Place, start: usize) -> Result<(Found, Place), LexError> {
    loop {
        let first = lexer.peek()?;
        lexer.bump();
        match (place, first) {
            (Place::Start, b'{') => {
                if lexer.peek()? == b'}' {
                    lexer.bump();
                    return Ok((Found::End, Place::InEvent));
                }
            }
            (Place::InEvent, b'}') => return Ok((Found::End, Place::InEvent)),
            (Place::InEvent, b',') => {}
            (Place::InArgs, b'}') => {
                place = Place::InEvent;
                continue;
            }
            (Place::InArgs, b',') => return argument(lexer, start),
            _ => return Err(LexError::Syntax),
        }
        let key = lexer.string()?.bytes;
        lexer.expect(b':')?;
        if key != b"args" || lexer.peek()? != b'{' {
            return Ok((Found::Field(Field::from_key(key)), Place::InEvent));
        }
        lexer.bump();
        if lexer.peek()? != b'}' {
            return argument(lexer, start);
        }
        lexer.bump();
        place = Place::InEvent;
    }
}

fn argument(lexer: &mut Lexer<'_>, start: usize) -> Result<(Found, Place), LexError> {
    let key = lexer.string()?.bytes;
    let to = lexer.pos() - 1 - start;
    lexer.expect(b':')?;
    let found = match Arg::from_key(key) {
        Some(arg) => Found::Arg(arg),
        None => Found::Other { from: to - key.len(), to },
    };
    Ok((found, Place::InArgs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexts<'a>(layout: &mut Layout, text: &'a [u8]) -> Result<Vec<Next<'a>>, LexError> {
        let mut lexer = Lexer::new(text, 0);
        let mut position = Position::START;
        let mut nexts = Vec::new();
        loop {
            let next = layout.advance(&mut lexer, &mut position)?;
            nexts.push(next);
            if next == Next::End {
                return Ok(nexts);
            }
            lexer.value()?;
        }
    }

    #[test]
    fn what_is_known_reads_as_what_is_not() {
        let events: [&[u8]; 5] = [
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "x": [1]}, "ts": 12.5}"#,
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "y": [1]}, "ts":   12.5  }"#,
            br#"{"ph":"X","name":"a","args":{},"ts":12.5}"#,
            br#"{ "args": 5, "dur": 1 }                "#,
            br#"{}                                     "#,
        ];
        let mut layout = Layout::new();
        let first: Vec<_> = events.map(|event| nexts(&mut Layout::new(), event)).into();
        for _ in 0..2 {
            for (event, expected) in events.iter().zip(&first) {
                assert_eq!(&nexts(&mut layout, event), expected);
            }
        }
        assert_eq!(first[0].as_ref().unwrap()[2..4], [Next::Arg(Arg::Stream), Next::Other(b"x")]);
    }

    #[test]
    fn what_is_no_event_is_refused_each_time() {
        let mut layout = Layout::new();
        for _ in 0..2 {
            for text in
                [&br#"{"a": 1 "b": 2}"#[..], br#"{"a" 1}"#, br#"{,}"#, br#"{"args": {"a": 1]"#]
            {
                assert_eq!(nexts(&mut layout, text), Err(LexError::Syntax), "{text:?}");
            }
        }
        assert_eq!(nexts(&mut layout, br#"{"a": 1, "b"#), Err(LexError::End));
    }

    #[test]
    fn memory_is_bounded() {
        let mut layout = Layout::new();
        for i in 0..100_000 {
            let event = format!("{{\"key{i}\": 1, \"other{i}\": {{\"a\": 2}}}}");
            assert_eq!(nexts(&mut layout, event.as_bytes()).map(|nexts| nexts.len()), Ok(3));
        }
        assert!(layout.nodes.len() <= MAX_NODES);
    }
}
