//! `weir upstream`: servers are listed and changed, and with a `changes_file` what was changed outlives the process.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::tool::{self, Run};
use crate::harness::{Directory, Gateway, free_port, wait_until};
use crate::reload::{forwarding, upstream};
use crate::upgrade::websocket::{connect, echo};

/// Servers that nobody asks.
const A: &str = "127.0.0.1:9001";
const B: &str = "127.0.0.1:9002";
const C: &str = "127.0.0.1:9003";

fn weir_upstream(admin: SocketAddr, arguments: &[&str]) -> Run {
    let admin = admin.to_string();
    let arguments = [&["upstream"], arguments, &["--admin", &admin]].concat();
    tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments)
}

/// What a command prints, which must succeed.
#[track_caller]
fn told(admin: SocketAddr, arguments: &[&str]) -> String {
    let run = weir_upstream(admin, arguments);
    assert!(run.status.success(), "{arguments:?}: {}", run.stderr);
    run.stdout
}

/// A gateway whose changes are kept, and that can be started again.
struct Kept {
    directory: Directory,
    ports: [u16; 2],
    process: Option<Process>,
}

impl Kept {
    fn new(config: &str) -> Self {
        let mut kept = Self {
            directory: Directory::new(),
            ports: [free_port(), free_port()],
            process: None,
        };
        kept.write(config);
        kept.start();
        kept
    }

    fn write(&self, config: &str) {
        let [port, admin] = self.ports;
        let changes = self.directory.file("changes.json");
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\nchanges_file = \"{}\"\n\
             {config}",
            changes.display()
        );
        self.directory.write("weir.toml", text);
    }

    fn admin(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[1]))
    }

    /// As after a crash.
    fn start(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        let path = self.directory.file("weir.toml");
        let path = path.to_str().expect("UTF-8");
        let process = Process::weir(&["serve", "--config", path], &self.directory);
        process.wait_for_port(self.admin());
        self.process = Some(process);
        // It answers once it has written what it keeps.
        let _ = self.servers();
    }

    /// Server, weight and whether it is drained, of all servers.
    fn servers(&self) -> Vec<(String, u64, bool)> {
        let line = told(self.admin(), &["list", "--json"]);
        let upstream: Value = serde_json::from_str(&line).expect("JSON");
        let servers = upstream["servers"].as_array().expect("a list").iter();
        let server = |server: &Value| {
            let label = server["server"].as_str().expect("a text").to_owned();
            let weight = server["weight"].as_u64().expect("a number");
            (label, weight, server["draining"] == true)
        };
        servers.map(server).collect()
    }

    fn says(&self, text: &str) -> bool {
        let process = self.process.as_ref().expect("it runs");
        process.output().contains(text)
    }
}

fn config(servers: &[&str]) -> String {
    let servers: Vec<SocketAddr> = servers.iter().map(|it| it.parse().expect("one")).collect();
    format!("{}{}", upstream("app", &servers), forwarding("/", "app"))
}

#[test]
fn changes_outlive_the_process_until_the_file_says_something_else() {
    let mut gateway = Kept::new(&config(&[A, B]));
    let admin = gateway.admin();
    assert_eq!(
        told(admin, &["add", "app", C, "--weight", "5"]),
        format!("upstream app: server {C} added\n")
    );
    wait_until("it says who did what", || {
        gateway.says(&format!(
            "info  weir: admin listener, by 127.0.0.1: upstream app: server {C} added\n"
        ))
    });
    told(admin, &["weight", "app", A, "7"]);
    told(admin, &["drain", "app", A]);
    told(admin, &["remove", "app", B]);
    let changed = vec![(A.to_owned(), 7, true), (C.to_owned(), 5, false)];
    assert_eq!(gateway.servers(), changed);
    let list = told(admin, &["list"]);
    for line in [
        format!("since the file was read: upstream app: server {A} has weight 7, it had 1\n"),
        format!("since the file was read: upstream app: server {A} is drained\n"),
        format!("since the file was read: upstream app: server {B} removed\n"),
        format!(
            "kept over a restart in {}\n",
            gateway.directory.file("changes.json").display()
        ),
    ] {
        assert!(list.contains(&line), "{line}: {list}");
    }

    gateway.start();
    assert_eq!(gateway.servers(), changed);
    wait_until("it says so", || {
        gateway.says("changes made through the admin listener are kept")
    });

    // What else the file says of the upstream does not touch them.
    gateway.write(&config(&[A, B]).replace("servers", "idle_timeout = \"9s\"\nservers"));
    gateway.start();
    assert_eq!(gateway.servers(), changed);
    told(admin, &["undrain", "app", A]);
    assert_eq!(gateway.servers()[0], (A.to_owned(), 7, false));

    assert!(told(admin, &["reset"]).contains(&format!("server {B} added")));
    let listed = vec![(A.to_owned(), 1, false), (B.to_owned(), 1, false)];
    assert_eq!(gateway.servers(), listed);
    assert!(told(admin, &["reset"]).starts_with("nothing changed"));
    gateway.start();
    assert_eq!(gateway.servers(), listed);

    told(admin, &["drain", "app", B]);
    gateway.write(&config(&[A, C]));
    gateway.start();
    wait_until("it says so", || {
        gateway.says("are gone, since the file lists other servers")
    });
    assert!(gateway.servers().iter().all(|(_, _, draining)| !draining));
}

