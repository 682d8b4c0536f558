//! Converts errors of stores to messages without secrets.

use std::error::Error as _;

use object_store::client::{HttpError, HttpErrorKind};

use crate::error::{StoreError, StoreProblem};

/// Longest part of a store's own message that is shown, in characters.
const MAX_WORDS: usize = 300;

const NOT_FOUND: &str = "there is no such bucket or object";
const FORBIDDEN: &str = "the store does not let us read it";

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        let said = HttpErrorBody::by(&error);
        let told = |words: &str| match &said.words {
            Some(more) => format!("{words} ({more})"),
            None => words.to_owned(),
        };
        match &error {
            _ if said.is_about_credentials() => Self::new(
                StoreProblem::Forbidden,
                "no credentials in the environment, and the machine gives none either",
            ),
            _ if said.has("Account must be specified") => Self::new(
                StoreProblem::Forbidden,
                "no account is named, neither in the address nor in the environment",
            ),
            E::NotFound { .. } => Self::new(StoreProblem::NotFound, told(NOT_FOUND)),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Self::new(StoreProblem::Forbidden, told(FORBIDDEN))
            }
            E::Precondition { .. } | E::NotModified { .. } => Self::changed(),
            _ if said.has("non-partial response") || matches!(error, E::NotSupported { .. }) => {
                Self::new(StoreProblem::Unsupported, "the server does not give ranges")
            }
            E::InvalidPath { source } => {
                Self::new(StoreProblem::Unsupported, format!("not a name of an object: {source}"))
            }
            _ => said.problem(),
        }
    }
}

/// The messages of an error and its causes, and the HTTP response in them.
struct HttpErrorBody {
    chain: Vec<String>,
    http: Option<HttpErrorKind>,
    /// HTTP status, `503 Service Unavailable`.
    status: Option<String>,
    /// Code and message of the store.
    words: Option<String>,
}

impl HttpErrorBody {
    fn by(error: &object_store::Error) -> Self {
        let mut chain = vec![error.to_string()];
        let mut http = None;
        let mut cause = error.source();
        while let Some(error) = cause {
            http = http.or_else(|| error.downcast_ref::<HttpError>().map(HttpError::kind));
            chain.push(error.to_string());
            cause = error.source();
        }
        let status = chain.iter().find_map(|text| text.split_once("status code: "));
        let (status, body) = match status {
            // `503 Service Unavailable: body`
            Some((_, rest)) => match rest.split_once(": ") {
                Some((status, body)) => (Some(status.trim().to_owned()), body),
                None => (Some(rest.trim().trim_end_matches(':').to_owned()), ""),
            },
            None => (None, ""),
        };
        let words = words(body);
        Self { chain, http, status, words }
    }

    fn has(&self, needle: &str) -> bool {
        self.chain.iter().any(|text| text.contains(needle))
    }

    fn is_about_credentials(&self) -> bool {
        self.has("169.254.169.254") || self.has("metadata.google.internal")
    }

    fn problem(&self) -> StoreError {
        let deepest = || redact(self.chain.last().map_or("", String::as_str));
        if let Some(status) = &self.status {
            let more = self.words.as_ref().map(|w| format!(" ({w})")).unwrap_or_default();
            let said = format!("the server says {status}");
            let (problem, said) = match status.split(' ').next().and_then(|n| n.parse::<u16>().ok())
            {
                Some(401 | 403) => (StoreProblem::Forbidden, FORBIDDEN.to_owned()),
                Some(404 | 410) => (StoreProblem::NotFound, NOT_FOUND.to_owned()),
                Some(429 | 500..) => (StoreProblem::Unreachable, said),
                _ => (StoreProblem::Unsupported, said),
            };
            return StoreError::new(problem, format!("{said}{more}"));
        }
        if self.has("URL scheme is not allowed") {
            let message = "plain http is not allowed (AWS_ALLOW_HTTP=true or AZURE_ALLOW_HTTP=true allows it)";
            return StoreError::new(StoreProblem::Unsupported, message);
        }
        if self.has("redirect without LOCATION") {
            let message = "the bucket is in another region: set AWS_REGION";
            return StoreError::new(StoreProblem::Unsupported, message);
        }
        match self.http {
            Some(HttpErrorKind::Timeout) => {
                StoreError::new(StoreProblem::TimedOut, "the server did not answer in time")
            }
            Some(HttpErrorKind::Connect) => {
                let message = format!("cannot connect: {}", deepest());
                StoreError::new(StoreProblem::Unreachable, message)
            }
            Some(_) => {
                let message = format!("the connection broke: {}", deepest());
                StoreError::new(StoreProblem::Unreachable, message)
            }
            None => StoreError::new(StoreProblem::Other, deepest()),
        }
    }
}

/// Code and message of an error document (XML or JSON). The rest of it may contain signatures.
fn words(body: &str) -> Option<String> {
    let xml = |tag: &str| {
        let (_, rest) = body.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.lines().next()?.trim().to_owned())
    };
    let message = xml("Message");
    let json = || {
        let value: serde_json::Value = serde_json::from_str(body).ok()?;
        Some(value.pointer("/error/message")?.as_str()?.to_owned())
    };
    let words = match (xml("Code"), message) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code,
        _ => json()?,
    };
    (!words.is_empty()).then(|| redact(&words))
}

/// A message of a store, shortened, and without queries of addresses, which may be signatures.
fn redact(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        match (word.find("://"), word.find('?')) {
            (Some(_), Some(at)) => {
                let end = word.trim_end().len();
                format!("{}{}", &word[..at], &word[end..])
            }
            _ => word.to_owned(),
        }
    });
    let text: String = words.collect();
    match text.char_indices().nth(MAX_WORDS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_stores_are_short_and_without_secrets() {
        let body = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>No match.\nmore</Message>\
                    <StringToSign>secret</StringToSign></Error>";
        assert_eq!(words(body).unwrap(), "SignatureDoesNotMatch: No match.");
        assert_eq!(words("{\"error\": {\"code\": 404, \"message\": \"gone\"}}").unwrap(), "gone");
        assert_eq!(words("<html>secret</html>"), None);
        assert_eq!(redact("GET https://h/p?sig=1 failed"), "GET https://h/p failed");
        assert_eq!(redact(&"x".repeat(400)).len(), 303);
    }
}
