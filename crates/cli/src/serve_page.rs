//! Serves the page of a report on the loopback interface, under a path that cannot be guessed, and its version: the page
//! asks for that, and loads again when it changes.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::serve::has_local_host;

/// A page that may change while it is served.
#[derive(Debug)]
pub(crate) struct LivePage {
    /// Path of the page, `/token/report`.
    pub(crate) path: String,
    /// Path of its version, in the same folder.
    pub(crate) version_path: String,
    now: Mutex<(u64, Bytes)>,
}

impl LivePage {
    /// A page in its first version.
    pub(crate) fn new(folder: &str, html: String) -> Self {
        Self {
            path: format!("/{folder}/report"),
            version_path: format!("/{folder}/version"),
            now: Mutex::new((0, html.into())),
        }
    }

    /// Replaces the page.
    pub(crate) fn set(&self, html: String) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (now.0 + 1, html.into());
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (version, html) = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let is_allowed = is_read && has_local_host(request);
        let (kind, body) = match request.uri().path() {
            path if is_allowed && path == self.path => ("text/html; charset=utf-8", html),
            path if is_allowed && path == self.version_path => {
                ("text/plain; charset=utf-8", version.to_string().into())
            }
            _ => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        let mut response = Response::new(Full::new(body));
        let headers = response.headers_mut();
        let fixed = [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
