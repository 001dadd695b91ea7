//! `weir kv`: three nodes, one of which is killed; one node over HTTP; and mistakes.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Node;
use super::cluster::wait_for;
use crate::harness::{Directory, free_port, wait_until};

const SECRET: &str = "0123456789abcdef";
/// Keys that no path can have.
const NO_PATHS: [&[u8]; 7] = [b"..", b"a/../b", b"a//b", b"%2e", b"..;", b"\\", b"/\xff/"];

/// What a command left behind.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) code: i32,
    stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Run {
    pub(super) fn text(&self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

fn run<A: AsRef<OsStr>>(directory: &Path, arguments: &[A], stdin: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("kv")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Most read nothing, and may have ended.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin);
    let output = child.wait_with_output().expect("it ends");
    Run {
        code: output.status.code().expect("no signal"),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `weir kv` beside the config of a node.
pub(super) fn kv<A: AsRef<OsStr>>(node: &Node, arguments: &[A]) -> Run {
    run(&node.directory.file(""), arguments, b"")
}

/// The same by the routes of a node.
pub(super) fn over_http(node: &Node, arguments: &[&str]) -> Run {
    let url = format!("http://{}", node.address);
    kv(node, &[arguments, &["--url", &url]].concat())
}

pub(super) fn several() -> Vec<Node> {
    let nodes = Node::several_with(3, &format!("secret = \"{SECRET}\"\n"));
    wait_for(&nodes);
    nodes
}

/// `nodes` of the config, as the flag has it.
pub(super) fn nodes_of(node: &Node) -> String {
    let text = std::fs::read_to_string(node.directory.file("weir.toml")).expect("a config");
    let line = text.lines().find_map(|line| line.strip_prefix("nodes = ["));
    let line = line.expect("nodes").trim_end_matches(']');
    line.replace(['"', ' '], "")
}

/// A key whose owner is this node.
fn key_of(node: &Node) -> String {
    let owns = |key: &String| {
        let target = format!("/v1/placement?key={key}");
        let placement: Value = serde_json::from_slice(&node.ask("GET", &target, b"").body)
            .expect("the placement is JSON");
        let nodes = placement["nodes"].as_array().expect("nodes");
        let own = nodes.iter().find(|node| node["is_this"] == true);
        own.expect("this one")["address"] == placement["key"]["replicas"][0]
    };
    let mut keys = (0..1000).map(|number| format!("key{number}"));
    keys.find(owns).expect("a third of all")
}

/// Three nodes that are asked themselves, and one over HTTP, with the flags for that.
fn each(check: impl Fn(&Node, &[&str])) {
    check(&several()[0], &[]);
    let alone = Node::alone("");
    check(&alone, &["--url", &format!("http://{}", alone.address)]);
}

#[test]
fn values_go_through_as_they_are() {
    each(|node, flags| {
        let directory = node.directory.file("");
        let all: Vec<u8> = (0..=255).collect();
        node.directory.write("value", &all);
        let put = |key: &[u8], value: Option<&str>, stdin: &[u8]| {
            let mut arguments = vec![OsStr::new("put"), OsStr::from_bytes(key)];
            arguments.extend(value.map(OsStr::new));
            arguments.extend(flags.iter().map(OsStr::new));
            let put = run(&directory, &arguments, stdin);
            assert_eq!(put.text().matches('-').count(), 2, "a tag");
        };
        let get = |key: &[u8]| {
            let mut arguments = vec![OsStr::new("get"), OsStr::from_bytes(key)];
            arguments.extend(flags.iter().map(OsStr::new));
            let got = run(&directory, &arguments, b"");
            assert_eq!(got.code, 0, "{}", got.stderr);
            got.stdout
        };
        put(b"text", Some("a b"), b"other");
        assert_eq!(get(b"text"), b"a b");
        put(b"file", Some("@value"), b"other");
        assert_eq!(get(b"file"), all);
        put(b"stdin", Some("-"), &all);
        assert_eq!(get(b"stdin"), all);
        put(b"a/b ../%\xff", None, &all);
        assert_eq!(get(b"a/b ../%\xff"), all);
        let mut arguments = vec![OsStr::new("scan"), OsStr::new("--start")];
        arguments.extend([b"a/b ../%\xff", &b"--end"[..], b"b\xff"].map(OsStr::from_bytes));
        arguments.extend(flags.iter().map(OsStr::new));
        let scanned = run(&directory, &arguments, b"").stdout;
        assert_eq!(scanned, [b"a/b ../%\xff\t", &all[..], b"\n"].concat());
        for key in NO_PATHS {
            put(key, None, key);
        }
        for key in NO_PATHS {
            assert_eq!(get(key), key);
        }
        put(b"number", Some("-5"), b"");
        assert_eq!(get(b"number"), b"-5");
        put(b"empty", Some(""), b"other");
        assert_eq!(get(b"empty"), b"");
        // It is what others read as well.
        assert_eq!(node.ask("GET", "/v1/kv/file", b"").body, all);
    });
}

#[test]
fn the_next_replica_is_asked_when_one_is_killed() {
    let mut nodes = several();
    let key = key_of(&nodes[0]);
    let directory = Directory::new();
    directory.write("secret", format!("{SECRET}\n"));
    let all = nodes_of(&nodes[0]);
    let weir = |arguments: &[&str]| {
        let flags = ["--nodes", &all, "--secret-file", "secret"];
        run(&directory.file(""), &[arguments, &flags].concat(), b"")
    };
    weir(&["put", &key, "before"]).text();
    nodes[0].kill();
    assert_eq!(weir(&["get", &key]).text(), "before");
    wait_until("the others have missed it", || {
        weir(&["put", &key, "after"]).code == 0
    });
    assert_eq!(weir(&["get", &key]).text(), "after");
    assert_eq!(kv(&nodes[1], &["get", &key]).text(), "after");
    assert_eq!(weir(&["scan"]).text(), format!("{key}\tafter\nready\t\n"));
    assert_eq!(weir(&["delete", &key]).code, 0);
    assert_eq!(weir(&["get", &key]).code, 1);
    nodes[1].kill();
    let too_few = weir(&["scan"]);
    assert_eq!(too_few.code, 2);
    assert!(
        too_few.stderr.contains("too few nodes answer"),
        "{too_few:?}"
    );
    let too_few = weir(&["put", &key, "x"]);
    assert_eq!((too_few.code, too_few.stdout.len()), (2, 0));
    assert!(too_few.stderr.contains("too few replicas"), "{too_few:?}");
    nodes[2].kill();
    let nobody = weir(&["put", &key, "x"]);
    assert_eq!(nobody.code, 2);
    assert!(nobody.stderr.contains("no node answers"), "{nobody:?}");
}

#[test]
fn what_is_not_there_or_not_as_it_must_be_ends_with_1() {
    each(|node, flags| {
        let weir = |arguments: &[&str]| kv(node, &[arguments, flags].concat());
        let absent = weir(&["get", "k"]);
        assert_eq!((absent.code, absent.stdout.len()), (1, 0));
        assert!(absent.stderr.contains("there is no key k"), "{absent:?}");
        let unmet = weir(&["put", "k", "x", "--if-match", "*"]);
        assert_eq!(unmet.code, 1);
        assert!(
            unmet
                .stderr
                .contains("nothing is written: there is no key k")
        );
        let first = weir(&["put", "k", "one", "--if-none-match", "*"]).text();
        let again = weir(&["put", "k", "two", "--if-none-match", "*"]);
        assert_eq!(again.code, 1);
        let told = format!("the value of k has the tag {first}");
        assert!(again.stderr.contains(&told), "{again:?}");
        let quoted = format!("\"{}\"", first.trim());
        let second = weir(&["put", "k", "two", "--if-match", &quoted]).text();
        let unmet = weir(&["put", "k", "three", "--if-match", first.trim()]);
        assert_eq!(unmet.code, 1);
        assert_eq!(weir(&["delete", "k", "--if-match", first.trim()]).code, 1);
        assert_eq!(weir(&["get", "k"]).text(), "two");
        let json: Value =
            serde_json::from_str(&weir(&["get", "k", "--json"]).text()).expect("JSON");
        assert_eq!(json["etag"], format!("\"{}\"", second.trim()));
        assert_eq!((&json["key"], &json["value"]), (&"k".into(), &"two".into()));
        assert_eq!(weir(&["delete", "k", "--if-match", second.trim()]).code, 0);
        assert_eq!(weir(&["get", "k"]).code, 1);
        assert_eq!(weir(&["delete", "k"]).code, 0);
    });
}

#[test]
fn a_value_is_there_for_as_long_as_it_says() {
    each(|node, flags| {
        let weir = |arguments: &[&str]| kv(node, &[arguments, flags].concat());
        weir(&["put", "long", "x", "--ttl", "1h"]).text();
        weir(&["put", "short", "x", "--ttl", "300ms"]).text();
        wait_until("it is over", || weir(&["get", "short"]).code == 1);
        assert!(weir(&["scan"]).text().contains("long\tx\n"));
        assert!(!weir(&["scan"]).text().contains("short"));
        let json: Value =
            serde_json::from_str(&weir(&["get", "long", "--json"]).text()).expect("JSON");
        assert!(json["expires_ms"].as_u64() > Some(0), "{json}");
        // As if there were none.
        weir(&["put", "short", "y", "--if-none-match", "*"]).text();
        assert_eq!(weir(&["get", "short"]).text(), "y");
    });
}

#[test]
fn a_scan_is_in_the_order_of_keys_up_to_its_limit() {
    each(|node, flags| {
        let weir = |arguments: &[&str]| kv(node, &[arguments, flags].concat());
        for key in ["b/2", "a", "b/1", "c", "b/3"] {
            weir(&["put", key, &format!("v {key}")]).text();
        }
        weir(&["delete", "b/2"]).text();
        let keys = |arguments: &[&str]| {
            let text = weir(&[&["scan"], arguments].concat()).text();
            let lines = text.lines().filter_map(|line| line.split_once('\t'));
            let keys = lines.filter(|(key, value)| *value == format!("v {key}"));
            keys.map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&[]), ["a", "b/1", "b/3", "c"]);
        assert_eq!(keys(&["--prefix", "b/"]), ["b/1", "b/3"]);
        assert_eq!(keys(&["--start", "b/1", "--end", "c"]), ["b/1", "b/3"]);
        assert_eq!(keys(&["--start", "b/2", "--limit", "1"]), ["b/3"]);
        assert_eq!(keys(&["--end", "b"]), ["a"]);
        assert_eq!(keys(&["--start", "b/2", "--end", ""]), ["b/3", "c"]);
        let part = weir(&["scan", "--limit", "2"]);
        assert_eq!(part.text(), "a\tv a\nb/1\tv b/1\n");
        assert!(
            part.stderr.contains("there is more, from b/3 on"),
            "{part:?}"
        );
        let whole = weir(&["scan", "--prefix", "b/", "--limit", "2"]);
        assert_eq!(whole.stderr, "");
        let lines = weir(&["scan", "--prefix", "b/", "--json"]).text();
        let range = node.ask("GET", "/v1/range?prefix=b/", b"").text();
        assert_eq!(lines, range);
    });
}

/// More than nodes tell at once, and than a limit takes.
#[test]
fn a_scan_is_longer_than_a_page() {
    let nodes = several();
    let value = "x".repeat(8 << 10);
    for number in 0..150 {
        let target = format!("/v1/kv/k{number:03}");
        assert_eq!(nodes[0].ask("PUT", &target, value.as_bytes()).status, 201);
    }
    let text = kv(&nodes[1], &["scan", "--prefix", "k"]).text();
    let keys: Vec<&str> = text.lines().filter_map(|line| line.get(..4)).collect();
    let expected: Vec<String> = (0..150).map(|number| format!("k{number:03}")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn whoever_cannot_be_asked_is_told_with_what_to_do() {
    let nodes = several();
    let (alone, empty) = (Node::alone(""), Directory::new());
    let all = nodes_of(&nodes[0]);
    empty.write("wrong", "another secret that is long");
    empty.write("nothing", "\n");
    empty.write(
        "other.toml",
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/\"\nrespond = {}\n",
    );
    let alone_config = alone.directory.file("weir.toml");
    let alone_config = alone_config.to_str().expect("UTF-8");
    let free = format!("127.0.0.1:{}", free_port());
    let (web, free_url) = (alone.address.to_string(), format!("http://{free}"));
    for (flags, told) in [
        (
            &["--nodes", &*all, "--secret-file", "wrong"][..],
            "does not take the secret",
        ),
        (&["--nodes", &all], "does not take the secret"),
        (
            &["--nodes", &all, "--secret-file", "nothing"],
            "the file is empty",
        ),
        (
            &["--nodes", &all, "--secret-file", "absent"],
            "--secret-file absent: No such file",
        ),
        (&["--nodes", &free], "Connection refused"),
        (&["--nodes", &web], "no node answers"),
        (
            &["--nodes", "kv-1:8081"],
            "expected an IP address and a port",
        ),
        (
            &[],
            "name it with --config, the nodes with --nodes, or a gateway with --url",
        ),
        (&["--config", "absent.toml"], "absent.toml"),
        (&["--config", "other.toml"], "other.toml has no [kv]"),
        (
            &["--config", alone_config],
            "has no nodes, so it has no port for clients: use HTTP",
        ),
        (&["--url", &free_url], "Connection refused"),
        (
            &["--url", "https://127.0.0.1"],
            "expected an address such as http://",
        ),
        (
            &["--url", &free_url, "--nodes", &all],
            "cannot be used with",
        ),
        (&["--secret-file", "wrong"], "--nodes"),
    ] {
        let run = run(&empty.file(""), &[&["get", "k"], flags].concat(), b"");
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{flags:?}");
        assert!(run.stderr.contains(told), "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn bad_input_is_told_before_anything_is_done() {
    let nodes = several();
    let (long, huge) = ("k".repeat(1025), nodes[0].directory.file("huge"));
    let file = std::fs::File::create(huge).expect("a file");
    file.set_len((16 << 20) + 1).expect("a length");
    for (arguments, told) in [
        (&["get", ""][..], "the key has 0 bytes"),
        (
            &["put", &*long, "x"],
            "the key has 1025 bytes, and may have 1 to 1024",
        ),
        (&["put", "k", "@absent"], "the file absent: No such file"),
        (&["put", "k", "@huge"], "more than 16777216 bytes"),
        (&["put", "k", "x", "--ttl", "soon"], "expected a duration"),
        (&["put", "k", "x", "--ttl", "0s"], "expected a duration"),
        (&["put", "k", "x", "--if-match", "x"], "expected a tag"),
        (
            &["put", "k", "x", "--if-match", "*", "--if-none-match", "*"],
            "cannot be used with",
        ),
        (
            &["scan", "--prefix", "a", "--start", "b"],
            "cannot be used with",
        ),
        (&["scan", "--limit", "0"], "0 is not in 1.."),
        (&["get"], "KEY"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        let run = kv(&nodes[0], arguments);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?}");
        assert!(run.stderr.contains(told), "{arguments:?}: {}", run.stderr);
    }
    assert_eq!(kv(&nodes[0], &["get", "k"]).code, 1);
}

#[test]
fn a_gateway_without_a_store_says_what_it_needs() {
    let config = "[[route]]\npath = \"/x\"\nrespond = {}\n";
    let gateway = crate::harness::Gateway::start(config);
    let url = format!("http://{}", gateway.address);
    for arguments in [&["get", "k"][..], &["put", "k", "v"], &["scan"]] {
        let arguments = [arguments, &["--url", &url]].concat();
        let run = run(&gateway.directory.file(""), &arguments, b"");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains("no store answers on"), "{}", run.stderr);
    }
}
