//! Structure-preserving mutations, most of which get past the parser, and mutations of raw bytes.

use fastrand::Rng;

use crate::json::Json;

/// Values that break arithmetic, parsers, or assumptions.
const EXTREMES: [&str; 40] = [
    "0",
    "-1",
    "1",
    "-0.0",
    "0.0005",
    "100.5",
    "255",
    "65536",
    "2147483648",
    "-2147483649",
    "4294967296",
    "1e15",
    "9e15",
    "-9e15",
    "9007199254740993",
    // Rounded and multiplied by a thousand, the first does not fit 64 bits.
    "9223372036854775.807",
    "-9223372036854775.807",
    "9200000000000000000",
    "-5000000000000",
    "1e9",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "1e300",
    "-1e308",
    "1e400",
    "1e-400",
    "123456789012345678901234567890.5",
    "NaN",
    "Infinity",
    "\"-1\"",
    "\"NaN\"",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"\\u0000\\u001b[31m\\ud800\\\"\"",
];

/// Fragments of rule files, tables and logs.
const PIECES: [&str; 24] = [
    "\"",
    "'''",
    "[",
    "]",
    "{{",
    "}}",
    "{% for a in [1]*90 %}",
    "{% endfor %}",
    "{% set a = a ~ a %}",
    "|bytes",
    "|pct",
    " ~ ",
    " * 9e15",
    "> 5 us",
    "..",
    ",",
    "\t",
    "\\N",
    "\u{feff}",
    "\u{0}",
    "9999-12-31T23:59:60Z",
    "1e999",
    "-1",
    "9223372036854775807",
];

/// Returns a copy of the bytes with one to four edits of JSON (one document, or one per line), of text lines, or of raw
/// bytes.
pub fn mutate(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let text = std::str::from_utf8(&bytes).ok();
        let edited = match (text, rng.u8(0..8)) {
            (Some(text), 0..5) => edit_json(text, rng).or_else(|| Some(edit_lines(text, rng))),
            (Some(text), 5) => Some(edit_lines(text, rng)),
            _ => None,
        };
        match edited {
            Some(text) => bytes = text.into_bytes(),
            None => edit_bytes(&mut bytes, rng),
        }
    }
    bytes
}

