//! The stack machine. Each instruction takes constant time, except for the data that it reads.

use super::graph::{Graph, Kind, ObjectId, Word};
use super::input::Bytes;
use super::numbers::{Decimal, decimal, little_endian, quoted, raw_unicode_escape, utf8};
use super::problem::Problem;
use crate::input::decompress::JsonInput;

/// Containers that may be open at once. Python itself stops at about a thousand.
const MAX_MARKS: usize = 10_000;
/// Memory a pickle may take for each of its bytes. Snapshots take two to three.
const MEMORY_RATIO: u64 = 8;
const ALWAYS_ALLOWED: u64 = 16 << 20;
/// Instructions between two looks at the memory taken.
const CHECK_EVERY: u32 = 4096;

struct Machine<'p> {
    bytes: Bytes<'p>,
    graph: Graph,
    stack: Vec<Word>,
    /// Heights of the stack at which containers were opened.
    marks: Vec<usize>,
    memo: Vec<Word>,
}

/// Reads a pickle. Calls `advance` with the number of bytes read since the last call; the result's second part is how many
/// there were.
pub(crate) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<(Graph, u64), Problem> {
    let mut machine = Machine {
        bytes: Bytes::new(input, advance),
        graph: Graph::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
    };
    let mut left = CHECK_EVERY;
    while machine.step()? {
        left -= 1;
        if left == 0 {
            machine.check_memory()?;
            left = CHECK_EVERY;
        }
    }
    machine.check_memory()?;
    Ok((machine.graph, machine.bytes.position()))
}

