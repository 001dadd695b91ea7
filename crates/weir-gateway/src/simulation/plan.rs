//! What one simulation is about, drawn from its seed: a configuration, what the origin has, and what clients will ask.

mod settings;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_cache::CachePolicy;

use crate::settings::Settings;
use crate::simulation::world::FieldList;

/// The host that everybody asks for, in one spelling or another.
pub(super) const HOST: &str = "a.test";
/// Simulations run side by side, each with a socket of its own.
static NEXT_SOCKET: AtomicU64 = AtomicU64::new(0);
/// The route that nobody is let through by.
const FORBIDDEN: &str = "/admin/{*rest}";
/// What the route says of every request, whatever its client says.
pub(super) const SET_FIELD: (&str, &str) = ("x-country", "nl");

/// See the module.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) policy: CachePolicy,
    /// Whether the route sets [`SET_FIELD`].
    pub(super) sets_field: bool,
    pub(super) socket: PathBuf,
    pub(super) resources: Vec<Resource>,
    pub(super) clients: Vec<ClientPlan>,
    /// When, and of which resource, an operator purges everything.
    pub(super) purges: Vec<(u64, usize)>,
    pub(super) seed: u64,
}

/// Something that the origin has, and how it answers for it. Every answer draws from each list.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) path: String,
    pub(super) vary: Vec<&'static str>,
    /// Of the first answers, where it is not drawn.
    pub(super) first_vary: Vec<&'static str>,
    pub(super) control: Vec<&'static str>,
    pub(super) status: Vec<u16>,
    pub(super) body_bytes: Vec<u64>,
    pub(super) head_ms: Vec<u64>,
    /// How long the first answers take, and their statuses, where those are not drawn; 0 closes without a word.
    pub(super) first: Vec<(u64, u16)>,
    pub(super) piece_ms: Vec<u64>,
    pub(super) ends: Vec<End>,
    pub(super) has_etag: bool,
    pub(super) has_ranges: bool,
    pub(super) sets_cookie: bool,
}

/// How an answer of the origin ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Well,
    Chunked,
    ByClosing,
    /// Closed without a word.
    Silent,
    /// Broken off inside of the body.
    Cut,
    /// It says nothing more, and keeps the connection.
    Hangs,
}

/// What one client does.
#[derive(Debug)]
pub(super) struct ClientPlan {
    pub(super) address: String,
    pub(super) worker: usize,
    pub(super) asks: Vec<AskPlan>,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct AskPlan {
    pub(super) after_ms: u64,
    pub(super) method: &'static str,
    pub(super) resource: usize,
    /// The target as it is sent; its path is the resource's.
    pub(super) target: String,
    pub(super) fields: FieldList,
    pub(super) body: &'static str,
    /// How long the client stays after it has asked.
    pub(super) leaves_after_ms: Option<u64>,
    /// How long it waits between two reads.
    pub(super) read_ms: u64,
}

struct Draw<'r>(&'r mut fastrand::Rng);

