//! `/v1`: entity tags, conditions, times to live, batches, and ranges of the whole cluster.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Node;
use super::cluster::{several, wait_for};
use crate::harness::client::Response;
use crate::harness::wait_until;

fn tag(response: &Response) -> String {
    response.field("etag").expect("an entity tag").to_owned()
}

fn put(node: &Node, key: &str, lines: &str, value: &str) -> Response {
    let target = format!("/v1/kv/{key}");
    node.ask_with("PUT", &target, lines, value.as_bytes())
}

fn get(node: &Node, key: &str) -> Response {
    node.ask("GET", &format!("/v1/kv/{key}"), b"")
}

pub(super) fn lines(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    let text = response.text();
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("JSON")).collect()
}

/// One node, and three of them.
fn each(check: impl Fn(&[Node])) {
    check(&[Node::alone("")]);
    check(&several(3));
}

#[test]
fn a_write_goes_over_the_value_that_it_names_alone() {
    each(|nodes| {
        let node = |which: usize| &nodes[which % nodes.len()];
        let absent = "If-None-Match: *\r\n";
        let first = put(node(0), "a/b%20c", absent, "one");
        assert_eq!(first.status, 201, "{}", first.text());
        let read = get(node(1), "a/b%20c");
        assert_eq!((read.text(), tag(&read)), ("one".to_owned(), tag(&first)));
        let again = put(node(2), "a/b%20c", absent, "two");
        assert_eq!((again.status, tag(&again)), (412, tag(&first)));
        let over = format!("If-Match: {}\r\n", tag(&first));
        let second = put(node(2), "a/b%20c", &over, "two");
        assert_eq!(second.status, 201, "{}", second.text());
        assert_eq!(put(node(0), "a/b%20c", &over, "three").status, 412);
        assert_eq!(get(node(0), "a/b%20c").text(), "two");
        let target = "/v1/kv/a/b%20c";
        assert_eq!(node(1).ask_with("DELETE", target, &over, b"").status, 412);
        let known = format!("If-None-Match: {}\r\n", tag(&second));
        let unchanged = node(1).ask_with("GET", target, &known, b"");
        assert_eq!((unchanged.status, tag(&unchanged)), (304, tag(&second)));
        let over = format!("If-Match: {}\r\n", tag(&second));
        assert_eq!(node(1).ask_with("DELETE", target, &over, b"").status, 204);
        assert_eq!(get(node(2), "a/b%20c").status, 404);
        assert_eq!(put(node(0), "a/b%20c", "If-Match: *\r\n", "x").status, 412);
        assert_eq!(put(node(0), "a/b%20c", absent, "four").status, 201);
    });
}

/// Of many that add 1 to a number at once, through all nodes, none is lost.
#[test]
fn counters_lose_nothing() {
    each(count);
}

pub(super) fn count(nodes: &[Node]) {
    const EACH: usize = 25;
    const CLIENTS: usize = 6;
    assert_eq!(put(&nodes[0], "counter", "", "0").status, 201);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let node = &nodes[client % nodes.len()];
            scope.spawn(move || {
                let mut left = EACH;
                while left > 0 {
                    let read = get(node, "counter");
                    assert_eq!(read.status, 200, "{}", read.text());
                    let number: usize = read.text().parse().expect("a number");
                    let over = format!("If-Match: {}\r\n", tag(&read));
                    let written = put(node, "counter", &over, &(number + 1).to_string());
                    assert!(matches!(written.status, 201 | 412), "{}", written.text());
                    left -= usize::from(written.status == 201);
                }
            });
        }
    });
    let counted = get(&nodes[0], "counter").text();
    assert_eq!(counted, (EACH * CLIENTS).to_string());
}

/// One of three is killed; whoever is next makes the writes then.
#[test]
fn conditions_hold_when_a_node_is_killed() {
    let mut nodes = several(3);
    let keys: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    let tags: Vec<String> = keys
        .iter()
        .map(|key| tag(&put(&nodes[0], key, "", "one")))
        .collect();
    nodes[2].kill();
    for (key, tag) in keys.iter().zip(&tags) {
        let over = format!("If-Match: {tag}\r\n");
        // Until it is seen that the node is down, nobody knows what it has done.
        wait_until("a write is made", || {
            let written = put(&nodes[1], key, &over, "two");
            assert!(
                matches!(written.status, 201 | 504 | 412),
                "{}",
                written.status
            );
            written.status != 504
        });
        assert_eq!(get(&nodes[0], key).text(), "two");
        assert_eq!(put(&nodes[0], key, &over, "three").status, 412);
    }
    nodes[2].restart();
    wait_for(&nodes);
    for key in &keys {
        assert_eq!(get(&nodes[2], key).text(), "two");
    }
}

