//! Commands that are printed for people to run.

use std::borrow::Cow;

/// Options of the command line with which a run was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOptions {
    /// How the run is read: `--cycle 1`.
    pub reading: Vec<String>,
    /// The part of the run that is read: `--steps 3`.
    pub selection: Vec<String>,
}

impl CommandOptions {
    /// All options.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.reading.iter().chain(&self.selection).map(String::as_str)
    }

    /// All options, as words of a command.
    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

/// Words of a command, each quoted for a shell if necessary.
pub fn shell_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(shell_quoted).collect::<Vec<_>>().join(" ")
}

/// A word of a command, quoted for a shell if necessary.
fn shell_quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        Cow::Borrowed(word)
    } else if word.contains(['"', '$', '`', '\\', '!']) {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    } else {
        Cow::Owned(format!("\"{word}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_words;

    #[test]
    fn shell_words_keep_arguments_intact() {
        for (word, expected) in [
            ("runs/a-1", "runs/a-1"),
            ("my run", "\"my run\""),
            ("WHERE name = 'a'", "\"WHERE name = 'a'\""),
            ("name = '$(rm)'", r"'name = '\''$(rm)'\'''"),
            ("", "\"\""),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(shell_words([word]), expected);
        }
        assert_eq!(shell_words(["advisor", "check", "my run"]), "advisor check \"my run\"");
    }
}