impl Draw<'_> {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())]
    }

    /// Some of them, and at least one.
    fn some<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let count = self.0.usize(1..=3);
        (0..count).map(|_| self.one(of)).collect()
    }

    fn chance(&mut self, of: f64) -> bool {
        self.0.f64() < of
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Plan {
    pub(super) fn draw(random: &mut fastrand::Rng) -> Self {
        let seed = random.u64(..);
        let mut draw = Draw(random);
        let policy = policy(&mut draw);
        let sets_field = draw.chance(0.3);
        let (process, number) = (
            std::process::id(),
            NEXT_SOCKET.fetch_add(1, Ordering::Relaxed),
        );
        let socket = std::env::temp_dir().join(format!("weir-simulation-{process}-{number}"));
        let resources: Vec<_> = (0..draw.0.usize(1..=3))
            .map(|number| resource(&mut draw, number))
            .collect();
        let workers = draw.0.usize(1..=2);
        let clients = (0..draw.0.usize(3..=10))
            .map(|number| ClientPlan {
                address: format!("10.0.0.{}", 1 + number % 4),
                worker: draw.0.usize(..workers),
                asks: (0..draw.0.usize(1..=6))
                    .map(|_| ask(&mut draw, &resources))
                    .collect(),
            })
            .collect();
        let purges = (0..draw.0.usize(..3))
            .map(|_| (10 * draw.0.u64(..800), draw.0.usize(..resources.len())))
            .collect();
        Self {
            settings: settings::settings(&mut draw, &policy, sets_field, &socket, workers),
            policy,
            sets_field,
            socket,
            resources,
            clients,
            purges,
            seed,
        }
    }
}

fn policy(draw: &mut Draw<'_>) -> CachePolicy {
    let mut policy = CachePolicy {
        caches_post: draw.chance(0.3),
        obeys_clients: draw.chance(0.7),
        uses_min: draw.one(&[1, 1, 1, 2]),
        body_bytes_max: draw.one(&[1 << 30, 1 << 30, 30_000]),
        variants_max: draw.one(&[32, 2]),
        refresh_ahead_percent: draw.one(&[None, None, Some(50)]),
        ..CachePolicy::default()
    };
    policy.stale_if_unreachable = Duration::from_secs(draw.one(&[0, 3, 3600]));
    policy.stale_while_revalidate = draw.one(&[None, None, Some(Duration::from_secs(3))]);
    if draw.chance(0.2) {
        policy.key.headers = vec!["x-tenant".to_owned()];
    }
    policy
}

fn resource(draw: &mut Draw<'_>, number: usize) -> Resource {
    let vary = [
        "",
        "",
        "",
        "Accept-Encoding",
        "Origin",
        "Cookie",
        "X-Forwarded-For",
        "X-Country",
        "X-Tenant",
        "Accept-Language",
        "Accept-Encoding, Origin",
        "*",
    ];
    let control = [
        "max-age=0",
        "public, max-age=0",
        "max-age=1",
        "max-age=3",
        "max-age=60",
        "public, max-age=30",
        "s-maxage=3",
        "max-age=2, stale-while-revalidate=3",
        "max-age=1, stale-if-error=20",
        "max-age=1, must-revalidate",
        "no-cache",
        "no-store",
        "private",
        "private, max-age=60",
        "private; max-age=60",
        "max-age=60, x=\"y, private, no-store",
        "",
    ];
    let status = [200, 200, 200, 200, 200, 404, 301, 500, 503, 431, 501];
    let ends = [
        End::Well,
        End::Well,
        End::Well,
        End::Well,
        End::Chunked,
        End::ByClosing,
        End::Silent,
        End::Cut,
        End::Hangs,
    ];
    Resource {
        path: format!("/{number}"),
        vary: draw.some(&vary),
        first_vary: Vec::new(),
        control: draw.some(&control),
        status: draw.some(&status),
        body_bytes: draw.some(&[0, 10, 3_000, 40_000, 400_000]),
        head_ms: draw.some(&[0, 0, 10, 50, 200, 2_000]),
        first: Vec::new(),
        piece_ms: draw.some(&[0, 0, 10, 300]),
        ends: draw.some(&ends),
        has_etag: draw.chance(0.6),
        has_ranges: draw.chance(0.5),
        sets_cookie: draw.chance(0.1),
    }
}

/// What a request may say, and `-` where it does not.
const FIELDS: [(&str, &[&str]); 12] = [
    ("accept-encoding", &["-", "gzip", "gzip, br", "br,gzip"]),
    (
        "origin",
        &["-", "-", "https://a", "https://a,", "https://b"],
    ),
    ("cookie", &["-", "-", "u=1", "u=1,", "u=2"]),
    ("accept-language", &["-", "de, en", "en, de"]),
    ("x-forwarded-for", &["-", "-", "192.0.2.1"]),
    ("x-country", &["-", "-", "de"]),
    ("x-tenant", &["-", "one", "two"]),
    // A script reads it as the one before.
    ("x_tenant", &["-", "-", "-", "two"]),
    ("authorization", &["-", "-", "-", "-", "Basic eDp5"]),
    (
        "if-none-match",
        &["-", "-", "-", "-", "-", "-", "\"1\"", "\"3\", \"4\""],
    ),
    (
        "range",
        &[
            "-",
            "-",
            "-",
            "-",
            "bytes=0-9",
            "bytes=5-",
            "bytes=999999999-",
        ],
    ),
    (
        "cache-control",
        &[
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "no-cache",
            "max-age=0",
            "no-store",
            "only-if-cached",
            "max-stale=5",
            "stale-if-error=60",
        ],
    ),
];
const HOSTS: [&str; 7] = [
    HOST,
    HOST,
    HOST,
    "A.test",
    "a.test:80",
    "a.test:",
    "a.test.",
];
const METHODS: [&str; 12] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE",
];
/// What an origin that decodes paths takes for something below [`FORBIDDEN`], in one way or another.
const SLY_TARGETS: [&str; 7] = [
    "/x/..%2fadmin/secret",
    "/x/..%2Fadmin/secret",
    "/x/%2e%2e/admin/secret",
    "/x/..;/admin/secret",
    "/x/..%5cadmin/secret",
    "/admin%2fsecret",
    "//admin/secret",
];

fn ask(draw: &mut Draw<'_>, resources: &[Resource]) -> AskPlan {
    let resource = draw.0.usize(..resources.len());
    let method = draw.one(&METHODS);
    let has_body = matches!(method, "POST" | "PUT");
    let (mut host, mut target) = (draw.one(&HOSTS), resources[resource].path.clone());
    if draw.chance(0.1) {
        (host, target) = (HOST, format!("http://{HOST}{target}"));
    } else if draw.chance(0.05) {
        target = draw.one(&SLY_TARGETS).to_owned();
    }
    let mut fields = vec![("host".to_owned(), host.to_owned())];
    for (name, values) in FIELDS {
        match draw.one(values) {
            "-" => {}
            value => fields.push((name.to_owned(), value.to_owned())),
        }
    }
    let mut body = "";
    if has_body {
        body = draw.one(&["q=1", "q=2"]);
        let media_type = draw.one(&["text/plain", "application/json"]);
        fields.push(("content-type".to_owned(), media_type.to_owned()));
    }
    AskPlan {
        after_ms: draw.one(&[0, 0, 0, 10, 100, 900, 2_500]),
        method,
        resource,
        target,
        fields,
        body,
        leaves_after_ms: draw.one(&[None, None, None, None, Some(0), Some(30), Some(500)]),
        read_ms: draw.one(&[0, 0, 0, 0, 50, 5_000]),
    }
}
