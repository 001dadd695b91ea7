//! What a reload changes, what it leaves as it is, and that a config with a mistake changes nothing.

use std::net::SocketAddr;

use tungstenite::Message;

use super::{ask, forwarding, responding, upstream};
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::tool::run_to_end;
use crate::harness::{App, Directory, Gateway, free_port, wait_until};
use crate::upgrade::websocket::{connect, echo};

#[test]
fn routes_and_upstreams_are_swapped_and_told() {
    let [one, two] = [App::start("one"), App::start("two")];
    let gateway = Gateway::start(
        &[
            upstream("app", &[one.address]),
            forwarding("/{*rest}", "app"),
            responding("/old", "old"),
            responding("/same", "same"),
            responding("/text", "before"),
        ]
        .concat(),
    );
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").field("x-served-by"), Some("one"));
    assert_eq!(connection.get("/text").text(), "before");

    // The other upstream comes first, so that the same one has another place.
    let servers = format!(
        "[\"{}\", {{ address = \"{}\", weight = 3 }}]",
        one.address, two.address
    );
    gateway.configure(&format!(
        "[timeouts]\nidle = \"30s\"\n{}[upstream.app]\nservers = {servers}\n{}",
        upstream("aaa", &[two.address]),
        [
            forwarding("/{*rest}", "app"),
            forwarding("/two", "aaa"),
            responding("/same", "same"),
            responding("/text", "after"),
        ]
        .concat(),
    ));
    let told = gateway.reload();
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_unstable();
    let added = format!("upstream app: server {} added", two.address);
    assert_eq!(
        lines,
        [
            "route /old removed",
            "route /text changed",
            "route /two added",
            "timeouts changed",
            "upstream aaa added",
            &added,
        ]
    );
    // The connection is the same, and the reload was complete when it was answered.
    assert_eq!(connection.get("/text").text(), "after");
    assert_eq!(connection.get("/same").text(), "same");
    assert_eq!(connection.get("/two").field("x-served-by"), Some("two"));
    let served: Vec<_> = (0..8)
        .map(|_| {
            connection
                .get("/old")
                .field("x-served-by")
                .map(str::to_owned)
        })
        .collect();
    let by_two = served.iter().filter(|by| by.as_deref() == Some("two"));
    assert_eq!(by_two.count(), 6, "weight 3 of 4: {served:?}");
    assert_eq!(gateway.reload(), "nothing changed\n");
    assert_eq!(gateway.metric("weir_config_generation"), 3);
    assert_eq!(
        gateway.metric("weir_config_reloads_total{result=\"applied\"}"),
        2
    );
}

#[test]
fn sighup_reloads_and_says_so() {
    let gateway = Gateway::start(&responding("/", "one"));
    gateway.configure(&responding("/", "two"));
    assert_eq!(client::get(gateway.address, "/").text(), "one");
    gateway.process.signal("HUP");
    wait_until("it says so", || {
        gateway
            .process
            .output()
            .contains("weir: reloaded: route / changed")
    });
    assert_eq!(client::get(gateway.address, "/").text(), "two");
    gateway.configure("[[route]]\npath = \"/\"\nx = 1\n");
    gateway.process.signal("HUP");
    wait_until("it says why it does not", || {
        let line = gateway.line_of("[[route]]");
        let output = gateway.process.output();
        // Each line of a log stands alone.
        let mut lines = output.lines();
        let mut says = |line: usize, what: &str| {
            let place = format!("weir.toml:{line}: {what}");
            lines.any(|told| {
                told.contains("error weir: the configuration stays as it is: /")
                    && told.contains(&place)
            })
        };
        says(line, "route[1]") && says(line + 2, "route[1].x")
    });
    assert_eq!(client::get(gateway.address, "/").text(), "two");
}

/// Starts a gateway without a file, whatever the tests themselves have inherited: `disposition` is a flag of env(1).
fn without_a_file(disposition: &str) -> (Process, Directory, SocketAddr) {
    let directory = Directory::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = address.to_string();
    let weir = env!("CARGO_BIN_EXE_weir");
    let flags = [
        disposition,
        weir,
        "serve",
        "--listen",
        &listen,
        "--to",
        "127.0.0.1:1",
    ];
    let process = Process::start("env", &flags, &directory);
    process.wait_for_port(address);
    (process, directory, address)
}

