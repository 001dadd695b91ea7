//! Purges: what each kind ends, and that it stays ended. Asked for by `weir cache` and by the control API.

mod input;
mod restart;
mod under_load;
mod under_way;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::caching;
use crate::harness::Gateway;
use crate::harness::client::{Response, get, send};
use crate::harness::origin::Origin;
use crate::harness::tool::{Run, run_to_end};

/// An origin that answers with its version, which a test counts up: bodies are `version path`.
struct Versions {
    origin: Origin,
    version: Arc<AtomicU64>,
}

impl Versions {
    /// Each answer has `fields`, which are whole lines, and `Cache-Tag` with the segments of the path.
    fn start(fields: &'static str) -> Self {
        Self::with_body(fields, 0)
    }

    /// The same with bodies of at least so many bytes.
    fn with_body(fields: &'static str, bytes: usize) -> Self {
        let version = Arc::new(AtomicU64::new(1));
        let now = Arc::clone(&version);
        let origin = Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                let version = now.load(Ordering::SeqCst);
                let target = head.split(' ').nth(1).expect("a target").to_owned();
                if head.contains(&format!("If-None-Match: \"{version}\"")) {
                    peer.send(format!(
                        "HTTP/1.1 304 Not Modified\r\nETag: \"{version}\"\r\n{fields}\r\n"
                    ));
                    continue;
                }
                let path = target.split('?').next().unwrap_or_default();
                let tags = path.trim_matches('/').replace('/', ", ");
                let body = format!("{:<bytes$}", format!("{version} {target}"));
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nETag: \"{version}\"\r\nCache-Tag: {tags}\r\nSurrogate-Key: all-{version}\r\n\
                     {fields}Content-Length: {}\r\n\r\n{body}",
                    body.len()
                ));
            }
        });
        Self { origin, version }
    }

    fn next(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// The version in a response of [`Versions`].
fn version_of(response: &Response) -> u64 {
    assert_eq!(response.status, 200, "{}", response.head);
    let text = response.text();
    let version = text.split(' ').next().and_then(|text| text.parse().ok());
    version.unwrap_or_else(|| panic!("a version in {text}"))
}

/// Asks the control listener to purge.
pub(in crate::cache) fn purge(gateway: &Gateway, what: &str) -> Response {
    let response = send(gateway.admin, &purge_request(gateway.admin, what));
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    response
}

fn purge_request(admin: SocketAddr, what: &str) -> String {
    format!(
        "POST /cache/purge HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{what}",
        what.len()
    )
}

/// Runs `weir cache` against the gateway.
fn weir_cache(gateway: &Gateway, arguments: &[&str]) -> Run {
    let admin = gateway.admin.to_string();
    let arguments = [&["cache"], arguments, &["--admin", &admin]].concat();
    run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments)
}

const STORED: [&str; 7] = ["/", "/a", "/a/b", "/a/b?q=1", "/a/c%2Fd", "/ab", "/b/a"];

/// What to purge, and the paths of [`STORED`] that it ends.
const KINDS: [(&[&str], &[&str]); 13] = [
    (&["http://HOST/a/b"], &["/a/b"]),
    (&["HOST/a/b?q=1#top"], &["/a/b?q=1"]),
    (&["http://HOST/a/c%2Fd"], &["/a/c%2Fd"]),
    (&["http://HOST/a/c/d"], &[]),
    (&["http://HOST"], &["/"]),
    (&["http://HOST/a", "http://HOST/ab"], &["/a", "/ab"]),
    (
        &["--prefix", "http://HOST/a"],
        &["/a", "/a/b", "/a/b?q=1", "/a/c%2Fd", "/ab"],
    ),
    (
        &["--prefix", "http://HOST/a/"],
        &["/a/b", "/a/b?q=1", "/a/c%2Fd"],
    ),
    (&["--prefix", "/a/b"], &["/a/b", "/a/b?q=1"]),
    (&["--prefix", "http://other.example/"], &[]),
    (&["--tag", "b"], &["/a/b", "/a/b?q=1", "/b/a"]),
    (&["--tag", "all-1"], &STORED),
    (&["--all"], &STORED),
];

#[test]
fn each_kind_ends_what_it_names_and_nothing_else() {
    let versions = Versions::start("Cache-Control: max-age=600\r\n");
    let gateway = caching(versions.origin.address, "true");
    let host = "test";
    for (arguments, ended) in KINDS {
        versions.version.store(1, Ordering::SeqCst);
        purge(&gateway, "{\"all\": true}");
        for path in STORED {
            assert_eq!(version_of(&get(gateway.address, path)), 1);
        }
        versions.next();
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| argument.replace("HOST", host))
            .collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let run = weir_cache(&gateway, &[&["purge"], &arguments[..]].concat());
        assert!(run.status.success(), "{arguments:?}: {}", run.stderr);
        let told: u64 = run.stdout.lines().map(purged_in_memory).sum();
        assert_eq!(told, ended.len() as u64, "{arguments:?}: {}", run.stdout);
        for path in STORED {
            let expected = if ended.contains(&path) { 2 } else { 1 };
            let found = version_of(&get(gateway.address, path));
            assert_eq!(found, expected, "{path} after {arguments:?}");
        }
    }
}