#[test]
fn a_value_lives_no_longer_than_it_is_said() {
    each(|nodes| {
        let node = &nodes[0];
        assert_eq!(put(node, "short?ttl=300ms", "", "s").status, 201);
        assert_eq!(put(node, "long?ttl=1h", "", "l").status, 201);
        let long = get(node, "long");
        assert!(long.field("weir-expires-ms").is_some());
        thread::sleep(Duration::from_millis(400));
        for node in nodes {
            assert_eq!(get(node, "short").status, 404);
            assert_eq!(get(node, "long").text(), "l");
        }
        // For a condition, it is not there any more.
        assert_eq!(put(node, "short", "If-Match: *\r\n", "s").status, 412);
        assert_eq!(put(node, "short", "If-None-Match: *\r\n", "t").status, 201);
        assert_eq!(get(node, "short").text(), "t");
    });
}

#[test]
fn a_batch_is_answered_line_by_line() {
    each(|nodes| {
        let batch = |text: &str| nodes[0].ask("POST", "/v1/batch", text.as_bytes());
        let written = lines(&batch(
            "{\"put\": \"a\", \"value\": \"one\"}\n{\"put\": \"b\", \"base64\": \"/wA=\", \"ttl\": \"1h\"}\n\n",
        ));
        assert_eq!(written.len(), 2);
        assert!(
            written.iter().all(|line| line["status"] == 201),
            "{written:?}"
        );
        let over = json!({ "put": "a", "value": "two", "if_match": "\"0-0-0\"" });
        let read = lines(&batch(&format!(
            "{{\"get\": \"b\"}}\n{{\"get\": \"none\"}}\n{over}\n{{\"delete\": \"c\"}}\n{{\"get\": \"a\"}}"
        )));
        let short: Vec<_> = read
            .iter()
            .map(|line| (&line["key"], &line["status"]))
            .collect();
        let expected = json!([
            ["b", 200],
            ["none", 404],
            ["a", 412],
            ["c", 204],
            ["a", 200]
        ]);
        assert_eq!(json!(short), expected);
        assert_eq!(
            (&read[0]["base64"], &read[4]["value"]),
            (&json!("/wA="), &json!("one"))
        );
        assert!(read[0]["expires_ms"].is_u64() && read[4]["expires_ms"].is_null());
        // The value that there is, as with a 412.
        assert_eq!(read[2]["etag"], read[4]["etag"]);
        let raw = lines(&batch("{\"put_base64\": \"/w==\", \"value\": \"raw\"}\n"));
        assert_eq!(
            (&raw[0]["status"], &raw[0]["key_base64"]),
            (&json!(201), &json!("/w=="))
        );
        assert_eq!(get(&nodes[0], "%ff").text(), "raw");
        // A broken line keeps the whole batch from being done, and is named.
        let broken = batch("{\"put\": \"new\", \"value\": \"1\"}\n{\"put\": \"new2\"}\n");
        assert_eq!(broken.status, 400);
        assert!(broken.text().contains("line 2"), "{}", broken.text());
        assert_eq!(get(&nodes[0], "new").status, 404);
        for text in [
            "",
            "x",
            "{}",
            "[\"a\", null, null, null, null, null, null, null, null, null, null]",
            "{\"get\": \"\"}",
            "{\"get\": \"a\", \"ttl\": \"1s\"}",
            "{\"gte\": \"a\"}",
            "{\"get\": \"a\", \"get_base64\": \"YQ==\"}",
            "{\"delete\": \"a\", \"if_match\": \"unquoted\"}",
            "{\"get\": \"a\", \"if_match\": \"*\"}",
            "{\"get\": \"a\", \"if_none_match\": \"\\\"0-0-0\\\"\"}",
        ] {
            assert_eq!(batch(text).status, 400, "{text}");
        }
    });
}

