//! Texts of rules: templates that may depend on conditions.

use std::collections::BTreeSet;

use minijinja::Environment;
use serde::{Deserialize, Serialize};

use crate::language::expr::{self, Context, Formula};
use crate::language::template_syntax::Mistake;

/// A text of a rule: parts that are rendered one by one and joined by spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// At least one part.
    pub parts: Vec<TextPart>,
}

/// A part of a text, with a condition or without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPart {
    /// Expression over the columns of the row; `None` if the part always applies. A condition on a column
    /// without a value does not hold.
    pub when: Option<String>,
    /// The content.
    pub body: TextBody,
}

/// The content of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextBody {
    /// A template.
    Template(String),
    /// Alternatives: the first one that applies is rendered.
    FirstOf(Vec<TextPart>),
}

impl Text {
    /// Renders all parts for a row.
    pub(crate) fn render(
        &self,
        env: &Environment<'_>,
        context: &Context,
    ) -> Result<String, String> {
        let parts: Vec<String> =
            self.parts.iter().map(|part| part.render(env, context)).collect::<Result<_, _>>()?;
        Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
    }

    /// Renders the text; if that fails, returns the templates with the error.
    pub(crate) fn render_or_source(&self, env: &Environment<'_>, context: &Context) -> String {
        self.render(env, context).unwrap_or_else(|error| format!("{} [{error}]", self.source()))
    }

    /// The columns that the text reads, sorted.
    pub(crate) fn reads(&self, env: &Environment<'_>) -> Vec<String> {
        let names: BTreeSet<String> =
            self.parts.iter().flat_map(|part| part.reads(env).unwrap_or_default()).collect();
        names.into_iter().collect()
    }

    /// All templates, including alternatives.
    pub(crate) fn source(&self) -> String {
        self.parts.iter().map(TextPart::source).collect::<Vec<_>>().join(" ")
    }
}

impl TextPart {
    /// A part that always applies.
    pub(crate) fn template(text: &str) -> Self {
        Self { when: None, body: TextBody::Template(join_lines(text)) }
    }

    /// Renders the part for a row; empty if it does not apply.
    pub(crate) fn render(
        &self,
        env: &Environment<'_>,
        context: &Context,
    ) -> Result<String, String> {
        if !self.applies(env, context)? {
            return Ok(String::new());
        }
        match &self.body {
            TextBody::Template(text) => expr::render(env, text, context),
            TextBody::FirstOf(parts) => {
                for part in parts {
                    if part.applies(env, context)? {
                        return part.render(env, context);
                    }
                }
                Ok(String::new())
            }
        }
    }

    fn applies(&self, env: &Environment<'_>, context: &Context) -> Result<bool, String> {
        let Some(when) = &self.when else { return Ok(true) };
        let formula = Formula::new(env, when).map_err(|mistake| mistake.message)?;
        Ok(formula.truth(context) == Ok(true))
    }

    /// Renders the part; if that fails, returns the templates with the error.
    pub(crate) fn render_or_source(&self, env: &Environment<'_>, context: &Context) -> String {
        self.render(env, context).unwrap_or_else(|error| format!("{} [{error}]", self.source()))
    }

    /// The columns that the part reads, sorted.
    fn reads(&self, env: &Environment<'_>) -> Result<BTreeSet<String>, Mistake> {
        let mut names = BTreeSet::new();
        if let Some(when) = &self.when {
            names.extend(Formula::new(env, when)?.reads().iter().cloned());
        }
        match &self.body {
            TextBody::Template(text) => names.extend(expr::template_reads(env, text)?),
            TextBody::FirstOf(parts) => {
                for part in parts {
                    names.extend(part.reads(env)?);
                }
            }
        }
        Ok(names)
    }

    /// All templates of the part; alternatives are separated by slashes.
    pub(crate) fn source(&self) -> String {
        match &self.body {
            TextBody::Template(text) => text.clone(),
            TextBody::FirstOf(parts) => {
                parts.iter().map(Self::source).collect::<Vec<_>>().join(" / ")
            }
        }
    }
}

/// Joins the lines of a template: a line break in a rule file is a space in the text.
pub(crate) fn join_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Text, TextBody, TextPart, join_lines};
    use crate::language::expr::{Context, environment};

    fn part(when: &str, text: &str) -> TextPart {
        let when = (!when.is_empty()).then(|| when.to_owned());
        TextPart { when, ..TextPart::template(text) }
    }

    #[test]
    fn text_renders_the_parts_that_apply() {
        let first_of = vec![
            part("absent > 5", "Absent."),
            part("n > 5", "Many."),
            part("n > 1", "Some."),
            part("", "One."),
        ];
        let text = Text {
            parts: vec![
                part("", "{{ n|plural('hole') }}."),
                TextPart { when: None, body: TextBody::FirstOf(first_of) },
                part("absent > 5", "Absent."),
                part("absent is none", "No value."),
            ],
        };
        let env = environment();
        for (n, expected) in [
            (6, "6 holes. Many. No value."),
            (2, "2 holes. Some. No value."),
            (1, "1 hole. One. No value."),
        ] {
            let row = [("n".to_owned(), n.into()), ("absent".to_owned(), ().into())];
            assert_eq!(text.render(&env, &Context::from(row)).unwrap(), expected);
        }
        assert_eq!(text.reads(&env), ["absent", "n"]);
        assert_eq!(text.parts[1].source(), "Absent. / Many. / Some. / One.");
    }

    #[test]
    fn join_lines_makes_one_paragraph() {
        assert_eq!(join_lines("\n  One\n  two,\n\nthree.\n"), "One two, three.");
        assert_eq!(join_lines("One."), "One.");
    }
}
