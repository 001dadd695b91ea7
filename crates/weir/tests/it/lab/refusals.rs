//! What cannot be done: one clear line each, exit code 2, and nothing left behind.

use super::{TINY, lab, leftovers, run, stderr};
use crate::harness::{App, Directory, free_port};

/// Runs `weir lab`, which must refuse; the one line it says.
fn refusal(arguments: &[&str], directory: &Directory) -> String {
    let output = run(arguments, directory);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
    // What is told on the way to it does not count.
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn an_unknown_scenario_is_answered_with_the_nearest() {
    let directory = Directory::new();
    let told = refusal(&["run", "highload-ngnix"], &directory);
    assert_eq!(
        told,
        "there is no scenario \"highload-ngnix\"; did you mean \"highload-nginx\"?"
    );
}

#[test]
fn a_program_that_is_not_installed_is_named_with_its_package() {
    let directory = Directory::new();
    let service = "[service.app]\nkind = \"gunicorn\"\nmodule = \"\"";
    directory.write(
        "python.toml",
        TINY.replace("[service.app]\nkind = \"app\"", service),
    );
    let output = lab(&["run", "./python.toml"], &directory)
        .env("PATH", directory.file(""))
        .output()
        .expect("weir can be started");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let told = text.lines().last().unwrap_or_default();
    assert!(
        told.starts_with("python3 is not installed: `apt install python3-venv`"),
        "{text}"
    );
    assert!(!directory.file("lab-python").exists());
}

#[test]
fn a_target_that_cannot_be_measured_is_told() {
    let directory = Directory::new();
    let app = App::start("a");
    let (good, nobody) = (
        format!("http://{}/", app.address),
        format!("http://127.0.0.1:{}/", free_port()),
    );
    let told = refusal(&["compare", &good, &nobody], &directory);
    assert!(
        told.contains("cannot be reached: Connection refused"),
        "{told}"
    );
    let told = refusal(&["ladder", "--to", &nobody], &directory);
    assert!(
        told.contains("cannot be reached: Connection refused"),
        "{told}"
    );
    let told = refusal(&["compare", &good, "127.0.0.1:1"], &directory);
    assert_eq!(
        told,
        "127.0.0.1:1: expected a URL such as http://127.0.0.1:3000/path"
    );
    let missing = format!("http://{}/nothing", app.address);
    let told = refusal(
        &["compare", &missing, &missing, "--duration", "50ms"],
        &directory,
    );
    assert!(
        told.starts_with("A: no request was answered with 2xx or 3xx ("),
        "{told}"
    );
}

#[test]
fn a_load_that_nobody_can_send_is_told() {
    let directory = Directory::new();
    let app = App::start("a");
    let url = format!("http://{}/", app.address);
    let told = refusal(&["compare", &url, &url, "--connections", "0"], &directory);
    assert_eq!(
        told,
        "the load cannot be sent: expected at least one connection"
    );
    let told = refusal(
        &[
            "compare",
            &url,
            &url,
            "--connections",
            "1",
            "--threads",
            "2",
        ],
        &directory,
    );
    assert!(
        told.starts_with("the load cannot be sent: 1 connections are too few for 2 threads"),
        "{told}"
    );
    let told = refusal(&["compare", "--command", "a {port}", "b"], &directory);
    assert_eq!(
        told,
        "\"b\": expected {port} where the command is told its port"
    );
}

#[test]
fn a_service_that_does_not_start_is_told_with_its_last_words() {
    let directory = Directory::new();
    let bad_flag = "[service.app]\nkind = \"app\"\nflags = [\"--delay\", \"soon\"]";
    directory.write(
        "broken.toml",
        TINY.replace("[service.app]\nkind = \"app\"", bad_flag),
    );
    let told = refusal(&["run", "./broken.toml"], &directory);
    assert!(
        told.starts_with("app did not start: it ended with exit status: 2: error: invalid value"),
        "{told}"
    );
    assert!(!directory.file("lab-broken").exists());
}

#[test]
fn a_flag_that_no_service_has_is_told_before_anything_starts() {
    let directory = Directory::new();
    let bad_flag = "[service.app]\nkind = \"app\"\nflags = [\"--no-such-flag\"]";
    directory.write(
        "broken.toml",
        TINY.replace("[service.app]\nkind = \"app\"", bad_flag),
    );
    let told = refusal(&["run", "./broken.toml"], &directory);
    let expected = "configuration \"app\": --no-such-flag: unknown flag of `weir app`";
    assert_eq!(told, expected);
}

#[test]
fn a_mistake_in_a_scenario_is_told_with_its_line() {
    let directory = Directory::new();
    directory.write(
        "wrong.toml",
        TINY.replace("connections = 2", "connection = 2"),
    );
    let told = refusal(&["run", "./wrong.toml"], &directory);
    assert!(
        told.starts_with("./wrong.toml:10: load[1].connection: unknown key; did you mean"),
        "{told}"
    );
}
