//! `weir import guard`: what it writes is accepted and serves.

use crate::harness::Directory;
use crate::harness::tool::run_to_end;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

#[test]
fn what_is_imported_is_accepted() {
    let directory = Directory::new();
    let apps = r#"{"apps": {
        "www.example.com": {"name": "www.example.com", "backends": ["127.0.0.1:80", "127.0.0.1:80"], "weights": [5, 1],
            "ratio": 0.3, "paths": ["/", "/doc/:page", "/share/*file"], "methods": ["GET", "get", "POST"]},
        "[::1]:8080": {"backends": [], "weights": [], "paths": ["/"], "methods": ["GET"], "fallback_type": "html",
            "fallback_content": "<p>\"quoted\"\n\u007f"}
    }}"#;
    let json = directory.write("guard.json", apps);
    let (json, out) = (
        json.display().to_string(),
        directory.file("weir.toml").display().to_string(),
    );
    let printed = run_to_end(WEIR, &["import", "guard", &json]);
    assert!(printed.status.success(), "{}", printed.stderr);
    let written = run_to_end(WEIR, &["import", "guard", &json, "--out", &out]);
    assert!(written.status.success(), "{}", written.stderr);
    let text = std::fs::read_to_string(&out).expect("it was written");
    assert_eq!((text.as_str(), &*written.stdout), (&*printed.stdout, ""));
    let checked = run_to_end(WEIR, &["check", "--config", &out]);
    assert!(
        checked.stdout.ends_with(": ok, 6 routes, 1 upstream\n"),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
    // What is there stays.
    let again = run_to_end(WEIR, &["import", "guard", &json, "--out", &out]);
    assert!(
        !again.status.success() && again.stderr.contains("cannot write"),
        "{}",
        again.stderr
    );
}

#[test]
fn mistakes_name_file_app_and_field() {
    let directory = Directory::new();
    let json = directory.write(
        "guard.json",
        r#"{"apps": {"a": {"backends": ["x"], "weights": []}}}"#,
    );
    let json = json.display().to_string();
    let run = run_to_end(WEIR, &["import", "guard", &json]);
    assert_eq!(run.status.code(), Some(2));
    let expected = format!("{json}: app \"a\": weights: backend and weight does not match\n");
    assert_eq!((&*run.stderr, &*run.stdout), (&*expected, ""));
    let run = run_to_end(WEIR, &["import", "guard", "/nowhere.json"]);
    assert!(
        run.stderr.starts_with("cannot read /nowhere.json"),
        "{}",
        run.stderr
    );
}
