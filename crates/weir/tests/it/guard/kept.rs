//! Apps that stay: over a reload, over the end of the process, and over its end by SIGKILL at any moment.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::{app, ask, post, saved, take, taking_apps};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{Directory, PATIENCE, free_port};

fn origin() -> Origin {
    Origin::saying(([127, 0, 0, 1], 0).into(), "app")
}

#[test]
fn a_reload_keeps_apps_and_what_the_file_says_goes_first() {
    let directory = Directory::new();
    let key = format!(
        "guard_api = true\nguard_file = \"{}\"\n",
        directory.file("guard.json").display()
    );
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    let mut posted = app("www.example.com", origin.address, "/a");
    posted["paths"] = json!(["/a", "/b"]);
    posted["methods"] = json!(["GET", "GET"]);
    take(&gateway, &posted);
    let route =
        "[[route]]\nhost = \"www.example.com\"\npath = \"/a\"\nrespond = { body = \"file\" }\n";
    gateway.configure(&format!(
        "{key}[upstream.first]\nservers = [\"127.0.0.1:1\"]\n{route}"
    ));
    assert!(gateway.reload().contains("route www.example.com/a added"));
    assert_eq!(ask(&gateway, "GET", "www.example.com", "/a").text(), "file");
    assert_eq!(ask(&gateway, "GET", "www.example.com", "/b").text(), "app");
    gateway.configure(&key);
    let _ = gateway.reload();
    assert_eq!(ask(&gateway, "GET", "www.example.com", "/a").text(), "app");
    gateway.configure(route);
    let run = gateway.try_reload();
    assert!(
        run.stderr.contains("needs a restart: admin.guard_api"),
        "{}",
        run.stderr
    );
}

#[test]
fn apps_are_there_again_after_a_start_and_one_of_guards_files_is_taken_over() {
    let directory = Directory::new();
    let origin = origin();
    // As guard writes it.
    let old = json!({"apps": {"old.example.com": {
        "name": "old.example.com", "backends": [origin.address.to_string()], "weights": [5], "ratio": 0.3,
        "disable_tsr": false, "load_balance_method": "rr", "paths": ["/"], "methods": ["get"],
        "fallback_type": "text", "fallback_content": "too many requests"
    }}});
    let path = directory.write("guard.json", old.to_string());
    let gateway = taking_apps(&directory, "");
    assert_eq!(ask(&gateway, "GET", "old.example.com", "/").text(), "app");
    take(&gateway, &app("new.example.com", origin.address, "/"));
    drop(gateway);
    let apps = &saved(&path)["apps"];
    assert_eq!(apps["old.example.com"], old["apps"]["old.example.com"]);
    let gateway = taking_apps(&directory, "");
    for host in ["old.example.com", "new.example.com"] {
        assert_eq!(ask(&gateway, "GET", host, "/").text(), "app", "{host}");
    }
}

/// What a reload has put up with does not keep the gateway from starting.
#[test]
fn after_a_start_what_the_file_says_goes_first_too() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    take(&gateway, &app("www.example.com", origin.address, "/a"));
    drop(gateway);
    let route =
        "[[route]]\nhost = \"www.example.com\"\npath = \"/a\"\nrespond = { body = \"file\" }\n";
    let gateway = taking_apps(&directory, route);
    assert_eq!(ask(&gateway, "GET", "www.example.com", "/a").text(), "file");
    assert_eq!(ask(&gateway, "GET", "www.example.com", "/a/").status, 301);
}

#[test]
fn two_apps_of_one_host_have_their_own_backends() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let [a, b] = ["a", "b"].map(|name| Origin::saying(([127, 0, 0, 1], 0).into(), name));
    take(&gateway, &app("www.example.com:1", a.address, "/a"));
    take(&gateway, &app("www.example.com:2", b.address, "/b"));
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "GET", "www.example.com", "/a").text(), "a");
        assert_eq!(ask(&gateway, "GET", "www.example.com", "/b").text(), "b");
        // What is posted again leaves the other's alone.
        take(&gateway, &app("www.example.com:1", a.address, "/a"));
    }
}

#[test]
fn a_file_that_cannot_be_read_keeps_the_gateway_from_starting() {
    for (content, problem) in [
        ("{\"apps\": {\"a\"", "EOF while parsing"),
        (
            r#"{"apps": {"a": {"name": "a", "paths": ["/"]}}}"#,
            "app \"a\": path and method does not match",
        ),
    ] {
        let directory = Directory::new();
        let file = directory.write("guard.json", content);
        let config = format!(
            "[[listener]]\naddress = \"127.0.0.1:{}\"\n[admin]\nlisten = \"127.0.0.1:{}\"\nguard_api = true\nguard_file = \"{}\"\n",
            free_port(),
            free_port(),
            file.display()
        );
        let config = directory.write("weir.toml", config);
        let mut process = Process::weir(
            &["serve", "--config", config.to_str().expect("UTF-8")],
            &directory,
        );
        assert_eq!(process.wait().code(), Some(1));
        let output = process.output();
        assert!(
            output.contains("guard.json: ") && output.contains(problem),
            "{output}"
        );
    }
}