/// As it does every process whose terminal is gone.
#[test]
fn sighup_ends_a_gateway_without_a_file() {
    let (mut process, _directory, _) = without_a_file("--default-signal=HUP");
    process.signal("HUP");
    assert!(!process.wait().success());
}

/// As nohup asks for; and it says so, since others reload by it.
#[test]
fn sighup_that_is_ignored_stays_so_without_a_file() {
    let (process, _directory, address) = without_a_file("--ignore-signal=HUP");
    process.signal("HUP");
    wait_until("it is told", || {
        process.output().contains("SIGHUP is ignored")
    });
    assert_eq!(client::get(address, "/").status, 502, "it still answers");
}

#[test]
fn sighup_reloads_a_file_under_nohup_too() {
    let gateway = Gateway::start_by_env("--ignore-signal=HUP", &responding("/", "one"));
    gateway.configure(&responding("/", "two"));
    gateway.process.signal("HUP");
    wait_until("it is taken up", || {
        client::get(gateway.address, "/").text() == "two"
    });
}

/// Each is told with the line and key, as `weir check` does, changes nothing, and leaves the gateway ready for a better
/// one.
#[test]
fn a_config_with_a_mistake_changes_nothing() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = holder.local_addr().expect("it has an address");
    let gateway = Gateway::start(&responding("/", "one"));
    let listen_twice = format!("[[listener]]\naddress = \"{taken}\"\n");
    let new = responding("/", "two");
    let conflict = format!("{new}{}", responding("/{x}", "x")) + &responding("/{y}", "y");
    for (config, at, told) in [
        ("[[route]\n".to_owned(), "[[route]", ""),
        (
            format!("{new}[[route]]\npth = \"/x\"\nrespond = {{}}\n"),
            "pth",
            "route[2].pth: unknown key; did you mean \"path\"?",
        ),
        (conflict, "/{y}", "route[3].path: found \"/{y}\""),
        (
            format!("{listen_twice}{new}"),
            &taken.to_string(),
            "listener[2].address: cannot listen on ",
        ),
        (
            format!(
                "[upstream.app]\nservers = [\"nowhere.invalid:80\"]\n{new}[dns]\nservers = [\"{taken}\"]\n"
            ),
            "servers",
            "upstream.app.servers[1]: found \"nowhere.invalid:80\", expected a host name that resolves",
        ),
    ] {
        gateway.configure(&config);
        let run = gateway.try_reload();
        assert_eq!(run.status.code(), Some(2), "{config}");
        let line = gateway.line_of(at);
        let expected = format!("weir.toml:{line}: {told}");
        assert!(run.stderr.contains(&expected), "{}\n{expected}", run.stderr);
        assert_eq!(client::get(gateway.address, "/").text(), "one", "{config}");
    }
    assert_eq!(gateway.metric("weir_config_generation"), 1);
    assert_eq!(
        gateway.metric("weir_config_reloads_total{result=\"refused\"}"),
        5
    );
    gateway.configure(&new);
    assert_eq!(gateway.reload(), "route / changed\n");
    assert_eq!(client::get(gateway.address, "/").text(), "two");
}

/// It is named each time, and everything else holds.
#[test]
fn what_takes_a_restart_waits_for_it() {
    let gateway = Gateway::start(&responding("/", "start"));
    let admin = gateway.admin;
    let (other, log) = (free_port(), gateway.directory.file("other.log"));
    let head = gateway.directory.file("weir.toml");
    let head = std::fs::read_to_string(head).expect("there is a config");
    let write = |was: &str, is: &str, body: &str| {
        let changed = head.replace(was, is).replace("start", body);
        gateway.directory.write("weir.toml", changed);
    };
    for (was, is, key) in [
        ("workers = 2", "workers = 3".to_owned(), "server.workers"),
        (
            admin.to_string().as_str(),
            format!("127.0.0.1:{other}"),
            "admin.listen",
        ),
        (
            "[server]",
            format!("[access_log]\npath = {log:?}\n[server]"),
            "access_log",
        ),
    ] {
        write(was, &is, key);
        let told = format!("needs a restart: {key} stays as it is until then\n");
        for changes in ["route / changed\n", "nothing changed\n"] {
            let run = gateway.try_reload();
            assert!(run.status.success(), "{}", run.stderr);
            // With more workers there are fewer descriptors for clients, too.
            assert!(run.stdout.starts_with(changes), "{}", run.stdout);
            assert_eq!(run.stderr, told);
        }
        // Who reads the log is not who has asked for it.
        wait_until("it is in the log too", || {
            let log = gateway.process.output();
            log.contains(&format!("admin listener, by 127.0.0.1: {told}"))
        });
        assert_eq!(client::get(gateway.address, "/").text(), key);
        assert_eq!(gateway.metric("weir_config_needs_restart"), 1);
    }
    write("", "", "start");
    let run = gateway.try_reload();
    assert_eq!((&*run.stdout, &*run.stderr), ("route / changed\n", ""));
    assert_eq!(gateway.metric("weir_config_needs_restart"), 0);
    assert!(!log.exists());
}

