//! Options of all commands.

use clap::builder::FalseyValueParser;
use clap::{Args as ClapArgs, ValueEnum};

use super::headings::LOGGING;

/// Options of all commands.
#[derive(Debug, Clone, Copy, Default, ClapArgs)]
pub(crate) struct GlobalArgs {
    /// When to color text
    ///
    /// By default, colors follow the terminal and the variables `NO_COLOR` and `CLICOLOR_FORCE`.
    #[arg(
        long, value_enum, value_name = "WHEN", default_value_t, global = true, hide_short_help = true,
        help_heading = LOGGING
    )]
    pub(crate) color: ColorWhen,
    /// Print no warnings, notes and progress to stderr; errors are printed
    #[arg(long, short, global = true, help_heading = LOGGING)]
    pub(crate) quiet: bool,
    /// Show no progress
    #[arg(
        long, global = true, env = "ADVISOR_NO_PROGRESS", hide_env_values = true, hide_short_help = true,
        value_parser = FalseyValueParser::new(), help_heading = LOGGING
    )]
    pub(crate) no_progress: bool,
}

/// When to color text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On terminals
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl From<ColorWhen> for anstream::ColorChoice {
    fn from(when: ColorWhen) -> Self {
        match when {
            ColorWhen::Auto => Self::Auto,
            ColorWhen::Always => Self::Always,
            ColorWhen::Never => Self::Never,
        }
    }
}
