//! Merges the tables of several files for one rule: the last file that states a key decides.

use toml::Spanned;

use crate::language::file_schema::RuleTable;
use crate::language::problem::{Span, SpannedStr};

/// The tables of one rule in order of loading.
pub(crate) struct MergedRule {
    pub(crate) name: String,
    /// First occurrence of the rule's name.
    pub(crate) span: Span,
    pub(crate) layers: Vec<(usize, RuleTable)>,
}

impl MergedRule {
    /// The value in the last layer that states it, with the file.
    pub(crate) fn last<'a, T: ?Sized>(
        &'a self,
        get: impl Fn(&'a RuleTable) -> Option<&'a T>,
    ) -> Option<(usize, &'a T)> {
        self.layers.iter().rev().find_map(|(file, table)| get(table).map(|v| (*file, v)))
    }

    pub(crate) fn last_text<'a>(
        &'a self,
        get: impl Fn(&'a RuleTable) -> Option<&'a Spanned<String>>,
    ) -> Option<SpannedStr<'a>> {
        self.last(get).map(|(file, text)| SpannedStr::new(file, text))
    }

    /// Whether the rule is enabled.
    pub(crate) fn enabled(&self) -> bool {
        self.last(|t| t.enabled.as_ref()).is_none_or(|(_, on)| *on)
    }

    /// Whether it only details the rule that contains it.
    pub(crate) fn refines(&self) -> bool {
        self.last(|t| t.refines.as_ref()).is_some_and(|(_, on)| *on)
    }

    pub(crate) fn within(&self) -> Option<SpannedStr<'_>> {
        self.last_text(|t| t.within.as_ref())
    }

    pub(crate) fn weakens(&self) -> Vec<SpannedStr<'_>> {
        self.texts(|t| t.weakens.as_ref())
    }

    pub(crate) fn texts<'a>(
        &'a self,
        get: impl Fn(&'a RuleTable) -> Option<&'a Vec<Spanned<String>>>,
    ) -> Vec<SpannedStr<'a>> {
        self.last(get)
            .map(|(file, list)| list.iter().map(|t| SpannedStr::new(file, t)).collect())
            .unwrap_or_default()
    }
}