#[test]
fn a_range_is_of_all_nodes_in_order() {
    each(|nodes| {
        let numbers = 0..200;
        for number in numbers.clone() {
            // One replica each: no node has all of them.
            let target = format!("/v1/kv/n{number:03}?replicas=1/1");
            assert_eq!(nodes[0].ask("PUT", &target, b"v").status, 201);
        }
        for number in (0..200).step_by(3) {
            let target = format!("/v1/kv/n{number:03}?replicas=1/1");
            assert_eq!(nodes[0].ask("DELETE", &target, b"").status, 204);
        }
        let expected: Vec<String> = numbers
            .filter(|number| number % 3 > 0)
            .map(|number| format!("n{number:03}"))
            .collect();
        for node in nodes {
            let range = |query: &str| lines(&node.ask("GET", &format!("/v1/range?{query}"), b""));
            let keys = |lines: &[Value]| -> Vec<String> {
                let keys = lines.iter().filter_map(|line| line["key"].as_str());
                keys.map(str::to_owned).collect()
            };
            assert_eq!(keys(&range("prefix=n")), expected);
            assert_eq!(keys(&range("start=n010&end=n020")), expected[6..13]);
            // Page by page.
            let (mut paged, mut start) = (Vec::new(), "n".to_owned());
            loop {
                let page = range(&format!("start={start}&limit=7"));
                paged.extend(keys(&page));
                match page.last().and_then(|last| last["next"].as_str()) {
                    Some(next) => next.clone_into(&mut start),
                    None => break,
                }
            }
            paged.retain(|key: &String| key.starts_with('n'));
            assert_eq!(paged, expected);
        }
    });
}

/// With two of three replicas written, one node may be missing for a range, and no more.
#[test]
fn a_range_is_whole_or_says_that_it_is_not() {
    let mut nodes = several(3);
    for number in 0..50 {
        assert_eq!(
            put(&nodes[0], &format!("w{number:02}"), "", "v").status,
            201
        );
    }
    let count = |node: &Node| {
        let response = node.ask("GET", "/v1/range?prefix=w", b"");
        (response.status == 200).then(|| lines(&response).len())
    };
    nodes[1].kill();
    wait_until("the others have all of them", || {
        count(&nodes[0]) == Some(50)
    });
    nodes[2].kill();
    wait_until("one alone has not", || count(&nodes[0]).is_none());
}

#[test]
fn what_is_wrong_with_a_request_is_told() {
    let node = Node::alone("");
    for (method, target, status, told) in [
        ("GET", "/v1/kv/", 400, "the key is empty"),
        ("PUT", "/v1/kv/a?ttl=soon", 400, "500ms"),
        ("GET", "/v1/kv/a?ttl=1s", 400, "only a PUT"),
        ("PUT", "/v1/kv/a?replicas=2/2", 400, "1 nodes"),
        ("POST", "/v1/kv/a", 405, "GET, HEAD, PUT, DELETE"),
        ("GET", "/v1/batch", 405, "POST"),
        ("GET", "/v1/range?prefix=a&start=b", 400, "either prefix"),
        ("GET", "/v1/what", 404, "/v1/kv/KEY"),
    ] {
        let response = node.ask(method, target, b"");
        assert_eq!(response.status, status, "{method} {target}");
        assert!(response.text().contains(told), "{}", response.text());
    }
    let long = format!("/v1/kv/{}", "k".repeat(1025));
    assert_eq!(node.ask("PUT", &long, b"v").status, 400);
    assert_eq!(node.ask("GET", "/v1/range", b"").text(), "");
}

#[test]
fn the_placement_is_told() {
    let nodes = several(2);
    let placement = |node: &Node| -> Value {
        let response = node.ask("GET", "/v1/placement?key=a", b"");
        serde_json::from_str(&response.text()).expect("JSON")
    };
    let (one, other) = (placement(&nodes[0]), placement(&nodes[1]));
    assert_eq!(one["key"], other["key"]);
    assert_eq!(
        (&one["replicas"], &one["slots"]),
        (&json!(2), &json!(16384))
    );
    assert_eq!(one["nodes"].as_array().map(Vec::len), Some(2));
    assert!(one["nodes"][0]["is_up"] == true && one["nodes"][1]["is_up"] == true);
}

