//! The thread that all input and output runs on. Each test of `#[tokio::test]` has a runtime of its
//! own that ends with it; connections that several tests share must outlive it. It also makes the
//! functions of this crate independent of the caller's runtime, and lets `Drop` wait for a reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// The node closes a connection that is idle for two minutes.
const IDLE: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request for very many blocks takes minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The state of a fork with all accounts is large.
const MAX_REPLY: usize = 512 << 20;

struct Io {
    handle: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
}

fn io() -> &'static Io {
    static IO: OnceLock<Io> = OnceLock::new();
    IO.get_or_init(|| {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("start a tokio runtime");
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("troupe-sandbox".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .expect("start a thread");
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Io { handle, client }
    })
}

/// A future that runs on the thread. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinHandle<T>);

pub(crate) fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task(io().handle.spawn(future))
}

/// Runs a function that blocks, on a thread for such.
pub(crate) fn run_blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    Task(io().handle.spawn_blocking(f))
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|r| match r {
            Ok(value) => value,
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => unreachable!("the runtime never ends, and only drop cancels a task"),
            },
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for a future on this thread, which must not be that of `io`, at most for some time.
pub(crate) fn wait<T: Send + 'static>(
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    io().handle.spawn(async move {
        // the receiver has gone if it took too long
        let _ = sender.send(future.await);
    });
    receiver.recv_timeout(limit).ok()
}

/// Sends a body, and returns the status and body of the reply. Call it on the thread.
pub(crate) async fn post(url: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), String> {
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body))
        .map_err(|e| format!("{e}"))?;
    let reply = async {
        let response = io().client.request(request).await.map_err(|e| causes(&e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_REPLY).collect().await;
        Ok((status, body.map_err(|e| causes(&*e))?.to_bytes()))
    };
    tokio::time::timeout(REQUEST_TIMEOUT, reply)
        .await
        .unwrap_or_else(|_| Err(format!("no reply within {} s", REQUEST_TIMEOUT.as_secs())))
}

/// Returns an error with all that caused it.
pub(crate) fn causes(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut next = err.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}