/// Whoever adds a server to the file does not mean the one that somebody else has drained.
#[test]
fn a_server_stays_drained_when_the_file_lists_another_one() {
    let mut gateway = Kept::new(&config(&[A, B]));
    let admin = gateway.admin().to_string();
    told(gateway.admin(), &["drain", "app", A]);
    let drained = [A, B, C].map(|server| (server.to_owned(), 1, server == A));
    gateway.write(&config(&[A, B, C]));
    let run = tool::run(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    let kept = format!(
        "upstream app: of the changes made through the admin listener are kept: server {A} is drained\n"
    );
    assert!(run.stdout.contains(&kept), "{}", run.stdout);
    assert_eq!(gateway.servers(), drained);
    // At a start as well.
    gateway.start();
    assert_eq!(gateway.servers(), drained);
    gateway.write(&config(&[C, A]));
    gateway.start();
    assert_eq!(gateway.servers(), [drained[2].clone(), drained[0].clone()]);
}

/// What a reload has dropped does not come back when the file says again what it said before.
#[test]
fn a_reload_that_drops_changes_drops_them_for_good() {
    let mut gateway = Kept::new(&config(&[A, B]));
    let admin = gateway.admin().to_string();
    told(gateway.admin(), &["drain", "app", B]);
    for servers in [[A, C], [A, B]] {
        gateway.write(&config(&servers));
        tool::run(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    }
    gateway.start();
    assert!(gateway.servers().iter().all(|(_, _, draining)| !draining));
}

/// Neither does what a start has dropped.
#[test]
fn a_start_that_drops_changes_drops_them_for_good() {
    let mut gateway = Kept::new(&config(&[A, B]));
    told(gateway.admin(), &["drain", "app", B]);
    for servers in [[A, C], [A, B]] {
        gateway.write(&config(&servers));
        gateway.start();
    }
    assert!(gateway.servers().iter().all(|(_, _, draining)| !draining));
}

#[test]
fn a_reload_that_cannot_drop_changes_is_refused() {
    let gateway = Kept::new(&config(&[A, B]));
    let admin = gateway.admin().to_string();
    let reload = || tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    told(gateway.admin(), &["drain", "app", B]);
    let before = gateway.servers();
    let draft = gateway.directory.file("changes.json.draft");
    fs::create_dir(&draft).expect("a directory");
    // One that drops none has nothing to write.
    assert!(reload().status.success());
    gateway.write(&config(&[A, C]));
    let run = reload();
    assert_eq!(run.status.code(), Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
    assert_eq!(gateway.servers(), before);
    fs::remove_dir(draft).expect("it is empty");
    assert!(reload().status.success());
    assert_eq!(gateway.servers()[1].0, C);
}

#[test]
fn what_cannot_be_kept_is_not_done() {
    let gateway = Kept::new(&config(&[A, B]));
    // Nothing can be written where a directory is.
    fs::create_dir(gateway.directory.file("changes.json.draft")).expect("a directory");
    let run = weir_upstream(gateway.admin(), &["drain", "app", A]);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        run.stderr.contains("changes.json: ") && run.stderr.contains("nothing has changed"),
        "{}",
        run.stderr
    );
    assert!(gateway.servers().iter().all(|(_, _, draining)| !draining));
}

#[test]
fn a_file_of_something_else_is_told_with_its_key() {
    let gateway = Kept::new(&config(&[A, B]));
    let path = gateway.directory.file("weir.toml");
    let path = path.to_str().expect("UTF-8");
    for (text, expected) in [
        (
            "{\"upstreams\": 1}",
            "these are no changes that weir has kept",
        ),
        (
            "{\"upstreams\":{\"app\":{\"file\":[{\"server\":\"127.0.0.1:9001\",\"weight\":1,\"draining\":false},\
             {\"server\":\"127.0.0.1:9002\",\"weight\":1,\"draining\":false}],\"now\":[]}}}",
            "upstream app: it has no server",
        ),
    ] {
        gateway.directory.write("changes.json", text);
        let run = tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["check", "--config", path]);
        assert!(!run.status.success());
        assert!(
            run.stderr.contains(":5: admin.changes_file: "),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

/// A name that only the changes have, and that nobody knows any more, must not keep the gateway from starting.
#[test]
fn a_server_that_is_gone_keeps_nobody_from_starting() {
    let mut gateway = Kept::new(&config(&[A, B]));
    told(gateway.admin(), &["drain", "app", A]);
    let path = gateway.directory.file("changes.json");
    let kept = fs::read_to_string(&path).expect("it was kept");
    let (file, now) = kept.split_once("\"now\"").expect("what holds");
    let now = now.replacen(A, "nowhere.invalid:9001", 1);
    fs::write(&path, format!("{file}\"now\"{now}")).expect("a file");
    gateway.start();
    wait_until("it says so", || {
        gateway.says("are left out until the next start")
    });
    assert_eq!(gateway.servers()[0], (A.to_owned(), 1, false));
}

#[test]
fn what_there_is_not_is_answered_with_what_there_is() {
    let gateway = Gateway::start(&config(&[A, B]));
    for (arguments, expected) in [
        (
            &["drain", "ap", A][..],
            "there is no upstream \"ap\"; there is \"app\"",
        ),
        (
            &["list", "ap"][..],
            "there is no upstream \"ap\"; there are: app",
        ),
        (
            &["reset", "ap"][..],
            "there is no upstream \"ap\"; there is \"app\"",
        ),
        (
            &["weight", "app", C, "5"][..],
            "the upstream has no server \"127.0.0.1:9003\"; there are \"127.0.0.1:9001\", \"127.0.0.1:9002\"",
        ),
        (
            &["add", "app", "127.0.0.1"][..],
            "expected a host and a port",
        ),
        (
            &["weight", "app", A, "0"][..],
            "expected an integer from 1 to 1000",
        ),
    ] {
        let run = weir_upstream(gateway.admin, arguments);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}");
        assert!(
            run.stderr.contains(expected),
            "{arguments:?}: {}",
            run.stderr
        );
    }
    let list = told(gateway.admin, &["list"]);
    assert!(!list.contains("since the file"), "{list}");
    told(gateway.admin, &["drain", "app", A]);
    assert!(told(gateway.admin, &["list"]).contains("gone when weir ends: name a changes_file"));
}

#[test]
fn a_drain_waits_for_what_is_under_way_and_not_for_ever() {
    let origin = echo();
    let other = Origin::saying(([127, 0, 0, 1], 0).into(), "other");
    let config = format!(
        "{}{}",
        upstream("app", &[origin.address]),
        forwarding("/{*rest}", "app")
    );
    let gateway = Gateway::start(&config);
    let socket = connect(gateway.address);
    let server = origin.address.to_string();
    told(gateway.admin, &["add", "app", &other.address.to_string()]);
    let run = weir_upstream(gateway.admin, &["drain", "app", &server, "--wait=100ms"]);
    assert_eq!(run.status.code(), Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("1 request is still on the way to "),
        "{}",
        run.stderr
    );
    // Of a server that somebody removes meanwhile nobody knows what is left.
    let (admin, removed) = (gateway.admin, server.clone());
    told(admin, &["undrain", "app", &server]);
    let waiting =
        std::thread::spawn(move || weir_upstream(admin, &["drain", "app", &removed, "--wait=1h"]));
    wait_until("it is drained", || {
        told(admin, &["list"]).contains("draining")
    });
    told(admin, &["remove", "app", &server]);
    let run = waiting.join().expect("it ends");
    assert_eq!(run.status.code(), Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("was removed meanwhile"),
        "{}",
        run.stderr
    );
    told(admin, &["add", "app", &server]);
    drop(socket);
    let told = told(gateway.admin, &["drain", "app", &server, "--wait"]);
    assert!(told.contains("nothing is on its way"), "{told}");
}
