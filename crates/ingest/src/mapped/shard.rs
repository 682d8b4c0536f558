//! The part of a run that one worker maps.

use std::fmt;
use std::str::FromStr;

use crate::run::rank_from_name::rank_from_file_name;

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

    /// Whether each of the files of a run, with name and length, belongs to this part: about the same number of bytes for each
    /// part, in order of ranks as far as file names state them. Each file is in one part.
    pub(super) fn selects(self, files: &[(&str, u64)]) -> Vec<bool> {
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_cached_key(|&at| (rank_from_file_name(files[at].0), files[at].0));
        let total: u128 = files.iter().map(|(_, bytes)| u128::from((*bytes).max(1))).sum();
        let (number, count) = (u128::from(self.number), u128::from(self.count));
        let mut before = 0;
        let mut is_selected = vec![false; files.len()];
        for at in order {
            let bytes = u128::from(files[at].1.max(1));
            // The middle of the file decides.
            let part = (2 * before + bytes) * count / (2 * total);
            before += bytes;
            is_selected[at] = part + 1 == number;
        }
        is_selected
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

    #[test]
    fn every_file_is_in_one_shard() {
        let names: Vec<String> = (0..23).rev().map(|rank| format!("rank{rank}.json")).collect();
        let files: Vec<(&str, u64)> =
            names.iter().zip(0..).map(|(name, at)| (name.as_str(), at * 7 % 5)).collect();
        for count in [1, 2, 5, 23, 40] {
            let shards: Vec<Vec<bool>> = (1..=count)
                .map(|number| Shard::new(number, count).unwrap().selects(&files))
                .collect();
            // In order of ranks, which is the opposite of that of the files.
            let shard_of = |file: usize| shards.iter().position(|shard| shard[file]).unwrap();
            for file in 0..files.len() {
                assert_eq!(shards.iter().filter(|shard| shard[file]).count(), 1, "{count} shards");
            }
            assert!((1..files.len()).all(|file| shard_of(file) <= shard_of(file - 1)));
        }
    }

    #[test]
    fn shards_have_about_the_same_number_of_bytes() {
        let sizes = [50, 1, 1, 1, 1, 1, 1, 50];
        let names: Vec<String> = (0..sizes.len()).map(|rank| format!("rank{rank}")).collect();
        let files: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(sizes).collect();
        let bytes = |number| -> u64 {
            let is_selected = Shard::new(number, 2).unwrap().selects(&files);
            sizes.iter().zip(is_selected).filter(|(_, is)| *is).map(|(bytes, _)| bytes).sum()
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