#[test]
fn a_condition_is_one_and_goes_first() {
    let nodes = several(3);
    let first = put(&nodes[0], "c", "", "one");
    // What is no tag is no guard that holds by chance.
    for broken in ["If-None-Match: 1-2-3\r\n", "If-Match: W/\r\n"] {
        assert_eq!(put(&nodes[0], "c", broken, "two").status, 400, "{broken}");
    }
    let read = |lines: &str| nodes[1].ask_with("GET", "/v1/kv/c", lines, b"").status;
    let own = format!("If-None-Match: {}\r\n", tag(&first));
    assert_eq!(read(&format!("If-Match: \"x\"\r\n{own}")), 412);
    assert_eq!(read("If-Match: \"x\"\r\nIf-None-Match: \"y\"\r\n"), 412);
    assert_eq!(read(&own), 304);
    assert_eq!(read("If-None-Match: \"y\"\r\n"), 200);
    // With fewer than half of the replicas, two could hold.
    for quorum in ["ack=1", "replicas=1/1"] {
        let target = format!("/v1/kv/c?{quorum}");
        let weak = nodes[0].ask_with("PUT", &target, "If-Match: *\r\n", b"two");
        assert_eq!(weak.status, 400);
        assert!(weak.text().contains("more than half"), "{}", weak.text());
    }
}

/// A range that stops at a key which is no text goes on from there.
#[test]
fn a_range_goes_on_at_a_key_that_is_no_text() {
    let node = Node::alone("");
    for key in ["%fd", "%fe", "%ff"] {
        assert_eq!(put(&node, key, "", "v").status, 201);
    }
    let range = |query: &str| lines(&node.ask("GET", &format!("/v1/range?{query}"), b""));
    let first = range("limit=1");
    assert_eq!(first[0]["key_base64"], "/Q==");
    assert_eq!(first[1]["next_base64"], "/g==");
    let rest = range("start_base64=%2Fg%3D%3D");
    let keys: Vec<_> = rest.iter().map(|line| &line["key_base64"]).collect();
    assert_eq!(keys, ["/g==", "/w=="]);
}

/// The node that makes the writes of a key goes and comes while clients count: what is answered as written is in the sum.
#[test]
fn counters_lose_nothing_while_nodes_are_killed() {
    let mut nodes = several(3);
    assert_eq!(put(&nodes[0], "sum", "", "0").status, 201);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let unsure = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..4_usize {
            let (stop, written, unsure) = (&stop, &written, &unsure);
            let addresses = &addresses;
            scope.spawn(move || {
                let mut turn = client;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let address = addresses[turn % addresses.len()];
                    match count_one(address) {
                        Some(201) => _ = written.fetch_add(1, Ordering::Relaxed),
                        Some(412 | 404) => {}
                        _ => _ = unsure.fetch_add(1, Ordering::Relaxed),
                    }
                }
            });
        }
        for round in 0..6 {
            let which = round % 3;
            thread::sleep(Duration::from_millis(500));
            nodes[which].kill();
            thread::sleep(Duration::from_millis(500));
            nodes[which].restart();
            wait_for(&nodes);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let sum: u64 = get(&nodes[0], "sum").text().parse().expect("a number");
    let (written, unsure) = (written.into_inner(), unsure.into_inner());
    assert!(written > 50, "{written} written");
    // A write of which nobody knows may have been made, too.
    assert!(
        (written..=written + unsure).contains(&sum),
        "{sum}, {written} written, {unsure} unsure"
    );
}

/// Adds 1 to the sum; the status, unless the node is away.
fn count_one(address: SocketAddr) -> Option<u16> {
    let (status, head, value) = exchange(address, "GET", "", "")?;
    if status != 200 {
        return Some(412);
    }
    let number: u64 = value.parse().ok()?;
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: "))?;
    let lines = format!("If-Match: {tag}\r\n");
    let (status, ..) = exchange(address, "PUT", &lines, &(number + 1).to_string())?;
    Some(status)
}

/// Status, head and content, unless the node is killed meanwhile.
fn exchange(
    address: SocketAddr,
    method: &str,
    lines: &str,
    content: &str,
) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = content.len();
    let request = format!(
        "{method} /v1/kv/sum HTTP/1.1\r\nHost: kv\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{content}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, content) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.to_owned(), content.to_owned()))
}
