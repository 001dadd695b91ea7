//! What is said of a config file, and of a start that cannot be; and a start without a file.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use super::answering;
use crate::harness::client::{self, Connection};
use crate::harness::process::Process;
use crate::harness::{Directory, Gateway, free_port, wait_until};

/// Runs `weir` to its end; its exit status and what it printed.
fn run(directory: &Directory, arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = Process::weir(arguments, directory);
    let code = process.wait().code();
    (code, process.output())
}

const GOOD: &str = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[upstream.app]\nservers = [\"127.0.0.1:9001\"]\n\
                    [[route]]\npath = \"/{*rest}\"\nupstream = \"app\"\n";

#[test]
fn check_accepts_a_good_file_and_starts_nothing() {
    let directory = Directory::new();
    let path = directory.write("weir.toml", GOOD);
    let path = path.to_str().expect("UTF-8");
    let (code, output) = run(&directory, &["check", "--config", path]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(output, format!("{path}: ok, 1 route, 1 upstream\n"));
}

#[test]
fn check_prints_the_schema_of_a_file() {
    let directory = Directory::new();
    let (code, output) = run(&directory, &["check", "--schema"]);
    assert_eq!(code, Some(0), "{output}");
    let schema: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    let listener = &schema["properties"]["listener"]["items"];
    assert_eq!(listener["required"], serde_json::json!(["address"]));
}

/// The commands that need a file take the one in the directory where they are run.
#[test]
fn a_file_is_found_where_it_usually_is_or_is_asked_for() {
    let directory = Directory::new();
    let run = |command: &str| {
        let script = format!("cd \"$1\" && exec \"$0\" {command}");
        let place = directory.file("");
        let place = place.to_str().expect("UTF-8");
        let mut process = Process::start(
            "sh",
            &["-c", &script, env!("CARGO_BIN_EXE_weir"), place],
            &directory,
        );
        (process.wait().code(), process.output())
    };
    // The system's own file may exist where tests run.
    if !std::path::Path::new("/etc/weir/weir.toml").exists() {
        for (command, advice) in [
            ("serve", "weir serve --listen :8080 --to localhost:3000"),
            ("check", "weir check FILE"),
        ] {
            let (code, output) = run(command);
            assert_eq!(code, Some(2), "{output}");
            for part in ["weir.toml in this directory", "/etc/weir/weir.toml", advice] {
                assert!(output.contains(part), "{part} in {output}");
            }
        }
    }
    directory.write("weir.toml", GOOD);
    for command in ["check", "check weir.toml", "check --config weir.toml"] {
        let (code, output) = run(command);
        assert_eq!(code, Some(0), "{output}");
        assert_eq!(output, "weir.toml: ok, 1 route, 1 upstream\n");
    }
    directory.write("weir.toml", "[[listener]]\n");
    for command in ["serve", "serve weir.toml"] {
        let (code, output) = run(command);
        assert_eq!(code, Some(2), "{output}");
        let is_found = output.contains("info  weir: the config file is weir.toml\n");
        assert_eq!(is_found, command == "serve", "{output}");
        assert!(
            output.contains("\nweir.toml:1: ") || output.starts_with("weir.toml:1: "),
            "{output}"
        );
    }
    // Whoever reads messages by machine gets no other ones.
    directory.write("weir.toml", "[log]\nformat = \"json\"\n[[listener]]\n");
    let (_, output) = run("serve");
    for line in output.lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect(&output);
        assert!(
            message["time"].is_string() && message["level"].is_string(),
            "{output}"
        );
    }
}

/// Every mistake of a file is told at once: file, line, key, what was found, what was expected, what was meant.
#[test]
fn check_and_serve_say_what_is_wrong_with_a_file() {
    let directory = Directory::new();
    let path = directory.write(
        "weir.toml",
        "[server]\nworker = 2\n[[listener]]\naddress = \"127.0.0.1\"\n[timeouts]\nidle = \"60\"\n\
         [upstream.app]\nservers = [\"127.0.0.1:9001\"]\nbalance = \"round-robbin\"\n\
         [[route]]\npath = \"/{*rest}\"\nupstream = \"ap\"\n",
    );
    let path = path.to_str().expect("UTF-8");
    for command in ["check", "serve"] {
        let (code, output) = run(&directory, &[command, "--config", path]);
        assert_eq!(code, Some(2), "{output}");
        let lines: Vec<_> = output.lines().collect();
        let expected: [(&str, &[&str]); 5] = [
            (
                "2: server.worker: ",
                &["unknown key", "did you mean \"workers\"?"],
            ),
            (
                "4: listener[1].address: ",
                &["found \"127.0.0.1\"", "expected an IP address and a port"],
            ),
            (
                "6: timeouts.idle: ",
                &["found \"60\"", "expected a duration"],
            ),
            (
                "9: upstream.app.balance: ",
                &[
                    "found \"round-robbin\"",
                    "expected one of",
                    "did you mean \"round-robin\"?",
                ],
            ),
            (
                "12: route[1].upstream: ",
                &["\"ap\"", "did you mean \"app\"?"],
            ),
        ];
        assert_eq!(lines.len(), expected.len(), "{output}");
        for (line, (start, parts)) in lines.iter().zip(expected) {
            assert!(line.starts_with(&format!("{path}:{start}")), "{line}");
            for part in parts {
                assert!(line.contains(part), "{part} in {line}");
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let directory = Directory::new();
    let broken = directory.write("broken.toml", "[[listener]]\naddress = \"127.0.0.1:1\n");
    let missing = directory.file("missing.toml");
    for (path, parts) in [
        (broken, &["broken.toml:2: "][..]),
        (missing, &["cannot read ", "missing.toml: No such file"]),
    ] {
        let path = path.to_str().expect("UTF-8");
        let (code, output) = run(&directory, &["check", "--config", path]);
        assert_eq!((code, output.lines().count()), (Some(2), 1), "{output}");
        for part in parts {
            assert!(output.contains(part), "{part} in {output}");
        }
    }
}

const CACHE: &str = "[cache]\nmemory = \"16MiB\"\n";
const GUARD: &str = "[admin]\nlisten = \"127.0.0.1:9090\"\nguard_api = true\n";

/// What `serve` could not start with, though the file says nothing wrong.
#[test]
fn check_finds_what_serve_would_refuse() {
    let directory = Directory::new();
    let file = directory.write("file", "");
    let damaged = directory.write("guard.json", "{");
    let at = |name: &str| directory.file(name).display().to_string();
    std::os::unix::fs::symlink("missing/log", directory.file("link")).expect("a link");
    let _socket = UnixListener::bind(directory.file("socket")).expect("a socket");
    let log = |name| {
        let more = format!("[access_log]\npath = {:?}\n", at(name));
        (more, "access_log.path")
    };
    let cases = [
        log("missing/log"),
        log(""),
        log("nothing/"),
        log("link"),
        log("socket"),
        (
            format!(
                "[cache]\nmemory = \"16MiB\"\ndisk = {{ path = {:?}, size = \"64MiB\" }}\n",
                file.display().to_string()
            ),
            "cache.disk.path",
        ),
        (
            format!(
                "[admin]\nlisten = \"127.0.0.1:9090\"\nguard_api = true\nguard_file = {:?}\n",
                damaged.display().to_string()
            ),
            "admin.guard_file",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:8080\"\n".to_owned(),
            "listener[2].address",
        ),
        (
            "[admin]\nlisten = \"[::]:8080\"\ntoken = \"0123456789abcdef0123456789abcdef\"\n"
                .to_owned(),
            "admin.listen",
        ),
    ];
    check_refuses(&directory, &cases);
}

/// What two write to breaks both, however it is spelt.
#[test]
fn no_two_write_to_one_file() {
    let directory = Directory::new();
    let at = |name: &str| directory.file(name).display().to_string();
    let cases = [
        (
            format!("[access_log]\npath = {:?}\n", at("weir.toml")),
            "access_log.path",
        ),
        (
            format!(
                "[access_log]\npath = {path:?}\n[cache]\nmemory = \"16MiB\"\ndisk = {{ path = {path:?}, size = \"64MiB\" }}\n",
                path = at("both")
            ),
            "access_log.path",
        ),
        (
            format!(
                "[access_log]\npath = {:?}\n{CACHE}disk = {{ path = {:?}, size = \"64MiB\" }}\n",
                at("./within"),
                at("within/cache")
            ),
            "access_log.path",
        ),
        (
            format!(
                "[access_log]\npath = {:?}\n{GUARD}guard_file = {:?}\n",
                at("apps.json"),
                at("./apps.json")
            ),
            "admin.guard_file",
        ),
        (
            format!("{GUARD}guard_file = {:?}\n", at("weir.toml")),
            "admin.guard_file",
        ),
    ];
    check_refuses(&directory, &cases);
}

/// One line each, with the key.
fn check_refuses(directory: &Directory, cases: &[(String, &str)]) {
    for (more, key) in cases {
        let good = GOOD.replace("upstream = \"app\"\n", "upstream = \"app\"\ncache = true\n");
        let path = directory.write("weir.toml", good + more);
        let path = path.to_str().expect("UTF-8");
        let (code, output) = run(directory, &["check", "--config", path]);
        assert_eq!(
            (code, output.lines().count()),
            (Some(2), 1),
            "{more}: {output}"
        );
        assert!(output.contains(key), "{key} in {output}");
    }
}

#[test]
fn nobody_waits_for_a_log_that_is_not_read() {
    let directory = Directory::new();
    let pipe = directory.file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let more = format!("[access_log]\npath = {pipe:?}\n");
    let path = directory.write("weir.toml", GOOD.to_owned() + &more);
    let path = path.to_str().expect("UTF-8");
    let (code, output) = run(&directory, &["serve", "--config", path]);
    assert_eq!((code, output.lines().count()), (Some(1), 1), "{output}");
    assert!(output.contains("a pipe that nobody reads"), "{output}");
}

#[test]
fn what_is_no_file_is_refused_at_once_and_a_hundred_mistakes_are_enough() {
    let directory = Directory::new();
    let pipe = directory.file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let pipe = pipe.to_str().expect("UTF-8");
    for (path, what) in [
        ("/dev/zero", "a device"),
        (pipe, "a pipe"),
        ("/", "a directory"),
    ] {
        for command in ["check", "serve"] {
            let (code, output) = run(&directory, &[command, "--config", path]);
            assert_eq!(code, Some(2), "{output}");
            assert!(
                output.contains(&format!("it is {what}, not a file")),
                "{output}"
            );
        }
    }
    let mistakes = "[[listener]]\naddress = 1\n".repeat(1_000);
    let path = directory.write("weir.toml", mistakes);
    let path = path.to_str().expect("UTF-8");
    let (_, output) = run(&directory, &["check", "--config", path]);
    assert_eq!(output.lines().count(), 101, "{output}");
    assert!(output.trim_end().ends_with("in all"), "{output}");
}

/// Another process listens there: one line says so, and nothing is left running.
#[test]
fn a_taken_port_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    let directory = Directory::new();
    let path = directory.write(
        "weir.toml",
        GOOD.replace("127.0.0.1:8080", &address.to_string()),
    );
    let admin = directory.write(
        "admin.toml",
        GOOD.replace(":8080", &format!(":{}", free_port()))
            + &format!("[admin]\nlisten = \"{address}\"\n"),
    );
    let (path, admin) = (
        path.to_str().expect("UTF-8"),
        admin.to_str().expect("UTF-8"),
    );
    let listen = address.to_string();
    for arguments in [
        &["serve", "--config", path][..],
        &["serve", "--config", admin],
        &["serve", "--listen", &listen, "--to", "http://127.0.0.1:1"],
    ] {
        let (code, output) = run(&directory, arguments);
        assert_eq!((code, output.lines().count()), (Some(1), 1), "{output}");
        let expected = format!("cannot listen on {address}: another process does");
        assert!(output.contains(&expected), "{output}");
    }
}

/// Two gateways of one user could share a port by `SO_REUSEPORT`; the second one is refused instead.
#[test]
fn a_second_gateway_does_not_share_the_port() {
    let origin = answering();
    let first = Gateway::to(&[origin.address]);
    let directory = Directory::new();
    let listen = first.address.to_string();
    let to = format!("http://{}", origin.address);
    let (code, output) = run(&directory, &["serve", "--listen", &listen, "--to", &to]);
    assert_eq!(code, Some(1), "{output}");
    assert_eq!(client::get(first.address, "/").text(), "hello");
}

/// No file is needed for the plain case.
#[test]
fn serve_takes_its_settings_from_flags() {
    let origins = [answering(), answering()];
    let directory = Directory::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let to = origins
        .each_ref()
        .map(|origin| format!("http://{}", origin.address));
    // For every address of this machine, which it says.
    let listen = format!(":{}", address.port());
    let arguments = ["serve", "--listen", &listen, "--to", &to[0], "--to", &to[1]];
    let process = Process::weir(&arguments, &directory);
    process.wait_for_port(address);
    let said = format!("listening on 0.0.0.0{listen} (every IPv4 address)");
    wait_until("it says so", || process.output().contains(&said));
    let mut connection = Connection::open(address);
    for _ in 0..4 {
        assert_eq!(connection.get("/").text(), "hello");
    }
    assert_eq!(origins.map(|origin| origin.heads_waiting()), [2, 2]);
}
