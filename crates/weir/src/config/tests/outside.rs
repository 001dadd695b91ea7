//! Values from variables and files: where they may stand, what is said when they cannot be had, and that nothing repeats
//! them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use weir_gateway::settings::{Action, Settings};

use super::super::sources::Sources;
use super::super::{Inputs, config_of};
use super::schema::complaints;
use super::{LISTENER, ROUTE, UPSTREAM};

/// The environment of these tests.
fn variable(name: &str) -> Option<OsString> {
    let value = match name {
        "PORT" => "8080",
        "WORKERS" => "3",
        "ZERO" => "007",
        "ON" => "true",
        "RATIO" => "0.25",
        "SIZE" => "2MiB",
        "EMPTY" => "",
        "NAME" => "app",
        "SECRET" => "correct-horse-battery",
        "SHORT" => "pass-word",
        "BRACES" => "{client}{{x}",
        "ODD" => "Correct-Horse\r\n{Battery}\"/*",
        "BYTES" => return Some(OsString::from_vec(vec![0xff])),
        _ => return None,
    };
    Some(value.into())
}

fn read(text: &str) -> Result<Settings, String> {
    let mut inputs = Inputs::default();
    let sources = Sources::of_text(text, "weir.toml", &variable, &mut inputs);
    let config = config_of(&sources, &variable, &mut inputs);
    config
        .map(|config| config.settings)
        .map_err(|error| error.to_string())
}