/// Half of such a change would be worse than none.
#[test]
fn what_makes_no_sense_before_a_restart_changes_nothing() {
    let gateway = Gateway::start(&responding("/", "one"));
    let admin = gateway.admin;
    let head = gateway.directory.file("weir.toml");
    let head = std::fs::read_to_string(head).expect("there is a config");
    let elsewhere = head.replace(&admin.to_string(), &format!("127.0.0.1:{}", free_port()));
    // The address that the admin listener is to leave is to be a listener's.
    let taken = format!("[[listener]]\naddress = \"{admin}\"\n{elsewhere}");
    let posted = head.replace(&responding("/", "one"), "guard_api = true\n");
    for (config, key) in [(taken, "admin.listen"), (posted, "admin.guard_api")] {
        gateway.directory.write("weir.toml", config);
        let run = gateway.try_reload();
        assert_eq!(run.status.code(), Some(2), "{}", run.stdout);
        let told = format!("{key}: needs a restart: {key} is not changed in a gateway that runs");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
        assert_eq!(client::get(gateway.address, "/").text(), "one");
    }
}

#[test]
fn another_token_holds_at_once() {
    let gateway = Gateway::start(&responding("/", "one"));
    let admin = gateway.admin;
    let head = gateway.directory.file("weir.toml");
    let head = std::fs::read_to_string(head).expect("there is a config");
    let listen = format!("listen = \"{admin}\"");
    let with = |token: &str| head.replace(&listen, &format!("{listen}\ntoken = \"{token}\""));
    let status = |token: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        client::send(admin, &request).status
    };
    let (first, second) = ("0123456789abcdef", "fedcba9876543210");
    gateway.directory.write("weir.toml", with(first));
    assert_eq!(gateway.reload(), "admin.token changed\n");
    assert_eq!((status("none"), status(first)), (401, 200));
    let path = gateway.directory.write("weir.toml", with(second));
    // The file says where the admin listener is; its token is not taken up yet.
    let reload = |flags: &[&str]| {
        let file = path.to_str().expect("UTF-8");
        run_to_end(
            env!("CARGO_BIN_EXE_weir"),
            &[&["reload", file][..], flags].concat(),
        )
    };
    let refused = reload(&[]);
    assert!(
        refused.stderr.contains("asks for its token"),
        "{}",
        refused.stderr
    );
    assert_eq!(reload(&["--token", first]).stdout, "admin.token changed\n");
    assert_eq!((status(first), status(second)), (401, 200));
    assert_eq!(reload(&[]).stdout, "nothing changed\n");
}

/// A log that would not be written for a long while is written soon, and its lines are of the other kind.
#[test]
fn the_access_log_is_taken_up() {
    let directory = Directory::new();
    let log = directory.file("access.log");
    let section = |more: &str| {
        format!(
            "[access_log]\npath = {log:?}\n{more}{}",
            responding("/", "one")
        )
    };
    let gateway = Gateway::start(&section("flush = \"300s\"\n"));
    assert_eq!(client::get(gateway.address, "/").text(), "one");
    gateway.configure(&section("flush = \"100ms\"\nformat = \"json\"\n"));
    assert_eq!(gateway.reload(), "access_log changed\n");
    assert_eq!(client::get(gateway.address, "/").text(), "one");
    wait_until("it is written", || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines.contains("\"GET / HTTP/1.1\" 200") && lines.contains("{\"time\":")
    });
}

#[test]
fn messages_are_taken_up() {
    let gateway = Gateway::start(&responding("/", "one"));
    gateway.configure(&format!(
        "[log]\nformat = \"json\"\n{}",
        responding("/", "one")
    ));
    assert_eq!(gateway.reload(), "log changed\n");
    gateway.process.signal("HUP");
    let told = "\"level\":\"info\",\"message\":\"reloaded: nothing changed\"}";
    wait_until("it says so", || gateway.process.output().contains(told));
}

