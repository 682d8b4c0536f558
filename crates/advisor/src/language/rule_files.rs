//! Parses rule files into tables: syntax and schema are checked here, meaning is checked in `compile` and `link`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::language::file_schema::{
    FixTable, IgnoreTable, PolicyTable, PredictionTable, RuleTable,
};
use crate::language::fix::MergedFix;
use crate::language::merge::MergedRule;
use crate::language::problem::{Problems, RuleSource, Span, did_you_mean};
use crate::language::query::StatedQuery;
use crate::language::schema_check::{self, TableKind};

/// Rule files that are parsed but not checked: their queries have to be planned first, to find their columns.
pub struct RuleFiles<'a> {
    pub(crate) sources: &'a [RuleSource],
    pub(crate) files: ParsedFiles,
    pub(crate) problems: Problems<'a>,
}

impl<'a> RuleFiles<'a> {
    /// Parses rule files; mistakes are reported when the files are checked.
    pub fn read(sources: &'a [RuleSource]) -> Self {
        let read = |(file, source): (usize, &RuleSource)| {
            let mut problems = Problems::new(sources);
            let mut files = ParsedFiles::default();
            files.read(file, &source.text, &mut problems);
            (files, problems)
        };
        let parsed: Vec<_> = sources.par_iter().enumerate().map(read).collect();
        let mut problems = Problems::new(sources);
        let mut files = ParsedFiles::default();
        for (next, of_file) in parsed {
            files.append(next);
            problems.take(of_file, |_| true);
        }
        for (span, path) in &files.includes {
            let of = &sources[span.file];
            let message = match of.included_name(path) {
                None => format!("`{path}` is not below the folder of this file"),
                Some(name) if !sources.iter().any(|source| source.name == name) => {
                    format!("`{name}` is included, but is not among the rule files")
                }
                Some(_) => continue,
            };
            problems.add(span, message, None);
        }
        Self { sources, files, problems }
    }

    /// The queries of the rules, whatever else may be wrong with the files.
    pub fn queries(&self) -> Vec<StatedQuery> {
        self.files.rules.values().filter_map(StatedQuery::in_rule).collect()
    }
}

impl std::fmt::Debug for RuleFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleFiles").field("rules", &self.files.rules.keys()).finish_non_exhaustive()
    }
}

/// The tables of all files, before they are checked rule by rule.
#[derive(Default)]
pub(crate) struct ParsedFiles {
    pub(crate) rules: BTreeMap<String, MergedRule>,
    /// Rules with a table that could be read in part only: they exist, but missing keys are not reported.
    pub(crate) malformed: BTreeSet<String>,
    pub(crate) fixes: BTreeMap<String, MergedFix>,
    pub(crate) ignores: Vec<(Span, String, IgnoreTable)>,
    /// Malformed ignore entries: only their selectors are checked.
    pub(crate) malformed_ignores: Vec<(Span, String)>,
    pub(crate) policies: Vec<(usize, PolicyTable)>,
    pub(crate) predictions: Vec<PredictionTable>,
    /// Included files, as stated.
    pub(crate) includes: Vec<(Span, String)>,
}