impl Machine<'_> {
    /// Runs one instruction; false at the end.
    fn step(&mut self) -> Result<bool, Problem> {
        match self.bytes.byte()? {
            b'.' => {
                let root = self.pop()?;
                self.graph.set_root(root);
                return Ok(false);
            }
            b'(' => {
                if self.marks.len() >= MAX_MARKS {
                    return Err(self.malformed("nested too deeply"));
                }
                self.marks.push(self.stack.len());
            }
            // A mark may be popped as well.
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            b'0' => {
                self.pop()?;
            }
            b'1' => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
            }
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            0x80 => {
                if self.bytes.byte()? > 5 {
                    return Err(self.malformed("a protocol after 5"));
                }
            }
            0x95 => {
                self.bytes.array::<8>()?; // length of a frame: what is in it comes as without it
            }
            op @ (b'p' | b'q' | b'r' | 0x94) => self.put(op)?,
            op @ (b'g' | b'h' | b'j') => self.get(op)?,
            op @ (b']' | b')' | b'}' | 0x8f) => {
                let kind = match op {
                    b']' => Kind::List,
                    b')' => Kind::Tuple,
                    b'}' => Kind::Dict,
                    _ => Kind::Set,
                };
                self.build(kind, self.stack.len())?;
            }
            op @ (b'l' | b't' | b'd' | 0x91) => {
                let kind = match op {
                    b'l' => Kind::List,
                    b't' => Kind::Tuple,
                    b'd' => Kind::Dict,
                    _ => Kind::Set,
                };
                let mark = self.mark()?;
                self.build(kind, mark)?;
            }
            op @ 0x85..=0x87 => {
                let from = self.below(usize::from(op - 0x84))?;
                self.build(Kind::Tuple, from)?;
            }
            b'a' => {
                let from = self.below(1)?;
                self.add(Kind::List, from)?;
            }
            b's' => {
                let from = self.below(2)?;
                self.add(Kind::Dict, from)?;
            }
            op @ (b'e' | b'u' | 0x90) => {
                let kind = match op {
                    b'e' => Kind::List,
                    b'u' => Kind::Dict,
                    _ => Kind::Set,
                };
                let mark = self.mark()?;
                self.add(kind, mark)?;
            }
            op => {
                let word = self.scalar(op)?;
                self.stack.push(word);
            }
        }
        Ok(true)
    }

    /// An instruction that pushes a number, text or nothing.
    fn scalar(&mut self, op: u8) -> Result<Word, Problem> {
        Ok(match op {
            b'N' => Word::NONE,
            0x88 => Word::TRUE,
            0x89 => Word::FALSE,
            b'K' => {
                let value = self.bytes.byte()?;
                self.graph.int(i128::from(value))
            }
            b'M' => {
                let value = u16::from_le_bytes(self.bytes.array()?);
                self.graph.int(i128::from(value))
            }
            b'J' => {
                let value = i32::from_le_bytes(self.bytes.array()?);
                self.graph.int(i128::from(value))
            }
            0x8a => {
                let len = usize::from(self.bytes.byte()?);
                self.long(len)?
            }
            0x8b => {
                let len = self.length4()?;
                self.long(len)?
            }
            b'I' | b'L' => self.decimal()?,
            b'G' => {
                let value = f64::from_be_bytes(self.bytes.array()?);
                self.graph.float(value)
            }
            b'F' => {
                let line = std::str::from_utf8(self.bytes.line()?).ok();
                match line.and_then(|text| text.trim().parse().ok()) {
                    Some(value) => self.graph.float(value),
                    None => return Err(self.malformed("an invalid float")),
                }
            }
            b'X' | b'T' => {
                let len = self.length4()?;
                self.text(len)?
            }
            0x8c | b'U' => {
                let len = usize::from(self.bytes.byte()?);
                self.text(len)?
            }
            0x8d => {
                let len = u64::from_le_bytes(self.bytes.array()?);
                let len = usize::try_from(len).map_err(|_| Problem::Truncated)?;
                self.text(len)?
            }
            b'V' => {
                let text = raw_unicode_escape(self.bytes.line()?);
                self.graph.text(&text)
            }
            b'S' => match quoted(self.bytes.line()?) {
                Some(text) => self.graph.text(&text),
                None => return Err(self.malformed("a string without quotes")),
            },
            b'C' => {
                let len = u64::from(self.bytes.byte()?);
                self.bytes.skip(len)?;
                Word::BYTES
            }
            b'B' => {
                let len = self.length4()? as u64;
                self.bytes.skip(len)?;
                Word::BYTES
            }
            0x8e | 0x96 => {
                let len = u64::from_le_bytes(self.bytes.array()?);
                self.bytes.skip(len)?;
                Word::BYTES
            }
            _ => return Err(self.refusal(op)),
        })
    }

    /// The error for an instruction that is refused.
    fn refusal(&mut self, op: u8) -> Problem {
        let what = match op {
            b'c' | b'i' => {
                let name = |machine: &mut Self| {
                    machine
                        .bytes
                        .line()
                        .map(|line| utf8(line).chars().take(120).collect::<String>())
                };
                match (name(self), name(self)) {
                    (Ok(module), Ok(class)) => format!("{module}.{class}"),
                    (Err(problem), _) | (_, Err(problem)) => return problem,
                }
            }
            0x93 => {
                let mut name = || {
                    let word = self.stack.pop()?;
                    Some(
                        self.graph
                            .strings
                            .get(word.as_str()?)
                            .chars()
                            .take(120)
                            .collect::<String>(),
                    )
                };
                let (class, module) = (name(), name());
                match (module, class) {
                    (Some(module), Some(class)) => format!("{module}.{class}"),
                    _ => "a class".to_owned(),
                }
            }
            b'R' | b'b' | b'o' | 0x81 | 0x92 => "an object of a class".to_owned(),
            b'P' | b'Q' => "an object that is kept elsewhere (a persistent id)".to_owned(),
            0x82..=0x84 => "a class by its number in Python's extension registry".to_owned(),
            0x97 | 0x98 => "a buffer that is kept elsewhere".to_owned(),
            _ => return self.malformed("an unknown instruction"),
        };
        Problem::Refused(what, self.bytes.position())
    }

    fn malformed(&self, what: &'static str) -> Problem {
        Problem::Malformed(what, self.bytes.position())
    }

    /// Values above the last mark belong to the container that is being built.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Word, Problem> {
        if self.stack.len() <= self.floor() {
            return Err(self.malformed("a value is missing"));
        }
        self.stack.last().copied().ok_or_else(|| self.malformed("a value is missing"))
    }

    fn pop(&mut self) -> Result<Word, Problem> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn mark(&mut self) -> Result<usize, Problem> {
        self.marks.pop().ok_or_else(|| self.malformed("a container ends that was not begun"))
    }

    /// The height of the stack without its last `count` values.
    fn below(&self, count: usize) -> Result<usize, Problem> {
        let from = self.stack.len().checked_sub(count).filter(|&from| from >= self.floor());
        from.ok_or_else(|| self.malformed("a value is missing"))
    }

    /// Replaces the values from `from` on by a container of them.
    fn build(&mut self, kind: Kind, from: usize) -> Result<(), Problem> {
        let object = self.graph.object(kind).ok_or(Problem::TooMuch)?;
        self.fill(object, kind, from)?;
        self.stack.push(Word::object(object));
        Ok(())
    }

    /// Adds the values from `from` on to the container below them.
    fn add(&mut self, kind: Kind, from: usize) -> Result<(), Problem> {
        let below = from.checked_sub(1).filter(|&below| below >= self.floor());
        let target = below.and_then(|below| self.stack[below].as_object());
        match target.filter(|&target| self.graph.kind(target) == kind) {
            Some(target) => self.fill(target, kind, from),
            None => Err(self.malformed("values are added to what does not take them")),
        }
    }

    fn fill(&mut self, object: ObjectId, kind: Kind, from: usize) -> Result<(), Problem> {
        let values = self.stack.get(from..).unwrap_or_default();
        if kind == Kind::Dict && values.len() % 2 != 0 {
            return Err(self.malformed("a dict has a key without a value"));
        }
        self.graph.extend(object, values).ok_or(Problem::TooMuch)?;
        self.stack.truncate(from);
        Ok(())
    }

    fn put(&mut self, op: u8) -> Result<(), Problem> {
        let at = match op {
            b'p' => self.index_line()?,
            b'q' => u64::from(self.bytes.byte()?),
            b'r' => u64::from(u32::from_le_bytes(self.bytes.array()?)),
            _ => self.memo.len() as u64,
        };
        let value = self.top()?;
        // Writers number what they keep from 0 (protocol 0: from 1): no number is past the bytes read.
        if at > self.bytes.position() {
            return Err(self.malformed("a memo number that no writer gives"));
        }
        let at = at as usize;
        if at >= self.memo.len() {
            self.memo.resize(at + 1, Word::UNSET);
        }
        self.memo[at] = value;
        Ok(())
    }

    fn get(&mut self, op: u8) -> Result<(), Problem> {
        let at = match op {
            b'g' => self.index_line()?,
            b'h' => u64::from(self.bytes.byte()?),
            _ => u64::from(u32::from_le_bytes(self.bytes.array()?)),
        };
        let value = usize::try_from(at).ok().and_then(|at| self.memo.get(at)).copied();
        let value = value.filter(|&value| value != Word::UNSET);
        let value = value.ok_or_else(|| self.malformed("a memo number that was not given"))?;
        self.stack.push(value);
        Ok(())
    }

    fn index_line(&mut self) -> Result<u64, Problem> {
        match decimal(self.bytes.line()?) {
            Decimal::Int(value) => u64::try_from(value).ok(),
            _ => None,
        }
        .ok_or_else(|| self.malformed("an invalid memo number"))
    }

    fn length4(&mut self) -> Result<usize, Problem> {
        let len = u32::from_le_bytes(self.bytes.array()?);
        // Old instructions have signed lengths.
        if i32::try_from(len).is_err() {
            return Err(Problem::TooMuch);
        }
        Ok(len as usize)
    }

    fn long(&mut self, len: usize) -> Result<Word, Problem> {
        let value = little_endian(self.bytes.take(len)?);
        Ok(value.map_or(Word::HUGE, |value| self.graph.int(value)))
    }

    fn decimal(&mut self) -> Result<Word, Problem> {
        let line = self.bytes.line()?;
        match line {
            b"00" => return Ok(Word::FALSE),
            b"01" => return Ok(Word::TRUE),
            _ => {}
        }
        match decimal(line) {
            Decimal::Int(value) => Ok(self.graph.int(value)),
            Decimal::Huge => Ok(Word::HUGE),
            Decimal::Bad => Err(self.malformed("an invalid integer")),
        }
    }

    fn text(&mut self, len: usize) -> Result<Word, Problem> {
        let text = utf8(self.bytes.take(len)?);
        Ok(self.graph.text(&text))
    }

    fn check_memory(&self) -> Result<(), Problem> {
        let words = self.stack.len() + self.memo.len();
        let held = (self.graph.memory_bytes() + words * size_of::<Word>()) as u64;
        if held > self.bytes.position() * MEMORY_RATIO + ALWAYS_ALLOWED {
            return Err(Problem::TooMuch);
        }
        Ok(())
    }
}
