//! The part of a run that one worker maps.

use std::fmt;
use std::str::FromStr;

use crate::run::discover::{InputFile, rank_from_file_name};

/// One of several parts of a run, written as `2/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    count: u32,
}

impl Shard {
    /// The whole run.
    pub const ALL: Self = Self { number: 1, count: 1 };

    /// Part `number`, from 1, of `count` parts. `None` if there is no such part.
    pub fn new(number: u32, count: u32) -> Option<Self> {
        (1..=count).contains(&number).then_some(Self { number, count })
    }

    /// The files of this part, of all files that are to be mapped: about the same number of bytes for each part, in order of
    /// ranks as far as file names state them. Each file is in one part.
    pub(super) fn files<'a>(self, files: &[&'a InputFile]) -> Vec<&'a InputFile> {
        let mut files = files.to_vec();
        files.sort_by_cached_key(|file| (rank_from_file_name(&file.file), file.file.clone()));
        let total: u128 = files.iter().map(|file| u128::from(file.bytes.max(1))).sum();
        let (number, count) = (u128::from(self.number), u128::from(self.count));
        let mut before = 0;
        files.retain(|file| {
            let bytes = u128::from(file.bytes.max(1));
            // The middle of the file decides.
            let at = (2 * before + bytes) * count / (2 * total);
            before += bytes;
            at + 1 == number
        });
        files
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (number, count) = text.split_once('/')?;
            Self::new(number.parse().ok()?, count.parse().ok()?)
        };
        parsed().ok_or_else(|| {
            format!("`{text}` is not a shard: write its number, from 1, and how many there are, as in 2/8")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::guess::Format;
    use crate::input::storage::File;

    fn file(name: &str, bytes: u64) -> InputFile {
        let stored = File::Local(name.into());
        InputFile {
            format: Format::Kineto,
            stored,
            file: name.to_owned(),
            bytes,
            json_bytes: bytes,
        }
    }

    #[test]
    fn every_file_is_in_one_shard() {
        let files: Vec<InputFile> =
            (0..23).map(|rank| file(&format!("rank{rank}.json"), rank * 7 % 5)).collect();
        let all: Vec<&InputFile> = files.iter().collect();
        for count in [1, 2, 5, 23, 40] {
            let shards = (1..=count).map(|number| Shard::new(number, count).unwrap().files(&all));
            let names: Vec<&str> = shards.flatten().map(|file| file.file.as_str()).collect();
            let expected: Vec<String> = (0..23).map(|rank| format!("rank{rank}.json")).collect();
            assert_eq!(names, expected, "{count} shards");
        }
    }

    #[test]
    fn shards_have_about_the_same_number_of_bytes() {
        let sizes = [50, 1, 1, 1, 1, 1, 1, 50];
        let files: Vec<InputFile> =
            sizes.iter().enumerate().map(|(rank, &n)| file(&format!("rank{rank}"), n)).collect();
        let all: Vec<&InputFile> = files.iter().collect();
        let bytes = |number| -> u64 {
            Shard::new(number, 2).unwrap().files(&all).iter().map(|file| file.bytes).sum()
        };
        assert_eq!([bytes(1), bytes(2)], [53, 53]);
    }

    #[test]
    fn from_str_reads_what_display_writes() {
        let shard: Shard = "2/8".parse().unwrap();
        assert_eq!((shard.to_string().as_str(), Shard::ALL.to_string().as_str()), ("2/8", "1/1"));
        for text in ["", "2", "0/4", "5/4", "1/0", "-1/2", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
