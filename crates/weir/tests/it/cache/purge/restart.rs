//! What was purged stays so when the process is killed right behind the answer, though its disk holds on to the rest.

use super::{Versions, purge, version_of};
use crate::harness::client::get;
use crate::harness::{Directory, Gateway, wait_until};

/// Many more than fit in RAM, so that most of them are on disk.
const PATHS: usize = 40;

fn start(versions: &Versions, directory: &Directory) -> Gateway {
    Gateway::start(&format!(
        "[cache]\nmemory = \"1MiB\"\ndisk = {{ path = \"{}\", size = \"1GiB\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        directory.file("cache").display(),
        versions.origin.address
    ))
}

fn path(number: usize) -> String {
    let kind = if number.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    };
    format!("/{kind}/{number}")
}

/// Has the gateway store all paths, and waits until some of both kinds are on disk.
fn fill(gateway: &Gateway) {
    wait_until("much is on disk", || {
        for number in 0..PATHS {
            for _ in 0..3 {
                get(gateway.address, &path(number));
            }
        }
        gateway.metric("weir_cache_objects{tier=\"disk\"}") >= 20
    });
}

/// The versions that a restarted gateway has of each path.
fn versions_after_kill(
    versions: &Versions,
    directory: &Directory,
    gateway: &mut Gateway,
) -> Vec<u64> {
    gateway.process.kill();
    let gateway = start(versions, directory);
    wait_until("the disk is indexed", || {
        // A purge is answered at the end of that.
        purge(&gateway, "{\"tag\": \"none\"}");
        true
    });
    let paths = (0..PATHS).map(path);
    paths
        .map(|path| version_of(&get(gateway.address, &path)))
        .collect()
}

#[test]
fn a_kill_behind_the_answer_brings_nothing_back() {
    for what in [
        "{\"prefix\": \"http://test/even/\"}",
        "{\"prefix\": \"/even/\"}",
        "{\"tag\": \"even\"}",
        "{\"tag\": \"even\", \"soft\": true}",
        "{\"all\": true}",
        "URLS",
    ] {
        let versions = Versions::with_body("Cache-Control: max-age=600\r\n", 60_000);
        let directory = Directory::new();
        let mut gateway = start(&versions, &directory);
        fill(&gateway);
        versions.next();
        if what == "URLS" {
            for number in (0..PATHS).step_by(2) {
                let url = format!("{{\"url\": \"http://test{}\"}}", path(number));
                purge(&gateway, &url);
            }
        } else {
            purge(&gateway, what);
        }
        let found = versions_after_kill(&versions, &directory, &mut gateway);
        for (number, found) in found.iter().enumerate() {
            let is_purged = what.contains("all") || number.is_multiple_of(2);
            assert!(*found == 2 || !is_purged, "{}: {what}", path(number));
        }
        let kept = found.iter().filter(|found| **found == 1).count();
        let is_all = what.contains("all");
        assert_eq!(
            kept == 0,
            is_all,
            "{what}: the rest comes back, {kept} of it"
        );
    }
}
