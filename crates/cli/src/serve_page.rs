//! Serves the page of a report on the loopback interface, under a path that cannot be guessed, with its version and answers
//! to its queries. The page asks for the version, and loads again when it changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use trace_advisor::Run;
use trace_advisor::query::Cancellation;

use crate::serve::{REQUEST_TIMEOUT, has_local_host};

/// The address of the version, relative to the page.
pub(crate) const VERSION: &str = "version";
/// The address that answers queries, relative to the page.
pub(crate) const QUERIES: &str = "sql";

/// Bytes of a query.
const MAX_QUERY_BYTES: usize = 64 << 10;
/// The type of a query. Pages of other sites may send it only if this server allowed it, which it never does.
const QUERY_TYPE: &str = "application/sql";
/// Time that a query waits for the one before it, which may just have been canceled.
const PATIENCE: Duration = Duration::from_secs(2);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

type Answer = Response<Full<Bytes>>;

/// Answers a query of the page, as JSON.
type AnswerQuery = fn(&Run, &Cancellation, &str) -> String;

/// A page that may change while it is served, and the run that it is of.
#[derive(Debug)]
pub(crate) struct LivePage {
    /// Path of the page, `/token/report`.
    pub(crate) path: String,
    /// Path of its version, in the same folder.
    version_path: String,
    /// Path that answers queries, in the same folder.
    query_path: String,
    answer_query: AnswerQuery,
    now: Mutex<Shown>,
    /// One query runs at a time: each may use all cores, and the memory that queries have.
    turns: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Shown {
    version: u64,
    html: Bytes,
    run: Arc<Run>,
}

impl LivePage {
    /// A page in its first version.
    pub(crate) fn new(folder: &str, answer_query: AnswerQuery, run: Run, html: String) -> Self {
        Self {
            path: format!("/{folder}/report"),
            version_path: format!("/{folder}/{VERSION}"),
            query_path: format!("/{folder}/{QUERIES}"),
            answer_query,
            now: Mutex::new(Shown { version: 0, html: html.into(), run: Arc::new(run) }),
            turns: Arc::new(Semaphore::new(1)),
        }
    }

    /// Replaces the page and its run.
    pub(crate) fn set(&self, run: Run, html: String) {
        let mut now = self.now();
        let version = now.version + 1;
        let before =
            std::mem::replace(&mut *now, Shown { version, html: html.into(), run: Arc::new(run) });
        drop(now);
        // Freeing a run takes a while, in which requests are answered.
        drop(before);
    }

    fn now(&self) -> MutexGuard<'_, Shown> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        if !has_local_host(&request) {
            return of_status(StatusCode::NOT_FOUND, "");
        }
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let is_query = request.method() == Method::POST && request.uri().query().is_none();
        match request.uri().path() {
            path if is_read && path == self.path => of_kind(HTML, self.now().html.clone()),
            path if is_read && path == self.version_path => {
                of_kind(TEXT, self.now().version.to_string().into())
            }
            path if is_query && path == self.query_path => match self.query(request).await {
                Ok(json) => of_kind(JSON, json.into()),
                Err((status, reason)) => of_status(status, reason),
            },
            _ => of_status(StatusCode::NOT_FOUND, ""),
        }
    }

    /// Answers a query, or says why it does not.
    async fn query(
        &self,
        request: Request<Incoming>,
    ) -> Result<String, (StatusCode, &'static str)> {
        if !is_from_own_page(&request) {
            return Err((StatusCode::FORBIDDEN, "only the page of this server may ask"));
        }
        if !has_query_type(&request) {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "a query is application/sql"));
        }
        let query = read_query(request).await?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let reason = "another query runs: run this one again when it has ended";
            return Err((StatusCode::TOO_MANY_REQUESTS, reason));
        };
        // On a thread of its own. When the client goes away, this future is dropped, and the query ends.
        let asked = CancelOnDrop(Cancellation::new());
        let cancellation = asked.0.clone();
        let (run, answer_query) = (Arc::clone(&self.now().run), self.answer_query);
        let answered = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            answer_query(&run, &cancellation, &query)
        });
        answered.await.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the query stopped"))
    }
}

/// Cancels a query when its client is gone.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Reads the text of a query.
async fn read_query(request: Request<Incoming>) -> Result<String, (StatusCode, &'static str)> {
    let body = Limited::new(request.into_body(), MAX_QUERY_BYTES).collect();
    let Ok(body) = timeout(REQUEST_TIMEOUT, body).await else {
        return Err((StatusCode::REQUEST_TIMEOUT, "the query did not arrive"));
    };
    let Ok(body) = body else {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a query has at most 64 KiB"));
    };
    String::from_utf8(body.to_bytes().into())
        .map_err(|_| (StatusCode::BAD_REQUEST, "a query is text in UTF-8"))
}

/// Whether a request is from a page of this server: its origin is the host that it names. Browsers say both, and no page
/// can say otherwise. A tunnel (`ssh -L`) may have another port than the server, so the port is not compared with ours.
fn is_from_own_page(request: &Request<Incoming>) -> bool {
    let (origin, host) = (only_value(request, &header::ORIGIN), only_value(request, &header::HOST));
    let of_origin = origin.and_then(|origin| origin.strip_prefix("http://"));
    of_origin.is_some() && of_origin == host
}

fn has_query_type(request: &Request<Incoming>) -> bool {
    let kind = only_value(request, &header::CONTENT_TYPE).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(QUERY_TYPE))
}

/// The value of a header that a request has once.
fn only_value<'r>(request: &'r Request<Incoming>, name: &HeaderName) -> Option<&'r str> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// An answer without what was asked for.
fn of_status(status: StatusCode, reason: &'static str) -> Answer {
    let mut answer = of_kind(TEXT, Bytes::from_static(reason.as_bytes()));
    *answer.status_mut() = status;
    answer
}

fn of_kind(kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
