//! weir as others supervise it: what systemd is told, and the files in `packaging/`.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::tool;
use crate::harness::{Directory, Gateway, PATIENCE, free_port, wait_until};

const UNIT: &str = include_str!("../../../../packaging/systemd/weir.service");
const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/weir.yaml");

/// The values of a key of the unit.
fn unit(key: &str) -> Vec<&'static str> {
    let lines = UNIT.lines().filter_map(|line| line.split_once('='));
    let values = lines.filter(|(name, _)| *name == key);
    values.map(|(_, value)| value).collect()
}

/// The arguments of a command line of the unit, with another config file.
fn arguments<'a>(line: &'a str, config: &'a str) -> Vec<&'a str> {
    let words = line.split(' ').skip(1);
    let other = |word| {
        if word == "/etc/weir/weir.toml" {
            config
        } else {
            word
        }
    };
    words.map(other).collect()
}

#[test]
fn systemd_is_told_when_it_serves_and_when_it_ends() {
    let directory = Directory::new();
    let path = directory.file("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let next = || {
        let mut bytes = [0; 500];
        let length = manager.recv(&mut bytes).expect("it is told");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let port = free_port();
    let config = format!(
        "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[timeouts]\ndrain = \"7s\"\n[[route]]\npath = \"/\"\nrespond = {{}}\n"
    );
    let config = directory.write("weir.toml", config);
    let config = config.to_str().expect("UTF-8");
    assert_eq!(unit("Type"), ["notify"]);
    let [command] = unit("ExecStart")[..] else {
        panic!("one command");
    };
    let socket = format!("NOTIFY_SOCKET={}", path.display());
    let start = [
        &[socket.as_str(), env!("CARGO_BIN_EXE_weir")],
        &*arguments(command, config),
    ]
    .concat();
    let mut process = Process::start("env", &start, &directory);
    assert_eq!(next(), "READY=1");
    // By now it serves.
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(client::get(address, "/").status, 200);

    // As on `systemctl reload`.
    let [reload] = unit("ExecReload")[..] else {
        panic!("one command");
    };
    let pid = process.pid().to_string();
    let reload = reload.replace("$MAINPID", &pid);
    let told = tool::run(env!("CARGO_BIN_EXE_weir"), &arguments(&reload, config));
    assert!(
        told.stdout.contains(&format!("process {pid} reads it")),
        "{}",
        told.stdout
    );
    wait_until("it has read the file", || {
        process.output().contains("reloaded")
    });

    process.signal("TERM");
    assert_eq!(
        next(),
        "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=17000000"
    );
    assert_eq!(process.wait().code(), Some(0));
}

/// A restart mends no mistake. But what a file says may be right before all that it names is there.
#[test]
fn what_is_not_there_yet_is_tried_again() {
    assert_eq!(unit("RestartPreventExitStatus"), ["2"]);
    assert_eq!(unit("StartLimitIntervalSec"), ["0"]);
    let directory = Directory::new();
    let token = "token = { file = \"later\" }";
    let config = format!(
        "[[listener]]\naddress = \"127.0.0.1:{}\"\n[admin]\nlisten = \"127.0.0.1:{}\"\n{token}\n\
         [[route]]\npath = \"/\"\nrespond = {{}}\n",
        free_port(),
        free_port()
    );
    let path = directory.file("weir.toml");
    let path = path.to_str().expect("UTF-8");
    let start = || Process::weir(&["serve", "--config", path], &directory);
    let ends = || {
        let mut process = start();
        (process.wait().code(), process.output())
    };
    let (status, told) = ends();
    assert_eq!(status, Some(1), "{told}");
    directory.write("weir.toml", &config);
    let (status, told) = ends();
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("error weir: "), "{told}");
    assert!(told.contains(":5: admin.token: found"), "{told}");
    directory.write("weir.toml", config.replace("respond", "respont"));
    let (status, told) = ends();
    assert_eq!(status, Some(2), "{told}");
    directory.write("weir.toml", config);
    directory.write("later", "0123456789abcdef\n");
    let process = start();
    wait_until("it serves", || process.output().contains("listening on"));
}

/// The block of text below a line of YAML, without its indentation.
fn block(yaml: &str, heading: &str) -> String {
    let lines = yaml
        .lines()
        .skip_while(|line| line.trim() != heading)
        .skip(1);
    let mut lines = lines.peekable();
    let first = lines.peek().expect("a line");
    let indent = first.len() - first.trim_start().len();
    let inside = lines.take_while(|line| line.is_empty() || line.starts_with(&" ".repeat(indent)));
    let inside: Vec<_> = inside
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    inside.join("\n") + "\n"
}

/// The path that a probe of the manifest asks for.
fn probe(name: &str) -> String {
    let probe = block(MANIFEST, name);
    let path = probe
        .lines()
        .find_map(|line| line.trim().strip_prefix("path: "));
    path.expect("it has a path").to_owned()
}

/// The gateway of the manifest: its config, with other addresses.
#[test]
fn the_probes_of_the_manifest_tell_a_pod_that_drains_from_one_that_hangs() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let _ = released.lock().expect("no handler panics").recv();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let directory = Directory::new();
    let token = directory.write("token", "0123456789abcdef\n");
    let (port, admin) = (free_port(), free_port());
    let mut config = block(MANIFEST, "weir.toml: |");
    for (theirs, ours) in [
        ("0.0.0.0:8080", format!("127.0.0.1:{port}")),
        ("0.0.0.0:9901", format!("0.0.0.0:{admin}")),
        ("/run/secrets/weir/token", token.display().to_string()),
    ] {
        assert!(config.contains(theirs), "{theirs}");
        config = config.replace(theirs, &ours);
    }
    let config = directory.write("weir.toml", config);
    let config = config.to_str().expect("UTF-8");
    // What a variable stands for comes from the manifest.
    assert!(MANIFEST.contains("name: APP"));
    let app = format!("APP={}", origin.address);
    let start = [
        app.as_str(),
        env!("CARGO_BIN_EXE_weir"),
        "serve",
        "--config",
        config,
    ];
    let mut process = Process::start("env", &start, &directory);
    let [address, admin] = [port, admin].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    process.wait_for_port(admin);
    process.wait_for_port(address);
    let (ready, live) = (probe("readinessProbe:"), probe("livenessProbe:"));
    // Nobody gives a kubelet the token.
    assert_eq!(client::get(admin, "/metrics").status, 401);
    assert_eq!(client::get(admin, &ready).status, 200);
    assert_eq!(client::get(admin, &live).status, 200);

    let mut held = Connection::open(address);
    held.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let _ = origin.next_head();
    process.signal("TERM");
    wait_until("it is not ready", || {
        client::get(admin, &ready).status == 503
    });
    assert_eq!(client::get(admin, &ready).text(), "draining\n");
    assert_eq!(client::get(admin, &live).status, 200);
    release.send(()).expect("the origin waits");
    assert_eq!(held.response().text(), "ok");
    assert_eq!(process.wait().code(), Some(0));
}

/// Where apps of guard's interface may have any path, probes keep theirs.
#[test]
fn probes_go_before_apps() {
    let gateway = Gateway::start_in(|directory| {
        let file = directory.file("guard.json");
        format!("guard_api = true\nguard_file = {file:?}\n")
    });
    for path in ["/readyz", "/livez"] {
        assert_eq!(client::ask_admin(gateway.admin, path).text(), "ok\n");
    }
    let mut connection = Connection::open(gateway.admin);
    let request = "POST /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    connection.send(request.as_bytes());
    assert_ne!(connection.response().status, 200);
}