/// Connections to an endpoint that stays are used on, and what was counted of it and of a route is not forgotten; what is
/// gone is closed.
#[test]
fn pools_and_counts_of_what_stays_stay() {
    let [kept, gone] =
        ["kept", "gone"].map(|name| Origin::saying(([127, 0, 0, 1], 0).into(), name));
    let config = |servers: &[_], more: &str| {
        let one_worker = "[server]\nworkers = 1\n";
        format!(
            "{one_worker}{}{}{more}",
            upstream("app", servers),
            forwarding("/", "app")
        )
    };
    let gateway = Gateway::start(&config(&[kept.address, gone.address], ""));
    let mut connection = Connection::open(gateway.address);
    for _ in 0..6 {
        assert_eq!(connection.get("/").status, 200);
    }
    let counted = |name: &str, endpoint: &Origin| {
        let endpoint = endpoint.address;
        gateway.metric(&format!("{name}{{upstream=\"app\",endpoint=\"{endpoint}\""))
    };
    assert_eq!(counted("weir_upstream_connects_total", &kept), 1);
    wait_until("both connections are idle", || {
        counted("weir_upstream_idle_connections", &gone) == 1
    });
    for round in 0..20 {
        let text = responding("/x", &round.to_string());
        gateway.configure(&config(&[kept.address], &text));
        gateway.reload();
        assert_eq!(connection.get("/").text(), "kept");
    }
    assert_eq!(
        counted("weir_upstream_connects_total", &kept),
        1,
        "one connection serves all"
    );
    assert_eq!(counted("weir_upstream_pool_hits_total", &kept), 22);
    gateway.wait_for_metric("weir_requests_total{route=\"/\",class=\"2xx\"}", 26);
    let page = client::ask_admin(gateway.admin, "/metrics").text();
    assert!(!page.contains(&gone.address.to_string()), "it is gone");
}

/// A tunnel goes on whatever becomes of its route and its endpoint.
#[test]
fn a_websocket_outlives_its_route() {
    let origin = echo();
    let gateway = Gateway::to(&[origin.address]);
    let mut socket = connect(gateway.address);
    for config in [responding("/", "one"), responding("/", "two")] {
        gateway.configure(&config);
        gateway.reload();
        socket.send(Message::text("still here")).expect("sent");
        assert_eq!(socket.read().expect("an echo"), Message::text("still here"));
    }
    assert_eq!(client::get(gateway.address, "/").text(), "two");
}

/// A route may begin to cache; the cache it opens then holds on to what it has while routes change.
#[test]
fn a_cache_can_be_opened_and_keeps_what_it_has() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 2\r\n\r\nok",
    );
    let app = upstream("app", &[origin.address]);
    let plain = forwarding("/", "app");
    let gateway = Gateway::start(&format!("{app}{plain}"));
    let status = || {
        let response = client::get(gateway.address, "/");
        response.field("cache-status").map(str::to_owned)
    };
    assert_eq!(status(), None);
    gateway.configure(&format!("{app}{plain}cache = true\n"));
    assert_eq!(gateway.reload(), "route / changed\n");
    assert!(status().is_some_and(|status| status.contains("fwd=")));
    assert!(status().is_some_and(|status| status.contains("hit")));
    gateway.configure(&format!(
        "{app}{}{plain}cache = true\n",
        responding("/x", "x")
    ));
    gateway.reload();
    assert!(
        status().is_some_and(|status| status.contains("hit")),
        "it is kept"
    );
    let hits = gateway.metric("weir_cache_hits_total");
    assert_eq!(hits, 2);
    gateway.configure(
        &format!("{app}{plain}[cache]\nmemory = \"64MiB\"\n")
            .replace(&plain, &format!("{plain}cache = true\n")),
    );
    // What goes with the memory is no key that anybody wrote.
    let run = gateway.try_reload();
    let told = "needs a restart: cache.memory stays as it is until then\n";
    assert_eq!(run.stderr, told);
}

