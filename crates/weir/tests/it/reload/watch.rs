//! `weir serve --watch`: a file that changes is read again, however it changes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::responding;
use crate::harness::client::{self};
use crate::harness::process::Process;
use crate::harness::{Directory, Gateway, free_port, wait_until};

fn says(gateway: std::net::SocketAddr, text: &str) {
    wait_until(&format!("it says {text}"), || {
        client::get(gateway, "/").text() == text
    });
}

#[test]
fn a_file_is_replaced_rewritten_and_broken() {
    let gateway = Gateway::start_with(&["--watch"], |_| responding("/", "one"));
    gateway.configure(&responding("/", "two"));
    says(gateway.address, "two");

    // In place, in two steps: what is half written is not what is meant.
    let path = gateway.directory.file("weir.toml");
    let whole = fs::read_to_string(&path).expect("there is a config");
    let whole = whole.replace("two", "three");
    let (first, second) = whole.split_at(whole.len() / 2);
    let mut file = fs::File::create(&path).expect("it can be written");
    file.write_all(first.as_bytes()).expect("written");
    file.write_all(second.as_bytes()).expect("written");
    says(gateway.address, "three");

    gateway.configure("[[route]]\npath = 7\nrespond = {}\n");
    wait_until("it complains", || {
        gateway
            .process
            .output()
            .contains("the configuration stays as it is")
    });
    assert_eq!(client::get(gateway.address, "/").text(), "three");
    // While it is not there, nothing happens.
    fs::remove_file(&path).expect("it can be removed");
    gateway.configure(&responding("/", "four"));
    says(gateway.address, "four");
    let complaints = gateway.process.output().matches("stays as it is").count();
    assert_eq!(complaints, 1, "said once for each file");
}

/// As Kubernetes mounts a `ConfigMap`: the file is a link through a link that is swapped.
#[test]
fn a_link_is_swapped() {
    let directory = Directory::new();
    let (port, admin) = (free_port(), free_port());
    let head = format!(
        "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n"
    );
    for name in ["one", "two"] {
        fs::create_dir(directory.file(name)).expect("a directory can be made");
        let text = format!("{head}{}", responding("/", name));
        directory.write(&format!("{name}/weir.toml"), text);
    }
    symlink("one", directory.file("data")).expect("a link can be made");
    symlink("data/weir.toml", directory.file("weir.toml")).expect("a link can be made");
    let path = directory.file("weir.toml");
    let path = path.to_str().expect("UTF-8");
    let process = Process::weir(&["serve", "--watch", "--config", path], &directory);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    process.wait_for_port(address);
    says(address, "one");
    symlink("two", directory.file("data.draft")).expect("a link can be made");
    fs::rename(directory.file("data.draft"), directory.file("data")).expect("renamed");
    says(address, "two");
}

/// Files that are included, the directory in which they are looked for, and files with values.
#[test]
fn all_that_a_config_is_read_from_is_watched() {
    let directory = Directory::new();
    fs::create_dir(directory.file("conf.d")).expect("a directory can be made");
    let port = free_port();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let path = directory.write(
        "weir.toml",
        format!("include = \"conf.d/*.toml\"\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n"),
    );
    let route = "[[route]]\npath = \"/\"\nrespond = { body = { file = \"../said\" } }\n";
    directory.write("conf.d/route.toml", route);
    directory.write("said", "one\n");
    let path = path.to_str().expect("UTF-8");
    let process = Process::weir(&["serve", "--watch", "--config", path], &directory);
    process.wait_for_port(address);
    says(address, "one");
    directory.write("said", "two\n");
    says(address, "two");
    directory.write("conf.d/route.toml", responding("/", "three"));
    says(address, "three");
    directory.write("conf.d/more.toml", responding("/more", "four"));
    wait_until("the new file is read", || {
        client::get(address, "/more").text() == "four"
    });
}
