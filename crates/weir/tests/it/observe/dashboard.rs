//! The dashboard in a browser, and what it is made of: what is wrong now, and the last minute.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::harness::browser::{self, Page};
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, free_port, wait_until};

fn status(gateway: &Gateway) -> Value {
    let response = client::ask_admin(gateway.admin, "/status");
    serde_json::from_slice(&response.body).expect("/status is JSON")
}

fn failing() -> Origin {
    Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
}

/// What is wrong, as `tone: text`, once anything is.
fn troubles(gateway: &Gateway) -> Vec<String> {
    let mut said = Vec::new();
    wait_until("something is wrong", || {
        let status = status(gateway);
        let troubles = status["troubles"].as_array().expect("a list");
        let text = |of: &Value, key: &str| of[key].as_str().expect("a text").to_owned();
        said = troubles
            .iter()
            .map(|it| format!("{}: {}", text(it, "tone"), text(it, "text")))
            .collect();
        !said.is_empty()
    });
    said
}

/// The text of the page after it has asked for the state a few times.
fn shown(gateway: &Gateway) -> String {
    let url = format!("http://{}/", gateway.admin);
    let page = browser::dump(&url, &["--virtual-time-budget=3000"]);
    let (_, body) = page.split_once("<body>").expect("a body");
    let (body, _) = body.split_once("<script>").expect("a script");
    body.to_owned()
}

#[test]
fn a_browser_shows_why_requests_are_not_served() {
    let origin = failing();
    // What a configuration names is text, whatever it looks like.
    let gateway = Gateway::start(&format!(
        "[upstream.sick]\nservers = [\"{}\"]\n\
         [[route]]\nname = \"<b onclick=x>&amp;</b>\"\npath = \"/\"\nupstream = \"sick\"\n\
         breaker = {{ consecutive = 5, open_for = \"1h\" }}\n\
         [[route]]\npath = \"/well\"\nrespond = {{}}\n",
        origin.address
    ));
    // What is wrong now is what goes wrong now, and a browser takes its time to start.
    let is_over = AtomicBool::new(false);
    let page = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = Connection::open(gateway.address);
            while !is_over.load(Ordering::Relaxed) {
                connection.get("/");
                connection.get("/well");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let is_there = catch_unwind(AssertUnwindSafe(|| {
            wait_until("the breaker refuses", || {
                troubles(&gateway)[0].contains("breaker_open: its breaker is open")
            });
            // The chart needs two points.
            wait_until("two seconds are counted", || {
                let seconds = status(&gateway)["minute"]["seconds"].clone();
                let seconds = seconds.as_array().expect("a list").clone();
                let refusing = seconds.iter().filter(|it| it["refused"] != 0);
                refusing.count() > 1
            });
            shown(&gateway)
        }));
        is_over.store(true, Ordering::Relaxed);
        is_there
    });
    let page = page.unwrap_or_else(|panic| resume_unwind(panic));
    let ids = page.split(" id=\"").skip(1);
    let mut ids: Vec<_> = ids.filter_map(|id| id.split('"').next()).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "each is there once: {ids:?}");
    for expected in [
        "id=\"refused\" d=\"M",
        "route &lt;b onclick=x&gt;&amp;amp;&lt;/b&gt;: ",
        " of the requests refused, breaker_open: its breaker is open and tries again in ",
        "<span class=\"chip warn\">breaker_open ",
        "<span class=\"tone bad\">open</span>",
        "aria-label=\"Endpoints of sick\"",
        "/well",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("<b onclick"), "{page}");
}