/// What is read of the text; an editor has nothing against it.
#[track_caller]
fn valid(text: &str) -> Settings {
    assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_variable_stands_for_what_is_wanted_there() {
    let plain = valid(
        "listener = [{ address = \"0.0.0.0:8080\" }]\nserver.workers = 3\nlimits.body = \"2MiB\"\n\
         limits.header_count = 50\nupstream.app = { servers = [\"app:8080\"], concurrency = 3, ejection = true }\n\
         [[route]]\npath = \"/\"\nupstream = \"app\"\nbreaker = { ratio = 0.25 }\ntimeout.response = \"5s\"\n\
         cache.key.query = true\nfallback = { body = \"x $5 $\", status = 503 }\n",
    );
    let outside = valid(
        "listener = [{ address = \"0.0.0.0:${PORT}\" }]\nserver.workers = \"${WORKERS}\"\nlimits.body = \"${SIZE}\"\n\
         limits.header_count = \"${COUNT:-50}\"\n\
         upstream.app = { servers = [\"${NAME}:${PORT}\"], concurrency = \"${WORKERS}\", ejection = \"${ON}\" }\n\
         [[route]]\npath = \"/${EMPTY}\"\nupstream = \"${NAME}\"\nbreaker = { ratio = \"${RATIO}\" }\n\
         timeout.response = \"${EMPTY:-5s}\"\ncache.key.query = \"${ON}\"\n\
         fallback = { body = \"x $5 $\", status = \"${STATUS:-503}\" }\n",
    );
    assert_eq!(format!("{outside:#?}"), format!("{plain:#?}"));
}

#[test]
fn a_literal_is_written_with_two_signs() {
    let text = [
        LISTENER,
        "route = [{ path = \"/\", respond.body = \"$${X}\" }]\n",
    ]
    .concat();
    let routes = format!("{:?}", valid(&text).routes);
    let bytes = format!("{:?}", b"${X}");
    assert!(
        routes.contains("${X}") || routes.contains(&bytes),
        "{routes}"
    );
}

/// A key that has a brace in it is no text with variables.
#[test]
fn braces_from_outside_stand_for_themselves() {
    let path = file("braces", "{client}{{x}");
    let text = format!(
        "{LISTENER}{UPSTREAM}[[route]]\npath = \"/\"\nupstream = \"app\"\n\
         request_headers.set = {{ X-A = \"{{host}}${{BRACES}}\", X-B = {{ file = {path:?} }} }}\n",
    );
    let settings = valid(&text);
    let Action::Forward(rule) = &settings.routes[0].action else {
        panic!("it forwards");
    };
    let set = &rule.request_headers.set;
    assert_eq!(set[1].1.as_fixed(), Some("{client}{{x}"));
    let parts = format!("{:?}", set[0].1.parts);
    assert_eq!(parts, "[Variable(Host), Text(\"{client}{{x}\")]");
}

#[test]
fn a_variable_that_cannot_be_had_is_told_with_its_place() {
    for (line, expected) in [
        (
            "server.workers = \"${CORES}\"",
            "server.workers: found \"${CORES}\", the variable CORES is not set; set it, or write what holds without it \
             as in \"${CORES:-VALUE}\"",
        ),
        (
            "dns.servers = [\"127.0.0.1\", \"${BYTES}\"]",
            "dns.servers[2]: found \"${BYTES}\", the variable BYTES has bytes that are not UTF-8",
        ),
        (
            "limits.body = \"${SIZE\"",
            "limits.body: found \"${SIZE\", expected a variable such as \"${PORT}\" or \"${PORT:-8080}\" at \"${SIZE\"; a \
             literal ${ is written $${",
        ),
        (
            "server.workers = \"${ZERO}\"",
            "server.workers: found \"${ZERO}\", expected an integer from 1 to 1024",
        ),
        (
            "server.workers = \"${EMPTY}\"",
            "server.workers: found \"${EMPTY}\", expected an integer from 1 to 1024",
        ),
        (
            "server.workers = \"${NAME}${CORES:-x}\"",
            "server.workers: found \"${NAME}x\", expected an integer from 1 to 1024",
        ),
        (
            "\"${NAME}\" = 1",
            "\"${NAME}\": unknown key; expected one of \"server\", \"listener\", \"admin\", \"log\", \"access_log\", \"request_id\", \
             \"response_headers\", \"limits\", \"trusted_proxies\", \"timeouts\", \"cache\", \"dns\", \"error_pages\", \"upstream\", \"queue\", \"kv\", \"table\", \"route\", \"include\"",
        ),
    ] {
        let error = read(&[LISTENER, line, "\n", ROUTE].concat()).unwrap_err();
        assert_eq!(error, format!("weir.toml:2: {expected}"), "{line}");
    }
}

/// A file of its own for each test.
fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let name = format!("weir-outside-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, content).expect("a file");
    path
}

#[test]
fn a_file_stands_for_a_string_without_its_line_end() {
    for (content, token) in [
        ("correct-horse-battery", "correct-horse-battery"),
        ("correct-horse-battery\n", "correct-horse-battery"),
        ("correct-horse-battery\r\n", "correct-horse-battery"),
    ] {
        let path = file("token", content);
        let text = format!(
            "{LISTENER}{UPSTREAM}admin = {{ listen = \"127.0.0.1:9901\", token = {{ file = {path:?} }} }}\n\
             [[route]]\npath = \"/\"\nupstream = \"app\"\nrequest_headers.set = {{ file = \"x\", X-Key = {{ file = {path:?} }} }}\n",
        );
        let settings = valid(&text);
        let admin = settings.admin.expect("it has one");
        assert_eq!(admin.token.as_deref(), Some(token));
        let Action::Forward(rule) = &settings.routes[0].action else {
            panic!("it forwards");
        };
        let edits = format!("{:?}", rule.request_headers);
        // A field may be called `file`.
        assert!(edits.contains(token) && edits.contains("\"x\""), "{edits}");
    }
}

#[test]
fn a_table_of_weirs_own_is_no_file() {
    let path = file("answer.txt", "an answer");
    let text = format!(
        "{LISTENER}{UPSTREAM}[[route]]\npath = \"/\"\nupstream = \"app\"\nfallback = {{ file = {path:?} }}\n"
    );
    let settings = valid(&text);
    assert!(format!("{:?}", settings.routes).contains("fallback: Some"));
}

#[test]
fn a_file_that_cannot_be_had_is_told_with_its_place() {
    let long = file("long", vec![b'a'; (64 << 10) + 1]);
    let bytes = file("bytes", [0xff]);
    for (value, told) in [
        (
            "{ file = \"/no/such/file\" }".to_owned(),
            "found { file = \"/no/such/file\" }, cannot read /no/such/file: No such file"
                .to_owned(),
        ),
        (
            "{ file = \"${NOWHERE}/x\" }".to_owned(),
            "the variable NOWHERE is not set".to_owned(),
        ),
        (
            "{ file = \"/\" }".to_owned(),
            "cannot read /: it is a directory".to_owned(),
        ),
        (
            "{ file = \"\" }".to_owned(),
            "expected the path of a file".to_owned(),
        ),
        (
            "{ file = 5 }".to_owned(),
            "expected the path of a file".to_owned(),
        ),
        (
            format!("{{ file = {long:?} }}"),
            "has more than 64 KiB".to_owned(),
        ),
        (
            format!("{{ file = {bytes:?} }}"),
            "has bytes that are not UTF-8".to_owned(),
        ),
        (
            "{ file = \"x\", other = 1 }".to_owned(),
            "expected a string of at least 16".to_owned(),
        ),
    ] {
        let text = format!(
            "{LISTENER}{ROUTE}admin = {{ listen = \"127.0.0.1:9901\", token = {value} }}\n"
        );
        let error = read(&text).unwrap_err();
        let first = error.lines().next().unwrap_or_default();
        assert!(first.starts_with("weir.toml:3: admin.token: "), "{error}");
        assert!(first.contains(&told), "{told}: {error}");
    }
}

/// Wherever a value stands that cannot stand there, and whatever its reader makes of it.
#[test]
fn no_message_repeats_what_came_from_outside() {
    const SECRET: &str = "correct-horse-battery";
    const ODD: &str = "correct-horse{battery}";
    let path = file("secret", SECRET);
    let in_file = format!("{{ file = {path:?} }}");
    let mut told = 0;
    for place in super::declared::tree::places() {
        // Paths of files are told, wherever they are from.
        if place.way == ["include"] {
            continue;
        }
        for (value, secret) in [
            ("\"${SECRET}\"", SECRET),
            ("\"http://${SECRET}@x/${SHORT}\"", SECRET),
            ("\"/{${SHORT}\"", "pass-word"),
            ("\"/${ODD}\"", ODD),
            ("\"${ODD}\"", ODD),
            (in_file.as_str(), SECRET),
            ("[\"${SECRET}\"]", SECRET),
        ] {
            let text = super::declared::tree::file(&place, Some(value));
            let Err(error) = read(&text) else { continue };
            told += 1;
            let error = error.to_lowercase();
            for part in [&secret[..8], &secret[secret.len() - 8..]] {
                assert!(!error.contains(part), "{error}\nof {text}");
            }
        }
    }
    assert!(told > 300, "{told}");
}
