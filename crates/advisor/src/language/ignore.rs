//! Ignored rules: a reason is required, an expiry date is optional, and entries without effect are reported.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A calendar day. The caller hands in today's: this crate has no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// `2027-01-31`; `None` if the day does not exist.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
            return None;
        }
        if !text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return None;
        }
        let (year, month, day): (u16, u8, u8) =
            (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=days).contains(&day).then_some(Self { year, month, day })
    }

    /// The day that `seconds` after 1970-01-01T00:00:00Z falls on, in UTC.
    pub fn from_unix(seconds: u64) -> Self {
        // Years start in March here, so that the leap day comes last (H. Hinnant's algorithm).
        let days = seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u8;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u8;
        let year = (year_of_era + era * 400 + u64::from(month <= 2)) as u16;
        Self { year, month, day }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
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
        for text in
            ["2026-02-29", "1900-02-29", "2026-13-01", "2026-00-10", "26-01-01", "soon", "2026-1-1"]
        {
            assert_eq!(Date::parse(text), None, "{text}");
        }
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