/// Limits that are held for connections that come, not only for those of the start.
#[test]
fn limits_are_taken_up() {
    let gateway = Gateway::start(&responding("/", "one"));
    let mut open = Connection::open(gateway.address);
    assert_eq!(open.get("/").status, 200);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n",
        "x".repeat(2000)
    );
    assert_eq!(client::send(gateway.address, &long).status, 200);
    let limits = "[limits]\nconnections = 1\nheader_bytes = \"1KiB\"\n";
    gateway.configure(&format!("{limits}{}", responding("/", "one")));
    assert_eq!(gateway.reload(), "limits changed\n");
    wait_until("only one is open", || {
        let open =
            |worker| gateway.metric(&format!("weir_client_connections{{worker=\"{worker}\"}}"));
        open(0) + open(1) == 1
    });
    assert_eq!(client::get(gateway.address, "/").status, 503);
    assert_eq!(open.get("/").status, 200);
    open.send(long);
    assert_eq!(open.response().status, 431);
}

#[test]
fn the_control_api_is_for_operators_alone() {
    let gateway = Gateway::start(&responding("/", "one"));
    let post = |fields: &str| {
        let request = format!(
            "POST /reload HTTP/1.1\r\nHost: {}\r\n{fields}\r\n",
            gateway.admin
        );
        client::send(gateway.admin, &request)
    };
    let json = "Content-Type: application/json\r\nContent-Length: 0\r\n";
    assert_eq!(
        post("Content-Length: 0\r\n").status,
        415,
        "what a form can send"
    );
    let foreign = format!("{json}Origin: http://evil.example\r\n");
    assert_eq!(post(&foreign).status, 403);
    assert_eq!(
        post(&format!("{json}Sec-Fetch-Site: cross-site\r\n")).status,
        403
    );
    assert_eq!(
        gateway.metric("weir_config_reloads_total{result=\"applied\"}"),
        0
    );
    assert_eq!(post(json).status, 200);
    let wrong = ask(&gateway, "GET", "/reload", "");
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("POST")));
}

/// Workers need descriptors, which are then missing for connections; but those that are not there yet need none.
#[test]
fn workers_that_wait_for_a_restart_take_nobody_a_connection() {
    let config = responding("/", "start");
    let gateway = Gateway::start_limited(&config, "ulimit -n 600");
    let path = gateway.directory.file("weir.toml");
    let text = std::fs::read_to_string(path).expect("there is a config");
    let text = text.replace("workers = 2", "workers = 20");
    gateway.directory.write("weir.toml", text);
    assert_eq!(gateway.reload(), "nothing changed\n");
}

/// `weir reload` asks where the file says, which may be what was changed.
#[test]
fn a_reload_that_reaches_nobody_names_the_ways_that_are_left() {
    let gateway = Gateway::start(&responding("/", "start"));
    let path = gateway.directory.file("weir.toml");
    let text = std::fs::read_to_string(&path).expect("there is a config");
    let other = format!("127.0.0.1:{}", free_port());
    std::fs::write(&path, text.replace(&gateway.admin.to_string(), &other)).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", path]);
    assert_eq!(run.status.code(), Some(2));
    for way in [other.as_str(), "--admin OLD", "--token OLD", "--pid PID"] {
        assert!(run.stderr.contains(way), "{way}: {}", run.stderr);
    }
}

/// Who knows the process alone reaches it all the same: by the admin listener that is its own, and else by a signal, once the file is
/// found to be sound.
#[test]
fn a_process_is_reached_by_its_admin_listener_or_else_by_a_signal() {
    let gateway = Gateway::start(&responding("/", "start"));
    let other = Gateway::start(&responding("/", "other"));
    let path = gateway.directory.file("weir.toml");
    let file = path.to_str().expect("UTF-8");
    let pid = gateway.process.pid().to_string();
    let reload = || run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", file, "--pid", &pid]);
    gateway.configure(&responding("/a", "a"));
    let run = reload();
    assert!(run.stdout.contains("route /a added"), "{}", run.stdout);

    // Another process has the address that the file says now.
    gateway.configure(&responding("/b", "b"));
    let text = std::fs::read_to_string(&path).expect("there is a config");
    let elsewhere = text.replace(&gateway.admin.to_string(), &other.admin.to_string());
    std::fs::write(&path, elsewhere).expect("a file");
    let run = reload();
    let signalled = format!("process {pid} reads it; what changes is in its log");
    assert!(
        run.stdout.contains(&signalled),
        "{}{}",
        run.stdout,
        run.stderr
    );
    wait_until("it has read the file", || {
        client::get(gateway.address, "/b").status == 200
    });
    assert!(!other.process.output().contains("reloaded"));

    gateway.configure("nonsense = 1\n");
    let run = reload();
    assert_eq!(run.status.code(), Some(2));
    assert!(
        run.stderr.contains("nonsense: unknown key"),
        "{}",
        run.stderr
    );
}