/// `http://…: purged, 2 in memory, 0 on disk`
fn purged_in_memory(line: &str) -> u64 {
    let (_, counts) = line.rsplit_once("purged, ").expect("it was purged");
    let count = counts
        .split(' ')
        .next()
        .and_then(|count| count.parse().ok());
    count.expect("a count")
}

#[test]
fn a_url_is_all_its_variants_and_all_that_the_route_makes_of_it() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Language\r\nContent-Length: 1\r\n\r\nx");
        }
    });
    let key = "{ key = { host = false, query = [\"page\"], headers = [\"x-tenant\"], cookies = [\"tier\"] } }";
    let gateway = caching(origin.address, key);
    let ask_all = || {
        for language in ["de", "en"] {
            for tenant in ["1", "2"] {
                let fields = format!(
                    "Accept-Language: {language}\r\nX-Tenant: {tenant}\r\nCookie: tier=gold\r\n"
                );
                let request =
                    format!("GET /a?page=1&session=2 HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
                assert_eq!(send(gateway.address, &request).status, 200);
            }
        }
        origin.heads_waiting()
    };
    assert_eq!((ask_all(), ask_all()), (4, 0));
    // Another page is another key, and any host and session are this one.
    purge(&gateway, "{\"url\": \"http://h/a?page=2\"}");
    assert_eq!(ask_all(), 0);
    let answer = purge(&gateway, "{\"url\": \"http://other/a?session=9&page=1\"}");
    assert_eq!(
        answer.text(),
        "{\"kind\":\"hard\",\"memory\":2,\"disk\":0}\n",
        "two keys with two variants each"
    );
    assert_eq!(ask_all(), 4);
    for site in ["", "@app"] {
        purge(
            &gateway,
            &format!("{{\"url\": \"http://{site}/a?page=1\"}}"),
        );
        assert_eq!(ask_all(), 4);
    }
    let answer = purge(&gateway, "{\"prefix\": \"http://@app/a\"}");
    assert!(answer.text().contains("\"memory\":2"), "{}", answer.text());
}

#[test]
fn a_soft_purge_has_the_next_use_ask_whether_it_is_still_right() {
    let versions = Versions::start("Cache-Control: max-age=600\r\n");
    let gateway = caching(versions.origin.address, "true");
    for _ in 0..3 {
        assert_eq!(version_of(&get(gateway.address, "/a")), 1);
    }
    assert_eq!(versions.origin.heads_waiting(), 1);
    let run = weir_cache(&gateway, &["purge", "--soft", "--tag", "a"]);
    assert_eq!(run.stdout, "a: marked as stale, 1 in memory, 0 on disk\n");
    for _ in 0..3 {
        assert_eq!(version_of(&get(gateway.address, "/a")), 1);
    }
    let asked = versions.origin.next_head();
    assert!(asked.contains("If-None-Match: \"1\""), "{asked}");
    assert_eq!(versions.origin.heads_waiting(), 0, "confirmed, it is fresh");
    versions.next();
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    assert_eq!(version_of(&get(gateway.address, "/a")), 2);
    gateway.wait_for_metric("weir_cache_purges_total{kind=\"soft\"}", 2);
    gateway.wait_for_metric("weir_cache_purged_total{tier=\"memory\"}", 2);
}

#[test]
fn what_was_purged_softly_may_stand_in_while_the_origin_is_asked_and_when_it_fails() {
    let origin = Origin::start(|mut peer, number| {
        let _ = peer.head();
        if number == 0 {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=600, stale-if-error=600\r\nContent-Length: 3\r\nConnection: close\r\n\r\nold");
        } else {
            peer.send("HTTP/1.1 503 Sorry\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let gateway = caching(origin.address, "true");
    assert_eq!(get(gateway.address, "/").text(), "old");
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    assert_eq!(get(gateway.address, "/").text(), "old");
    purge(&gateway, "{\"all\": true}");
    assert_eq!(get(gateway.address, "/").status, 503);

    let versions = Versions::start("Cache-Control: max-age=600, stale-while-revalidate=600\r\n");
    let gateway = caching(versions.origin.address, "true");
    assert_eq!(version_of(&get(gateway.address, "/")), 1);
    versions.next();
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    let stale = get(gateway.address, "/");
    assert_eq!(version_of(&stale), 1, "it stands in");
    let said = stale.field("cache-status").expect("it is said");
    assert!(said.contains("ttl=0") || said.contains("ttl=-"), "{said}");
    crate::harness::wait_until("the refreshed response is served", || {
        version_of(&get(gateway.address, "/")) == 2
    });
}
