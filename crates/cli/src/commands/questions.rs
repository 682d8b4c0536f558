//! `advisor analyze --list`: the analyses by the question that each answers.

use std::io::{self, Write};

use trace_advisor::analyses::{START_HERE, TOPICS, Topic, catalog};
use trace_advisor::query::ViewDef;

use crate::console::{Console, Terminal};
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::render::layout::Layout;

/// A question is not wrapped to fewer characters: it goes below the name of its analysis instead.
const MIN_QUESTION: usize = 40;

/// Prints all analyses by topic after a few to start from, or those that mention a word.
pub(super) fn list(word: &str, console: &mut Console) -> anyhow::Result<Exit> {
    let terminal = console.out_terminal;
    let out = &mut console.out;
    if word.is_empty() {
        print_start(terminal, out)?;
        print(&topics(|_| true), terminal, out)?;
        return end(out);
    }
    let found = topics_and_blocks(|view| mentions(view, word));
    if found.is_empty() {
        return Err(with_help(
            format!("no analysis mentions `{word}`"),
            "`advisor analyze --list` lists all analyses, `advisor tables` tables and views",
        ));
    }
    print(&found, terminal, out)?;
    end(out)
}

/// Prints the views to read first, with their questions.
pub(super) fn print_start(terminal: Option<Terminal>, out: &mut dyn Write) -> io::Result<()> {
    let start = START_HERE.iter().filter_map(|name| catalog().find(name)).collect();
    print(&[("Start here".to_owned(), start)], terminal, out)?;
    writeln!(out)
}

fn end(out: &mut dyn Write) -> anyhow::Result<Exit> {
    writeln!(
        out,
        "\n`advisor analyze NAME PATH` answers a question, `advisor analyze PATH` gives an overview,\n\
         `advisor analyze --list WORD` searches, `advisor tables NAME` describes columns and parameters."
    )?;
    Ok(Exit::Clean)
}

/// The views of each topic that `is_wanted` keeps; topics without any are left out.
fn topics(is_wanted: impl Fn(&ViewDef) -> bool) -> Vec<(String, Vec<&'static ViewDef>)> {
    let title = |topic: &Topic| match topic.formerly {
        Some(page) => format!("{}  (TensorBoard: {page})", topic.title),
        None => topic.title.to_owned(),
    };
    let wanted = |topic: &Topic| {
        let views = topic.views(catalog());
        (title(topic), views.into_iter().filter(|view| is_wanted(view)).collect::<Vec<_>>())
    };
    TOPICS.iter().map(wanted).filter(|(_, views)| !views.is_empty()).collect()
}

/// The same, and last those that belong to no topic.
pub(super) fn topics_and_blocks(
    is_wanted: impl Fn(&ViewDef) -> bool,
) -> Vec<(String, Vec<&'static ViewDef>)> {
    let blocks = catalog().views().iter().filter(|view| Topic::of(view).is_none());
    let blocks: Vec<&ViewDef> = blocks.filter(|view| is_wanted(view)).collect();
    let mut found = topics(is_wanted);
    if !blocks.is_empty() {
        found.push(("Building blocks of other views".to_owned(), blocks));
    }
    found
}

/// Whether a view mentions a word: in its name, its question or its columns.
fn mentions(view: &ViewDef, word: &str) -> bool {
    let word = word.to_lowercase();
    let columns = view.columns.iter().flat_map(|column| [&column.name, &column.doc]);
    let texts = [&view.name, &view.question, &view.row].into_iter().chain(columns);
    texts.into_iter().any(|text| text.to_lowercase().contains(&word))
}

/// The views outside `base` that have a word in their name, those that end with it first.
pub(super) fn views_about(word: &str) -> impl Iterator<Item = &'static ViewDef> {
    let word = word.to_lowercase();
    let stem = word.strip_suffix('s').filter(|stem| !stem.is_empty()).unwrap_or(&word).to_owned();
    let is_about = move |view: &&ViewDef| Topic::of(view).is_some() && view.name.contains(&stem);
    let mut views: Vec<&ViewDef> = catalog().views().iter().filter(is_about).collect();
    let place = |view: &ViewDef| {
        let starts = START_HERE.iter().position(|&name| name == view.name);
        (starts.unwrap_or(usize::MAX), !view.name.ends_with(&word), view.name.clone())
    };
    views.sort_by_key(|view| place(view));
    views.into_iter()
}

fn print(
    topics: &[(String, Vec<&ViewDef>)],
    terminal: Option<Terminal>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = topics.iter().flat_map(|(_, views)| views.iter().map(|view| view.name.len()));
    let width = names.max().unwrap_or(0);
    for (i, (title, views)) in topics.iter().enumerate() {
        writeln!(out, "{}{title}", if i > 0 { "\n" } else { "" })?;
        for view in views {
            let (name, question) = (&view.name, view.question.as_str());
            let layout = Layout::from(terminal);
            match terminal {
                None => writeln!(out, "  {name:width$}  {question}")?,
                Some(terminal) if terminal.columns >= width + 4 + MIN_QUESTION => {
                    for (i, line) in layout.wrapped(question, width + 4).iter().enumerate() {
                        let name = if i == 0 { name.as_str() } else { "" };
                        writeln!(out, "  {name:width$}  {line}")?;
                    }
                }
                Some(_) => {
                    writeln!(out, "  {name}")?;
                    for line in layout.wrapped(question, 6) {
                        writeln!(out, "      {line}")?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trace_advisor::analyses::catalog;

    use super::{print, views_about};
    use crate::console::Terminal;

    #[test]
    fn questions_fit_the_terminal() {
        let topics = || {
            let names = ["gpu_kernels", "comm_sizes"];
            vec![(
                "Start here".to_owned(),
                names.iter().filter_map(|n| catalog().find(n)).collect(),
            )]
        };
        for columns in [40, 100, 200] {
            let mut out = Vec::new();
            print(&topics(), Some(Terminal { columns, has_unicode: false }), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.len() <= columns), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains("Which kernels take the most time?"), "{text}");
        }
    }

    #[test]
    fn views_about_a_table_begin_with_the_one_to_start_with() {
        let names: Vec<&str> = views_about("kernels").map(|view| view.name.as_str()).collect();
        assert_eq!(names[0], "gpu_kernels", "{names:?}");
        assert!(names.contains(&"kernel_launchers"), "{names:?}");
        assert_eq!(views_about("nonsense").count(), 0);
    }
}
