//! The whole files that the documentation shows are checked and started by the real binary, as a reader would.

#[path = "../../src/config/tests/documentation/blocks.rs"]
mod blocks;

use std::net::SocketAddr;

use crate::harness::process::Process;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, free_port};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

#[test]
fn every_whole_file_is_checked_and_started() {
    let files = blocks::all()
        .into_iter()
        .filter(|it| it.is_whole_file() && !it.is_mix());
    let mut started = 0;
    for file in files {
        let directory = Directory::new();
        let path = directory.file("").display().to_string();
        let (text, addresses) = match file.mistakes {
            None => on_free_ports(&file.text),
            Some(_) => (file.text, Vec::new()),
        };
        directory.write("weir.toml", text);
        let checked = run_to_end("sh", &in_directory(&path, "check"));
        if file.mistakes.is_some() {
            assert_eq!(checked.status.code(), Some(2), "{}", file.place);
            continue;
        }
        assert!(
            checked.status.success(),
            "{}: {}",
            file.place,
            checked.stderr
        );
        let mut gateway = Process::start("sh", &in_directory(&path, "serve"), &directory);
        for address in addresses {
            gateway.wait_for_port(address);
        }
        gateway.signal("TERM");
        assert!(
            gateway.wait().success(),
            "{}: {}",
            file.place,
            gateway.output()
        );
        started += 1;
    }
    assert!(started > 0);
}

/// Arguments of a shell that runs a command of weir where files and sockets of the config belong.
fn in_directory<'a>(path: &'a str, command: &'a str) -> [&'a str; 7] {
    let script = "cd \"$0\" && exec \"$@\"";
    ["-c", script, path, WEIR, command, "--config", "weir.toml"]
}

/// The file with ports of its own in place of those on which it listens, and where that is.
fn on_free_ports(text: &str) -> (String, Vec<SocketAddr>) {
    let mut addresses = Vec::new();
    let lines = text.lines().map(|line| {
        let listens = ["address = \"", "listen = \""];
        let Some(key) = listens.into_iter().find(|key| line.starts_with(key)) else {
            return line.to_owned();
        };
        let port = free_port();
        addresses.push(SocketAddr::from(([127, 0, 0, 1], port)));
        format!("{key}127.0.0.1:{port}\"")
    });
    let lines: Vec<String> = lines.collect();
    (lines.join("\n"), addresses)
}

/// With the files that they name in a directory, and the variables that they take from outside.
#[test]
fn what_needs_variables_and_files_is_checked_with_them() {
    const NAME: &str = "what_needs_variables_and_files_is_checked_with_them";
    let of_this = |it: &blocks::Block| it.run_by.as_deref() == Some(NAME);
    let mut count = 0;
    for block in blocks::all().into_iter().filter(of_this) {
        let directory = Directory::new();
        let path = directory.file("").display().to_string();
        std::fs::create_dir(directory.file("conf.d")).expect("a directory can be made");
        directory.write("weir-token", "a-token-of-some-length\n");
        directory.write(
            "limits.toml",
            "[[listener]]\naddress = \"127.0.0.1:8080\"\n",
        );
        let route = "[[route]]\npath = \"/\"\nrespond = { body = \"hello\" }\n";
        directory.write("conf.d/one.toml", route);
        for page in ["404.html", "shop-404.html", "shop-down.html"] {
            directory.write(page, "<p>Sorry.</p>\n");
        }
        let is_part = !block.text.contains("[[listener]]") && !block.text.contains("include");
        let missing = if is_part {
            "listener = [{ address = \"127.0.0.1:8080\" }]\nupstream.app.servers = [\"127.0.0.1:9001\"]\n"
        } else {
            ""
        };
        let text = format!("{missing}{}", block.text).replace("/run/secrets/", &path);
        let text = text.replace("/etc/weir/", &path);
        let config = directory.write("weir.toml", text).display().to_string();
        let script = "APP_HOST=127.0.0.1 exec \"$0\" check --config \"$1\"";
        let check = ["-c", script, WEIR, &config];
        let checked = run_to_end("sh", &check);
        assert!(
            checked.status.success(),
            "{}: {}",
            block.place,
            checked.stderr
        );
        count += 1;
    }
    assert!(count > 0);
}

const COMING_FROM: &str = include_str!("../../../../docs/coming-from.md");

/// The block of the page with this language.
fn block(language: &str) -> &'static str {
    let opening = format!("```{language}\n");
    let (_, rest) = COMING_FROM.split_once(&opening).expect("a block");
    rest.split_once("```").expect("its end").0
}

/// What is compared with weir is what its own program takes.
#[test]
fn the_configs_of_others_are_real() {
    let directory = Directory::new();
    let prefix = directory.file("").display().to_string();
    let port = format!("{}", free_port());
    let config = directory.write("nginx.conf", block("nginx").replace("8080", &port));
    let config = config.to_str().expect("UTF-8");
    let own = "error_log stderr; pid nginx.pid;";
    let checked = run_to_end("nginx", &["-t", "-p", &prefix, "-c", config, "-g", own]);
    assert!(checked.status.success(), "{}", checked.stderr);

    let config = directory.write("haproxy.cfg", block("haproxy"));
    let config = config.to_str().expect("UTF-8");
    let checked = run_to_end("haproxy", &["-c", "-f", config]);
    assert!(
        checked.status.success(),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
}