#[test]
fn an_app_that_cannot_be_saved_is_not_served() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    take(&gateway, &app("a.example.com", origin.address, "/"));
    // Nothing can be written in its place.
    let draft = directory.file("guard.json.draft");
    std::fs::create_dir(&draft).expect("a directory can be made");
    let refused = post(
        &gateway,
        &app("b.example.com", origin.address, "/").to_string(),
    );
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(ask(&gateway, "GET", "b.example.com", "/").status, 404);
    assert_eq!(ask(&gateway, "GET", "a.example.com", "/").status, 200);
    std::fs::remove_dir(draft).expect("it is empty");
    // What is there can be replaced by no file.
    let file = directory.file("guard.json");
    std::fs::remove_file(&file).expect("it is there");
    std::fs::create_dir_all(file.join("x")).expect("a directory can be made");
    let refused = post(
        &gateway,
        &app("b.example.com", origin.address, "/").to_string(),
    );
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(ask(&gateway, "GET", "b.example.com", "/").status, 404);
    assert_eq!(ask(&gateway, "GET", "a.example.com", "/").status, 200);
}

/// Posts apps for as long as somebody answers; counts those that were taken.
fn storm(
    admin: std::net::SocketAddr,
    origin: std::net::SocketAddr,
    first: usize,
    taken: &AtomicUsize,
) {
    for number in first.. {
        let mut posted = app("www.example.com", origin, &format!("/{number}"));
        // Writing it takes more than one page.
        posted["fallback_content"] = "x".repeat(20_000 + number % 7 * 3000).into();
        let body = posted.to_string();
        let request = format!(
            "POST /app HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let Ok(mut stream) = TcpStream::connect(admin) else {
            return;
        };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut answer = String::new();
        let sent = stream.write_all(request.as_bytes());
        if sent.is_err()
            || stream.read_to_string(&mut answer).is_err()
            || !answer.ends_with("success!")
        {
            assert!(!answer.contains("bad configuration"), "{answer}");
            return;
        }
        taken.store(number, Ordering::SeqCst);
    }
}

#[test]
fn killed_in_a_storm_of_posts_the_file_is_whole_and_has_what_was_answered_for() {
    let directory = Directory::new();
    let origin = origin();
    let path = directory.file("guard.json");
    let taken = AtomicUsize::new(0);
    for round in 0..8 {
        let mut gateway = taking_apps(&directory, "");
        let before = taken.load(Ordering::SeqCst);
        if before > 0 {
            let kept = saved(&path)["apps"]["www.example.com"]["paths"][0].clone();
            let kept = kept.as_str().expect("a path").to_owned();
            assert_eq!(ask(&gateway, "GET", "www.example.com", &kept).text(), "app");
        }
        let (admin, backend) = (gateway.admin, origin.address);
        let storm_has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let storm = scope.spawn(|| storm(admin, backend, before + 1, &taken));
            // What can be read at a moment is what a kill at that moment leaves.
            scope.spawn(|| {
                while !storm_has_ended.load(Ordering::SeqCst) {
                    if path.exists() {
                        let _ = saved(&path);
                    }
                }
            });
            // At another moment each time.
            let enough = before + 3 + round * 2;
            while taken.load(Ordering::SeqCst) < enough && !storm.is_finished() {
                std::hint::spin_loop();
            }
            for _ in 0..round * 40_000 {
                std::hint::spin_loop();
            }
            gateway.process.kill();
            let ended = storm.join();
            storm_has_ended.store(true, Ordering::SeqCst);
            ended.expect("the storm ends with the process");
        });
        let answered = taken.load(Ordering::SeqCst);
        assert!(answered > before, "the storm got through");
        let kept = &saved(&path)["apps"]["www.example.com"]["paths"][0];
        // The last one may be saved without having been answered for.
        let possible = [format!("/{answered}"), format!("/{}", answered + 1)];
        assert!(
            possible.iter().any(|path| *kept == path.as_str()),
            "{kept} of {possible:?}"
        );
        // The next round must not post again what may be there.
        taken.store(answered + 1, Ordering::SeqCst);
    }
}
