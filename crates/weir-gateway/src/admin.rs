//! The control listener: `/metrics`, `/status`, `/healthz`, the dashboard, `/cache/` to purge and to look, and `/reload` and
//! `/upstreams` to change the gateway. One thread of its own, so that asking for numbers never delays a request, and
//! never the other way round.
//!
//! - [`guard`]: who may ask
//! - [`app`]: the interface of guard, the circuit breaker
//! - [`change`]: reloading, and changing servers; [`upstreams`]: how these are now
//! - [`cache`]: the cache's part
//! - [`status`]: the state as JSON
//! - [`reply`]: how answers are made
//!
//! Built on hyper: its cost does not matter here, its correctness does.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::reply::{Reply, of_type, text};
use crate::control::Control;
use crate::gateway::StartError;
use crate::metrics::prometheus;
use crate::settings::Admin;

mod app;
mod cache;
mod change;
mod guard;
mod reply;
mod status;
mod upstreams;

/// What is answered with a page; what has parts of its own below a path is not among them.
const OWN_PATHS: [&str; 4] = ["/", "/metrics", "/status", "/healthz"];
const DASHBOARD: &str = include_str!("admin/dashboard.html");
/// Control connections open at once.
const CONNECTIONS_MAX: usize = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The control listener, bound and not yet served.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: StdListener,
    token: Option<String>,
}

pub(crate) fn bind(settings: &Admin) -> Result<Bound, StartError> {
    let listener = StdListener::bind(settings.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| StartError::Listen(settings.listen, error))?;
    Ok(Bound {
        listener,
        token: settings.token.clone(),
    })
}

impl Bound {
    /// Serves for as long as the process lives: a draining gateway still answers questions.
    pub(crate) fn serve(self, control: Arc<Control>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let admin = Arc::new(State {
            control,
            token: self.token,
        });
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                runtime.block_on(accept(self.listener, admin));
            })?;
        Ok(())
    }
}

#[derive(Debug)]
struct State {
    control: Arc<Control>,
    token: Option<String>,
}

async fn accept(listener: StdListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("the socket belongs to this runtime");
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(state.answer(request).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT);
            // How a control connection ends concerns its client alone.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if !guard::has_token(&request, self.token.as_deref()) {
            let mut refusal = text(
                StatusCode::UNAUTHORIZED,
                "send the configured token: Authorization: Bearer …\n",
            );
            let scheme = HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return refusal;
        }
        let (shared, has_token) = (&self.control.shared, self.token.is_some());
        let path = request.uri().path();
        if path.starts_with("/cache/") {
            return cache::answer(shared, request, has_token).await;
        }
        if path == "/reload" || path.starts_with("/upstreams") {
            return change::answer(&self.control, request, has_token).await;
        }
        if let Some(apps) = self.control.apps()
            && !OWN_PATHS.contains(&path)
        {
            return app::answer(&self.control, apps, request, has_token).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
        }
        match request.uri().path() {
            "/" => of_type("text/html; charset=utf-8", DASHBOARD),
            "/metrics" => of_type(
                "text/plain; version=0.0.4; charset=utf-8",
                prometheus::write(shared),
            ),
            "/status" => of_type("application/json", status::write(shared)),
            "/healthz" => text(StatusCode::OK, "ok\n"),
            _ => text(
                StatusCode::NOT_FOUND,
                "here are /, /metrics, /status, /healthz, /upstreams, /reload and /cache/\n",
            ),
        }
    }
}
