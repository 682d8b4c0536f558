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
pub(super) enum Next {
    /// The value of this key of the event.
    Field(Field),
    /// The value of an argument.
    Arg(Arg),
    /// The value of an argument that has no use of its own; where its key stands, counted back from the end
    /// of what was passed.
    Other { back: u32, len: u32 },
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
    /// Arguments that are no object. What stands before them may stand before an object too: it tells nothing.
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
            b"id" => Self::Id,
            b"args" => Self::NoArgs,
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

#[derive(Debug)]
struct Edge {
    /// The first bytes, and which of them there are.
    head: u128,
    mask: u128,
    text: Box<[u8]>,
    next: Next,
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
    pub(super) fn advance(
        &mut self,
        lexer: &mut Lexer<'_>,
        position: &mut Position,
    ) -> Result<Next, LexError> {
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
                    return Ok(edge.next);
                }
            }
        }
        self.read(lexer, position)
    }

    #[cold]
    fn read(&mut self, lexer: &mut Lexer<'_>, position: &mut Position) -> Result<Next, LexError> {
        let rest = lexer.rest();
        let start = lexer.pos();
        let known = self.nodes.get(position.node);
        let place = known.map_or(position.place, |node| node.place);
        let (next, place) = read(lexer, place)?;
        let len = lexer.pos() - start;
        let is_kept = known.is_some_and(|node| node.edges.len() < MAX_EDGES)
            && next != Next::Field(Field::NoArgs)
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
                next,
                to,
            };
            self.nodes[position.node].edges.push(edge);
            self.nodes.push(Node { place, edges: Vec::new() });
        }
        *position = Position { place, node: to };
        Ok(next)
    }
}

/// Reads token by token up to the next value.
fn read(lexer: &mut Lexer<'_>, mut place: Place) -> Result<(Next, Place), LexError> {
    loop {
        let first = lexer.peek()?;
        lexer.bump();
        match (place, first) {
            (Place::Start, b'{') => {
                if lexer.peek()? == b'}' {
                    lexer.bump();
                    return Ok((Next::End, Place::InEvent));
                }
            }
            (Place::InEvent, b'}') => return Ok((Next::End, Place::InEvent)),
            (Place::InEvent, b',') => {}
            (Place::InArgs, b'}') => {
                place = Place::InEvent;
                continue;
            }
            (Place::InArgs, b',') => return argument(lexer),
            _ => return Err(LexError::Syntax),
        }
        let key = lexer.string()?.bytes;
        lexer.expect(b':')?;
        if lexer.peek()? != b'{' || key != b"args" {
            return Ok((Next::Field(Field::from_key(key)), Place::InEvent));
        }
        lexer.bump();
        if lexer.peek()? != b'}' {
            return argument(lexer);
        }
        lexer.bump();
        place = Place::InEvent;
    }
}

fn argument(lexer: &mut Lexer<'_>) -> Result<(Next, Place), LexError> {
    let key = lexer.string()?.bytes;
    let key_end = lexer.pos() - 1;
    lexer.expect(b':')?;
    lexer.peek()?;
    let back = lexer.pos() - key_end + key.len();
    let next = match (Arg::from_key(key), u32::try_from(back)) {
        (Some(arg), _) => Next::Arg(arg),
        (None, Ok(back)) => Next::Other { back, len: key.len() as u32 },
        (None, Err(_)) => return Err(LexError::Syntax),
    };
    Ok((next, Place::InArgs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexts(layout: &mut Layout, text: &[u8]) -> Result<Vec<(Next, String)>, LexError> {
        let mut lexer = Lexer::new(text, 0);
        let mut position = Position::START;
        let mut nexts = Vec::new();
        loop {
            let next = layout.advance(&mut lexer, &mut position)?;
            let key = match next {
                Next::Other { back, len } => lexer.before(back as usize, len as usize),
                _ => b"",
            };
            nexts.push((next, String::from_utf8_lossy(key).into_owned()));
            if next == Next::End {
                return Ok(nexts);
            }
            lexer.value()?;
        }
    }

    #[test]
    fn what_is_known_reads_as_what_is_not() {
        let events: [&[u8]; 6] = [
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "x": [1]}, "ts": 12.5}"#,
            br#"{"ph": "X", "name": "a", "args": {"stream": 7, "y": [1]}, "ts":   12.5  }"#,
            br#"{"ph":"X","name":"a","args":5,"ts":12.5}"#,
            br#"{"ph":"X","name":"a","args":{},"ts":12.5}"#,
            br#"{ "args": 5, "dur": 1 }                "#,
            br"{}                                     ",
        ];
        let mut layout = Layout::new();
        let first: Vec<_> = events.map(|event| nexts(&mut Layout::new(), event)).into();
        for _ in 0..2 {
            for (event, expected) in events.iter().zip(&first) {
                assert_eq!(&nexts(&mut layout, event), expected);
            }
        }
        let first = first[0].as_ref().unwrap();
        assert_eq!(first[2].0, Next::Arg(Arg::Stream));
        assert_eq!(first[3].1, "x");
    }

    #[test]
    fn what_is_no_event_is_refused_each_time() {
        let mut layout = Layout::new();
        for _ in 0..2 {
            for text in
                [&br#"{"a": 1 "b": 2}"#[..], br#"{"a" 1}"#, br"{,}", br#"{"args": {"a": 1]"#]
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
