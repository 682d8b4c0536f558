//! Ignored rules: a reason is required, an expiry date is optional, and entries without effect are reported.

use std::fmt;

use chrono::{DateTime, NaiveDate};
use serde::{Deserialize, Serialize};

/// A calendar day. The caller hands in today's: this crate has no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Date(NaiveDate);

impl Date {
    /// `2027-01-31`; `None` if the day does not exist.
    pub fn parse(text: &str) -> Option<Self> {
        let date = Self(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?);
        // chrono accepts other forms of the same day, such as `2027-1-31`.
        (date.to_string() == text).then_some(date)
    }

    /// The day that `seconds` after 1970-01-01T00:00:00Z falls on, in UTC; the last day that there is if it is later.
    pub fn from_unix(seconds: u64) -> Self {
        let time = i64::try_from(seconds).ok().and_then(|s| DateTime::from_timestamp(s, 0));
        Self(time.map_or(NaiveDate::MAX, |time| time.date_naive()))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a date"))
    }
}

/// An entry that ignores rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignore {
    /// As written: a code, a prefix of codes, a name or a category.
    pub selector: String,
    /// Codes of the rules that it matches.
    pub codes: Vec<String>,
    /// Reason.
    pub reason: String,
    /// Last day on which it holds; no end if `None`.
    pub until: Option<Date>,
    /// `file:line` of the entry.
    pub at: String,
}

impl Ignore {
    /// Whether it matches the rule with this code.
    pub fn matches(&self, code: &str) -> bool {
        self.codes.iter().any(|c| c == code)
    }

    /// The rules that it matches, for messages: the code if it is one rule.
    pub(crate) fn label(&self) -> &str {
        match self.codes.as_slice() {
            [code] => code,
            _ => &self.selector,
        }
    }

    /// Whether it has ended before `today`.
    pub fn is_expired(&self, today: Option<Date>) -> bool {
        matches!((self.until, today), (Some(until), Some(today)) if until < today)
    }
}

#[cfg(test)]
mod tests {
    use super::{Date, Ignore};

    #[test]
    fn date_parses_only_days_that_exist() {
        for day in ["2026-11-21", "2024-02-29", "2000-02-29"] {
            assert_eq!(Date::parse(day).unwrap().to_string(), day);
        }
        for text in [
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-10",
            "26-01-01",
            "soon",
            "2026-1-1",
            "12026-01-01",
            "+2026-01-01",
            " 2026-01-01",
            "2026-01-01 ",
            "2026-01-01-01",
            "",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn date_is_stored_as_its_text() {
        let day = Date::parse("2027-01-31").unwrap();
        let text = serde_json::to_string(&day).unwrap();
        assert_eq!(text, "\"2027-01-31\"");
        assert_eq!(serde_json::from_str::<Date>(&text).unwrap(), day);
        assert!(serde_json::from_str::<Date>("\"2027-1-31\"").is_err());
    }

    #[test]
    fn date_from_unix_is_the_utc_day() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_798_761_599, "2026-12-31"),
            (1_798_761_600, "2027-01-01"),
        ] {
            assert_eq!(Date::from_unix(seconds).to_string(), day);
        }
        assert!(Date::from_unix(u64::MAX) > Date::from_unix(1_798_761_600));
    }

    #[test]
    fn ignore_is_active_through_its_last_day() {
        let ignore = Ignore {
            selector: "IN".to_owned(),
            codes: vec!["IN001".to_owned()],
            reason: "known".to_owned(),
            until: Date::parse("2027-01-01"),
            at: "rules.toml:1".to_owned(),
        };
        assert!(!ignore.is_expired(Date::parse("2027-01-01")));
        assert!(ignore.is_expired(Date::parse("2027-01-02")));
        assert!(!ignore.is_expired(None));
        assert!(ignore.matches("IN001") && !ignore.matches("IN002"));
    }
}