impl ParsedFiles {
    /// Adds the tables of later files.
    fn append(&mut self, later: Self) {
        let Self {
            rules,
            malformed,
            fixes,
            ignores,
            malformed_ignores,
            policies,
            predictions,
            includes,
        } = later;
        for (name, rule) in rules {
            match self.rules.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(rule),
                Entry::Occupied(mut entry) => entry.get_mut().layers.extend(rule.layers),
            }
        }
        for (name, fix) in fixes {
            match self.fixes.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(fix),
                Entry::Occupied(mut entry) => entry.get_mut().layers.extend(fix.layers),
            }
        }
        self.malformed.extend(malformed);
        self.ignores.extend(ignores);
        self.malformed_ignores.extend(malformed_ignores);
        self.policies.extend(policies);
        self.predictions.extend(predictions);
        self.includes.extend(includes);
    }

    /// Reads the tables of one file, in which TOML allows each name once.
    fn read(&mut self, file: usize, text: &str, problems: &mut Problems<'_>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = Span { file, bytes: error.span().unwrap_or(0..0) };
            problems.add(&span, format!("not TOML: {}", error.message()), None);
        }
        if !errors.is_empty() {
            return;
        }
        for (key, value) in root.into_inner() {
            let span = Span { file, bytes: key.span() };
            let name: &str = key.get_ref();
            let place = match name {
                "rule" => TableKind::Rule,
                "fix" => TableKind::Fix,
                "ignore" => TableKind::Ignore,
                "policy" => {
                    let (value, sound) =
                        schema_check::check(value, TableKind::Policy, file, problems);
                    let table = decode(value, sound, &span, problems);
                    self.policies.extend(table.map(|table| (file, table)));
                    continue;
                }
                "prediction" => {
                    let (value, sound) =
                        schema_check::check(value, TableKind::Prediction, file, problems);
                    self.predictions
                        .extend(decode::<PredictionTable>(value, sound, &span, problems));
                    continue;
                }
                "include" => {
                    let paths = Vec::<Spanned<String>>::deserialize(ValueDeserializer::from(value));
                    if let Ok(paths) = paths {
                        self.includes.extend(
                            paths
                                .into_iter()
                                .map(|path| (Span { file, bytes: path.span() }, path.into_inner())),
                        );
                    } else {
                        let help = "for example `include = [\"kernels.toml\"]`".to_owned();
                        problems.add(&span, "`include` is a list of paths", Some(help));
                    }
                    continue;
                }
                other => {
                    let tables = ["include", "rule", "fix", "ignore", "policy", "prediction"];
                    let help = did_you_mean(other, tables).unwrap_or_else(|| {
                        "a file has `include`, `[policy]`, `[prediction]`, `[rule.<name>]`, `[fix.<name>]` and `[ignore.<name>]`"
                            .to_owned()
                    });
                    problems.add(&span, format!("unknown key `{other}`"), Some(help));
                    continue;
                }
            };
            let DeValue::Table(tables) = value.into_inner() else {
                problems.add(&span, format!("`{name}` must be a table: `[{name}.<name>]`"), None);
                continue;
            };
            for (key, value) in tables {
                let span = Span { file, bytes: key.span() };
                let name = key.into_inner().into_owned();
                let (value, sound) = schema_check::check(value, place, file, problems);
                match place {
                    TableKind::Rule => self.rule(name, span, value, sound, problems),
                    TableKind::Fix => {
                        let table: Option<FixTable> = decode(value, sound, &span, problems);
                        let layers = table.map(|table| (file, table)).into_iter().collect();
                        self.fixes.insert(name, MergedFix { span, layers });
                    }
                    TableKind::Ignore if sound => {
                        if let Some(table) = decode(value, sound, &span, problems) {
                            self.ignores.push((span, name, table));
                        }
                    }
                    TableKind::Ignore | TableKind::Policy | TableKind::Prediction => {
                        self.malformed_ignores.push((span, name));
                    }
                }
            }
        }
        // Tables come in the order of their names or of the file, depending on a feature of `toml`.
        self.ignores.sort_by_key(|(span, _, _)| (span.file, span.bytes.start));
    }

    fn rule(
        &mut self,
        name: String,
        span: Span,
        value: Spanned<DeValue<'_>>,
        sound: bool,
        problems: &mut Problems<'_>,
    ) {
        let kebab = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !kebab || name.starts_with('-') || name.ends_with('-') || name.is_empty() {
            let help = "lower-case words joined by `-`: `dataloader-wait`".to_owned();
            problems.add(&span, format!("`{name}` is not a rule name"), Some(help));
        }
        let table: Option<RuleTable> = decode(value, sound, &span, problems);
        if !sound || table.is_none() {
            self.malformed.insert(name.clone());
        }
        if let Some(table) = table {
            let layers = vec![(span.file, table)];
            self.rules.insert(name.clone(), MergedRule { name, span, layers });
        }
    }
}

/// Decodes a table. `sound`: the schema check found no mistakes; otherwise they have been reported already.
fn decode<'de, T: Deserialize<'de>>(
    value: Spanned<DeValue<'de>>,
    sound: bool,
    at: &Span,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let table = T::deserialize(ValueDeserializer::from(value));
    if let (Err(error), true) = (&table, sound) {
        let bytes = error.span().unwrap_or_else(|| at.bytes.clone());
        problems.add(&Span { file: at.file, bytes }, error.message().to_owned(), None);
    }
    table.ok()
}