#[test]
fn a_browser_shows_that_all_is_well() {
    let origin = super::answering();
    let gateway = Gateway::start(&forward_everything(&[origin.address], "breaker = true"));
    let page = shown(&gateway);
    for expected in [
        "All is well",
        "idle: no request in the last minute; 1 of 1 endpoint up",
        "1, all closed",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

#[test]
fn a_browser_asks_its_user_for_the_token() {
    // What stands in front of it ends with `[admin]`.
    let gateway =
        Gateway::start("token = \"sesame-0123456789\"\n[[route]]\npath = \"/\"\nrespond = {}\n");
    let page = client::send(gateway.admin, "GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(page.field("x-frame-options"), Some("DENY"));
    let mut page = Page::open(&format!("http://{}/", gateway.admin));
    let asks = "document.activeElement.id === 'token' && document.getElementById('main').hidden";
    let shows =
        "document.getElementById('sign-in').hidden && !document.getElementById('main').hidden";
    let says = "document.getElementById('token-refused').textContent";
    page.wait_for("the token is asked for", asks);
    assert_eq!(page.value(says), "");
    for wrong in ["sesame-0123456780", "sésame – \u{1f511}"] {
        page.value("document.getElementById('token-refused').textContent = ''");
        page.enter(wrong);
        let refused = format!("{asks} && {says} !== ''");
        page.wait_for("another token is refused", &refused);
    }
    page.enter(" sesame-0123456789 ");
    page.wait_for("the state is shown", shows);
    assert_eq!(page.value("document.getElementById('links').hidden"), true);
    // Who looks again in this tab need not type again.
    page.value("document.getElementById('main').hidden = true");
    page.reload();
    page.wait_for("the state is shown again", shows);
    assert_eq!(page.value("document.cookie + localStorage.length"), "0");
}

#[test]
fn the_last_minute_is_there_for_who_comes_later() {
    let origin = super::answering();
    let gateway = Gateway::start(&forward_everything(&[origin.address], ""));
    let mut connection = Connection::open(gateway.address);
    for _ in 0..30 {
        connection.get("/");
    }
    connection.send("PURGE-ME / HTTP/1.0\r\nno field\r\n\r\n");
    wait_until("the minute has all of it", || {
        let status = status(&gateway);
        status["routes"][0]["minute"]["requests"] == 30 && status["unrouted"]["requests"] == 1
    });
    let status = status(&gateway);
    let seconds = status["minute"]["seconds"].as_array().expect("a list");
    let sum: u64 = seconds
        .iter()
        .filter_map(|it| it["requests"].as_u64())
        .sum();
    assert_eq!(sum, 31);
    let endpoint = &status["upstreams"][0]["endpoints"][0];
    assert_eq!(endpoint["minute"]["responses"]["2xx"], 30);
    assert!(endpoint["minute"]["p99_us"].is_u64());
}

#[test]
fn what_is_wrong_is_said_with_its_cause() {
    let (well, sick) = (super::answering(), failing());
    let gone = free_port();
    let ejection = "ejection = { consecutive = 3, eject_for = \"1h\" }";
    let gateway = Gateway::start(&format!(
        "{}[upstream.gone]\nservers = [\"127.0.0.1:{gone}\"]\n[[route]]\npath = \"/gone\"\nupstream = \"gone\"\n",
        forward_everything(&[well.address, sick.address], ejection)
    ));
    let mut connection = Connection::open(gateway.address);
    for _ in 0..40 {
        connection.get("/");
    }
    assert_eq!(connection.get("/gone").status, 502);
    // What is counted is looked at each second, and the seconds may end in the middle of it.
    wait_until("all is counted", || {
        let status = status(&gateway);
        let routes = status["routes"].as_array().expect("a list");
        let count = routes
            .iter()
            .filter_map(|it| it["minute"]["requests"].as_u64());
        count.sum::<u64>() == 41
    });
    let said = troubles(&gateway);
    let has = |expected: &str| said.iter().any(|it| it.contains(expected));
    for expected in [
        "bad: route /gone: 1 of 1 requests failed, connect_failed: no endpoint of upstream gone takes a connection".to_owned(),
        format!("failed, answered with 5xx by {} of upstream app", sick.address),
        format!("warn: upstream app: {} is out, it failed several times in a row; is tried again in", sick.address),
        "; 1 of 2 endpoints serve".to_owned(),
    ] {
        assert!(has(&expected), "{expected}: {said:#?}");
    }
}