/// Edits one value of a JSON document, or of a document in one of the lines.
fn edit_json(text: &str, rng: &mut Rng) -> Option<String> {
    if let Some(mut document) = Json::parse(text) {
        edit_value(&mut document, rng);
        return Some(document.text());
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let at = rng.usize(0..lines.len().max(1));
    // Log lines have a prefix before the document.
    let line = *lines.get(at)?;
    let start = line.find('{')?;
    let mut document = Json::parse(&line[start..])?;
    edit_value(&mut document, rng);
    let line = line[..start].to_owned() + &document.text();
    lines[at] = &line;
    Some(lines.join("\n"))
}

fn edit_value(document: &mut Json, rng: &mut Rng) {
    // Times, amounts and IDs: every argument that is a number, whatever it is called.
    let is_amount = |key: Option<&str>, value: &Json| {
        let number = value.scalar().map(|text| text.trim_matches('"').parse::<f64>());
        key.is_some() && matches!(number, Some(Ok(_)))
    };
    let (mut values, mut amounts, mut scalars) = (0, 0, Vec::new());
    document.visit(&mut |key, value| {
        values += 1;
        amounts += usize::from(is_amount(key, value));
        if let Json::Scalar(text) = value
            && scalars.len() < 64
        {
            scalars.push(text.clone());
        }
    });
    let only_amounts = amounts > 0 && rng.bool();
    let mut left = rng.usize(0..if only_amounts { amounts } else { values });
    let mut rng = rng.fork();
    document.visit(&mut |key, value| {
        if only_amounts && !is_amount(key, value) {
            return;
        }
        if left == 0 {
            edit_one(value, &scalars, &mut rng);
        }
        left = left.wrapping_sub(1);
    });
}

fn edit_one(value: &mut Json, scalars: &[String], rng: &mut Rng) {
    let extreme = |rng: &mut Rng| {
        let others = !scalars.is_empty() && rng.u8(0..4) == 0;
        let text = if others {
            scalars[rng.usize(0..scalars.len())].clone()
        } else {
            EXTREMES[rng.usize(0..EXTREMES.len())].to_owned()
        };
        Json::Scalar(text)
    };
    match value {
        Json::Scalar(_) => *value = extreme(rng),
        Json::List(items) => edit_items(items, rng, extreme),
        Json::Object(members) => {
            let keys: Vec<String> = members.iter().map(|(key, _)| key.clone()).collect();
            edit_items(members, rng, |rng| {
                let key = keys.get(rng.usize(0..keys.len().max(1)));
                (key.map_or("\"ts\"", String::as_str).to_owned(), extreme(rng))
            });
        }
    }
}

/// Deletes, duplicates, swaps, shuffles, replaces or inserts elements.
fn edit_items<T: Clone>(items: &mut Vec<T>, rng: &mut Rng, new: impl Fn(&mut Rng) -> T) {
    let count = items.len();
    let (a, b) = (rng.usize(0..count.max(1)), rng.usize(0..count.max(1)));
    match rng.u8(0..7) {
        _ if count == 0 => items.push(new(rng)),
        0 => drop(items.remove(a)),
        1 => drop(items.drain(a.min(b)..=a.max(b))),
        2 => items.insert(b, items[a].clone()),
        3 => items.swap(a, b),
        4 => rng.shuffle(items),
        5 => items[a] = new(rng),
        _ => items.insert(a, new(rng)),
    }
}

/// Edits the list of lines, or replaces a number or a part of one line.
fn edit_lines(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    if rng.bool() {
        edit_items(&mut lines, rng, |rng| PIECES[rng.usize(0..PIECES.len())].to_owned());
        return lines.join("\n");
    }
    let at = rng.usize(0..lines.len());
    let line = &mut lines[at];
    let digits = line.find(|c: char| c.is_ascii_digit()).filter(|_| rng.bool());
    if let Some(start) = digits {
        let length = line[start..].find(|c: char| !c.is_ascii_digit());
        let end = length.map_or(line.len(), |length| start + length);
        line.replace_range(start..end, EXTREMES[rng.usize(0..EXTREMES.len())]);
    } else {
        let at = (0..=line.len()).filter(|&at| line.is_char_boundary(at)).collect::<Vec<_>>();
        let (a, b) = (at[rng.usize(0..at.len())], at[rng.usize(0..at.len())]);
        let end = if rng.bool() { a.max(b).min(a.min(b) + 12) } else { a.min(b) };
        let end = (end..=line.len()).find(|&end| line.is_char_boundary(end)).unwrap_or(line.len());
        line.replace_range(a.min(b)..end, PIECES[rng.usize(0..PIECES.len())]);
    }
    lines.join("\n")
}

fn edit_bytes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let count = bytes.len();
    if count == 0 {
        bytes.push(rng.u8(..));
        return;
    }
    let at = rng.usize(0..count);
    let end = (at + rng.usize(1..=16)).min(count);
    match rng.u8(0..8) {
        0 => bytes[at] ^= 1 << rng.u8(0..8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'.'][rng.usize(0..8)],
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = rng.usize(0..=count);
            bytes.splice(to..to, copy);
        }
        5 => bytes.insert(at, rng.u8(..)),
        _ => {
            // Overwrites a length, an index or a number of a binary format.
            let number =
                [0_i64, -1, 1 << 31, 1 << 32, 1 << 53, i64::MAX, i64::MIN][rng.usize(0..7)];
            let width = if rng.bool() { 4 } else { 8 };
            for (byte, new) in bytes[at..].iter_mut().zip(&number.to_le_bytes()[..width]) {
                *byte = *new;
            }
        }
    }
}
