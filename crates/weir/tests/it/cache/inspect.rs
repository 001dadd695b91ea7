//! What `weir cache` shows of what is stored, and the limits that a route sets to it.

use std::collections::BTreeSet;

use crate::harness::client::{get, send};
use crate::harness::origin::Origin;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, Gateway, wait_until};

use super::caching;

fn weir_cache(gateway: &Gateway, arguments: &[&str]) -> String {
    let admin = gateway.admin.to_string();
    let arguments = [&["cache"], arguments, &["--admin", &admin]].concat();
    let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments);
    assert!(run.status.success(), "{arguments:?}: {}", run.stderr);
    run.stdout
}

/// The URLs of a list.
fn urls(list: &str) -> Vec<String> {
    let objects = list.lines().map(|line| {
        let url = line.split("\"url\":\"").nth(1).expect("an object");
        url.split('"').next().expect("a string").to_owned()
    });
    objects.collect()
}

const TAGGED: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"v1\"\r\nContent-Type: text/plain\r\n\
    Vary: Accept-Language\r\nCache-Tag: news, front page\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn one_object_is_shown_with_all_that_is_known_of_it() {
    let origin = Origin::answering(TAGGED);
    let gateway = caching(origin.address, "{ key = { headers = [\"x-tenant\"] } }");
    for language in ["de", "en", "en"] {
        let request = format!(
            "GET /a?b HTTP/1.1\r\nHost: h\r\nAccept-Language: {language}\r\nX-Tenant: 7\r\n\r\n"
        );
        assert_eq!(send(gateway.address, &request).status, 200);
    }
    let shown = weir_cache(&gateway, &["show", "http://h/a?b"]);
    for expected in [
        "http://h/a?b\n",
        "  key           header x-tenant:7\n",
        "  chosen by     accept-language:de\n",
        "  status        200\n",
        "  body          5 bytes, text/plain\n",
        "; 10m by max-age\n",
        "  etag          \"v1\"\n",
        "  tags          news, front page\n",
        "  stored in     memory\n",
        "  uses          1\n",
    ] {
        assert!(shown.contains(expected), "{expected:?} in {shown}");
    }
    let json = weir_cache(&gateway, &["show", "http://h/a?b", "--json"]);
    assert_eq!(json.lines().count(), 2, "a line for each variant: {json}");
    assert!(json.contains("\"vary\":[\"accept-language:en\"]") && json.contains("\"status\":200"));
    weir_cache(&gateway, &["purge", "--soft", "--all"]);
    let shown = weir_cache(&gateway, &["show", "h/a?b"]);
    assert!(shown.contains("purged softly"), "{shown}");
    let list = weir_cache(&gateway, &["ls"]);
    assert!(list.starts_with("STATUS"), "{list}");
    assert!(list.contains("   200       5 B"), "{list}");
    assert!(
        list.contains("http://h/a?b  header x-tenant:7  accept-language:de"),
        "{list}"
    );
}

#[test]
fn a_list_is_sorted_complete_and_comes_in_pages() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: t\r\nContent-Length: 1\r\n\r\nx",
    );
    let gateway = caching(origin.address, "true");
    let mut expected = BTreeSet::new();
    for number in 0..700 {
        let path = format!("/{}/{number}", ["a", "b"][number % 2]);
        get(gateway.address, &path);
        expected.insert(format!("http://test{path}"));
    }
    let list = |arguments: &[&str]| {
        let json = [&["ls", "--json"], arguments].concat();
        urls(&weir_cache(&gateway, &json))
    };
    let all: Vec<_> = expected.iter().cloned().collect();
    assert_eq!(list(&["--limit", "5000"]), all);
    assert_eq!(list(&[]), all[..100]);
    assert_eq!(list(&["--limit", "501"]), all[..501], "more than a page");
    let of_b: Vec<_> = all
        .iter()
        .filter(|url| url.contains("/b/"))
        .cloned()
        .collect();
    for scope in ["/b/", "http://test/b", "test/b/"] {
        assert_eq!(
            list(&["--limit", "5000", "--prefix", scope]),
            of_b,
            "{scope}"
        );
    }
    assert_eq!(list(&["--limit", "5000", "--tag", "t"]), all);
    assert!(list(&["--tag", "u"]).is_empty());
    // What a page says of the next one leads through all of them, whatever their size.
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let request = format!(
            "GET /cache/objects?limit=37{after} HTTP/1.1\r\nHost: {}\r\n\r\n",
            gateway.admin
        );
        let page = send(gateway.admin, &request).text();
        found.extend(
            page.split("{\"url\":\"")
                .skip(1)
                .map(|object| object.split('"').next().expect("a string").to_owned()),
        );
        let next = page.split("\"next\":\"").nth(1);
        let Some(next) = next.and_then(|next| next.split('"').next()) else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(found, all);
}

#[test]
fn what_is_on_disk_is_listed_beside_what_is_in_memory() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            let body = "x".repeat(60_000);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\nContent-Length: 60000\r\n\r\n{body}"
            ));
        }
    });
    let directory = Directory::new();
    let gateway = Gateway::start(&format!(
        "[cache]\nmemory = \"1MiB\"\ndisk = {{ path = \"{}\", size = \"1GiB\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        directory.file("cache").display(),
        origin.address
    ));
    wait_until("both tiers are in use", || {
        for number in 0..40 {
            for _ in 0..3 {
                get(gateway.address, &format!("/{number:02}"));
            }
        }
        gateway.metric("weir_cache_objects{tier=\"disk\"}") >= 20
    });
    let list = weir_cache(&gateway, &["ls", "--json"]);
    let listed = urls(&list);
    assert!(listed.is_sorted() && listed.len() >= 30, "{list}");
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len());
    assert!(list.contains("\"tiers\":[\"disk\"]") && list.contains("\"memory\""));
    for line in list.lines() {
        let is_known = line.contains("\"etag\":\"\\\"1\\\"\"") && line.contains("\"status\":200");
        assert!(is_known, "the head is read from disk: {line}");
    }
}

#[test]
fn a_route_takes_no_more_memory_than_it_may() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            let body = "x".repeat(20_000);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Language\r\nContent-Length: 20000\r\n\r\n{body}"
            ));
        }
    });
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/small/{{*rest}}\"\nupstream = \"app\"\ncache = {{ max_memory = \"1MiB\", max_variants = 2 }}\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        origin.address
    ));
    for number in 0..200 {
        get(gateway.address, &format!("/small/{number}"));
        get(gateway.address, &format!("/other/{number}"));
    }
    let count = |prefix: &str| {
        let list = weir_cache(
            &gateway,
            &["ls", "--json", "--limit", "1000", "--prefix", prefix],
        );
        list.lines().count()
    };
    assert_eq!(count("/other/"), 200);
    let small = count("/small/");
    assert!(
        (40..=52).contains(&small),
        "{small} times 20 kB are about 1 MiB"
    );
    for language in ["a", "b", "c", "d"] {
        let request =
            format!("GET /small/x HTTP/1.1\r\nHost: test\r\nAccept-Language: {language}\r\n\r\n");
        send(gateway.address, &request);
    }
    let variants = weir_cache(&gateway, &["show", "--json", "http://test/small/x"]);
    assert_eq!(variants.lines().count(), 2);
    assert!(variants.contains("accept-language:d") && variants.contains("accept-language:c"));
}
