//! Serves one file to one web page: on the loopback interface, under a path that cannot be guessed.

use std::convert::Infallible;
use std::future::ready;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// Bytes sent at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead of the client.
const CHUNKS_AHEAD: usize = 4;
/// Time that a client may take to send the headers of a request, or its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a reader of the whole file; called once per request.
type Open = dyn Fn() -> anyhow::Result<Box<dyn Read + Send>> + Send + Sync;

/// The file to serve, and the site that may read it.
pub(crate) struct Served {
    /// Path, `/token/name`.
    pub(crate) path: String,
    /// The only site whose pages may read it.
    pub(crate) origin: String,
    /// Length of the file.
    pub(crate) bytes: u64,
    pub(crate) open: Box<Open>,
}

/// A server that listens but does not answer yet.
#[derive(Debug)]
pub(crate) struct Server {
    runtime: Runtime,
    listener: TcpListener,
}

impl Server {
    /// Listens on a port of the loopback interface, which other machines cannot reach.
    pub(crate) fn bind(port: u16) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = runtime.block_on(TcpListener::bind(address))?;
        Ok(Self { runtime, listener })
    }

    /// The port, also if the system chose it (port 0).
    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Answers requests until the file has been downloaded once; with `keep`, forever.
    pub(crate) fn run(self, served: Served, keep: bool) {
        let Self { runtime, listener } = self;
        let served = Arc::new(served);
        runtime.block_on(async move {
            let (done, mut fetched) = mpsc::channel(1);
            tokio::spawn(accept(listener, move |stream| {
                serve(stream, served.clone(), keep, done.clone())
            }));
            fetched.recv().await;
        });
    }

    /// Answers requests forever. An answer that takes long must leave the thread to others.
    pub(crate) fn run_forever<A>(
        self,
        answer: impl Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    ) where
        A: Future<Output = Response<Full<Bytes>>> + Send,
    {
        let Self { runtime, listener } = self;
        let answer = Arc::new(answer);
        runtime.block_on(accept(listener, move |stream| {
            let answer = answer.clone();
            async move {
                // A client that goes away is none of our errors.
                let _ = converse(stream, |request| answer(request)).await;
            }
        }));
    }
}

/// Accepts connections forever, and handles each as a task of its own.
async fn accept<F>(listener: TcpListener, handle: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        // Errors here concern clients that are gone already.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Answers the requests of one connection.
async fn converse<A, B>(
    stream: TcpStream,
    answer: impl Fn(Request<Incoming>) -> A,
) -> hyper::Result<()>
where
    A: Future<Output = Response<B>>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// Serves one connection. Signals `done` once the whole file has been sent and the connection is closed.
async fn serve(stream: TcpStream, served: Arc<Served>, keep: bool, done: mpsc::Sender<()>) {
    let (sent, mut all_sent) = mpsc::channel(1);
    let result = converse(stream, |request| ready(answer(&request, &served, keep, &sent))).await;
    if result.is_ok() && !keep && all_sent.try_recv().is_ok() {
        // Another connection may have signaled already.
        let _ = done.try_send(());
    }
}

type Answer = Response<BoxBody<Bytes, io::Error>>;

fn answer(
    request: &Request<Incoming>,
    served: &Arc<Served>,
    keep: bool,
    sent: &mpsc::Sender<()>,
) -> Answer {
    let nothing = || Empty::new().map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(nothing());
    if !is_allowed(request, served) {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let headers = response.headers_mut();
    if let Ok(origin) = HeaderValue::from_str(&served.origin) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if request.method() == Method::OPTIONS {
        let methods = HeaderValue::from_static("GET, HEAD");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        // Browsers require this before a page from the internet may read from this machine.
        let yes = HeaderValue::from_static("true");
        headers.insert("access-control-allow-private-network", yes);
        *response.status_mut() = StatusCode::NO_CONTENT;
        return response;
    }
    let binary = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, binary);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(served.bytes));
    if request.method() == Method::GET {
        if !keep {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        *response.body_mut() = content(served, sent).boxed();
    }
    response
}

/// Whether a request asks for the file, with a host name of this machine, and not from a page of another site.
fn is_allowed(request: &Request<Incoming>, served: &Served) -> bool {
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method())
        && request.uri().path() == served.path
        && request.uri().query().is_none()
        && has_local_host(request)
        && header(header::ORIGIN).is_none_or(|origin| origin == served.origin.as_bytes())
}

/// Whether a request names this machine as its host. Other names are refused because of DNS rebinding: any page could
/// make its own name point to this machine.
pub(crate) fn has_local_host(request: &Request<Incoming>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) { name } else { host }
    });
    matches!(name, "127.0.0.1" | "localhost") && hosts.next().is_none()
}

/// The file, read on a separate thread.
fn content(served: &Arc<Served>, sent: &mpsc::Sender<()>) -> Content {
    let (send, receive) = mpsc::channel(CHUNKS_AHEAD);
    let source = served.clone();
    thread::spawn(move || {
        let result = (source.open)().map_err(io::Error::other).and_then(|mut reader| {
            let mut left = source.bytes;
            while left > 0 {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                let want = left.min(CHUNK_BYTES as u64);
                let got = reader.by_ref().take(want).read_to_end(&mut chunk)? as u64;
                if got == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                left -= got;
                if send.blocking_send(Ok(Bytes::from(chunk))).is_err() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = result {
            // The client sees a truncated response.
            let _ = send.blocking_send(Err(error));
        }
    });
    Content { receive, left: served.bytes, sent: sent.clone() }
}

/// A body of known length.
struct Content {
    receive: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    sent: mpsc::Sender<()>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = std::task::ready!(self.receive.poll_recv(context));
        if let Some(Ok(bytes)) = &chunk {
            self.left -= bytes.len() as u64;
            if self.left == 0 {
                let _ = self.sent.try_send(());
            }
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
