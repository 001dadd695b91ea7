//! Mistakes in `[kv]` and in the `kv` of routes.

use weir_kv::engine::{Durability, EngineSettings};

use super::{LISTENER, parse};
use crate::config::StoreSettings;

const ROUTE: &str = "[[route]]\npath = \"/v0/{*rest}\"\nkv = true\n";

const NODE: &str = "node = \"127.0.0.1:1\"\nnodes = [\"127.0.0.1:1\"]\n";

fn told(kv: &str) -> String {
    let text = [LISTENER, kv, ROUTE].concat();
    parse(&text)
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn mistakes_in_a_store_are_told() {
    let engine = "[kv]\nengine = { path = \"data\" }\n";
    for (kv, complaint) in [
        (String::new(), "route[1].kv: there is no store; add `[kv]`"),
        ("[kv]\n".to_owned(), "kv.engine: missing"),
        (
            "[kv]\nengine = {}\n".to_owned(),
            "kv.engine: found no place for the data, expected one of \"path\", \"postgres\", \"cassandra\"",
        ),
        (
            "[kv]\nengine = { path = \"data\", cassandra = [\"a:1\"] }\n".to_owned(),
            "kv.engine.cassandra: found beside \"path\", expected exactly",
        ),
        (
            "[kv]\nengine = { cassandra = [] }\n".to_owned(),
            "kv.engine.cassandra: found a list, expected a list of nodes",
        ),
        (
            "[kv]\nengine = { postgres = \"postgres://a/b\", durability = \"os\" }\n".to_owned(),
            "kv.engine.durability: has no meaning with \"postgres\", expected it only with \"path\"",
        ),
        (
            "[kv]\nengine = { postgres = \"mysql://a/b\" }\n".to_owned(),
            "kv.engine.postgres: found \"mysql://a/b\", expected a URL such as",
        ),
        (
            "[kv]\nengine = { cassandra = { nodes = [\"a:1\"], table = \"kv\" } }\n".to_owned(),
            "kv.engine.cassandra.table: found \"kv\", expected a keyspace and a table",
        ),
        (
            "[kv]\nengine = { postgres = \"postgres://a/b\" }\nnode = \"127.0.0.1:1\"\nnodes = [\"127.0.0.1:1\"]\n".to_owned(),
            "kv.nodes: has no meaning with an engine in Postgres, which replicates by itself",
        ),
        (
            "[kv]\nengine = { postgres = \"postgres://a/b\" }\nplacement = \"ring\"\n".to_owned(),
            "kv.placement: has no meaning with an engine in Postgres, which replicates by itself",
        ),
        (
            format!("{engine}tombstones = \"1ms\"\n"),
            "kv.tombstones: found \"1ms\"",
        ),
        (
            format!("{engine}secret = \"short\"\n"),
            "kv.secret: found 5 characters, expected at least 16",
        ),
    ] {
        let told = told(&kv);
        assert!(told.contains(complaint), "{told}\n instead of {complaint}");
    }
    let off = [LISTENER, engine, &ROUTE.replace("true", "false")].concat();
    let told = parse(&off).expect_err("it has no action").to_string();
    assert!(
        told.contains("route[1].kv: found false, expected true"),
        "{told}"
    );
}

#[test]
fn mistakes_among_nodes_are_told() {
    let engine = "[kv]\nengine = { path = \"data\" }\n";
    for (kv, complaint) in [
        (
            format!("{engine}node = \"127.0.0.1:8081\"\n"),
            "kv.node: found \"127.0.0.1:8081\", expected \"nodes\" beside it",
        ),
        (
            format!("{engine}nodes = [\"127.0.0.1:8081\"]\n"),
            "kv.nodes: found a list, expected \"node\" beside it",
        ),
        (
            format!("{engine}node = \"127.0.0.1:8081\"\nnodes = [\"127.0.0.1:8082\"]\n"),
            "kv.node: found \"127.0.0.1:8081\", expected one of \"nodes\"",
        ),
        (
            format!("{engine}node = \"127.0.0.1:1\"\nnodes = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n"),
            "kv.nodes[2]: found \"127.0.0.1:1\", expected a node that is not there already",
        ),
        (
            format!("{engine}node = \"kv-1:8081\"\nnodes = [\"kv-1:8081\"]\n"),
            "kv.node: found \"kv-1:8081\", expected an IP address and a port",
        ),
        (
            format!("{engine}node = \"10.0.0.1:1\"\nnodes = [\"10.0.0.1:1\"]\n"),
            "expected a \"secret\" beside it, since other machines reach these nodes",
        ),
        (
            format!("{engine}replicas = 1\n"),
            "kv.replicas: found the integer 1, expected \"node\" and \"nodes\" beside it",
        ),
        (
            format!("{engine}node = \"127.0.0.1:1\"\nnodes = [\"127.0.0.1:1\"]\nreplicas = 2\n"),
            "kv.replicas: found the integer 2, expected at most 1",
        ),
        (
            format!("{engine}urls = [\"http://a:1\"]\n"),
            "kv.urls: found a list, expected \"node\" and \"nodes\" beside it",
        ),
        (
            format!("{engine}{NODE}urls = [\"http://a:1\", \"http://b:1\"]\n"),
            "kv.urls: found a list, expected one for each of the 1 nodes",
        ),
        (
            format!("{engine}{NODE}urls = [\"http://a:1/kv\"]\n"),
            "kv.urls[1]: found \"http://a:1/kv\", expected a URL of http or https without a path",
        ),
        (
            format!("{engine}{NODE}urls = [\"ftp://a:1\"]\n"),
            "kv.urls[1]: found \"ftp://a:1\", expected a URL of http",
        ),
        (
            format!("{engine}{NODE}urls = [\"http://user@a:1\"]\n"),
            "kv.urls[1]: found \"http://user@a:1\", expected a URL of http",
        ),
    ] {
        let told = told(&kv);
        assert!(told.contains(complaint), "{told}\n instead of {complaint}");
    }
}

#[test]
fn a_store_is_what_it_says() {
    let text = "[kv]\nengine = { path = \"data\", durability = \"os\" }\nnode = \"10.0.0.1:1\"\n\
                nodes = [\"10.0.0.1:1\", \"10.0.0.2:1\"]\nurls = [\"http://a\", \"HTTPS://[::1]:2\"]\nsecret = \"0123456789abcdef\"\n";
    let config = super::whole(&[LISTENER, text, ROUTE].concat());
    let StoreSettings {
        engine, cluster, ..
    } = config.services.kv.expect("a store");
    let cluster = cluster.expect("a cluster");
    let EngineSettings::Embedded(engine) = engine else {
        panic!("{engine:?}");
    };
    assert_eq!(engine.path.to_str(), Some("data"));
    assert_eq!(engine.durability, Durability::Os);
    assert_eq!(
        (cluster.nodes.len(), &*cluster.secret),
        (2, "0123456789abcdef")
    );
    assert_eq!(cluster.node, cluster.nodes[0]);
    assert_eq!(cluster.urls, ["http://a", "HTTPS://[::1]:2"]);
    assert_eq!(
        (cluster.replicas, cluster.hints.to_str()),
        (2, Some("data/hints"))
    );
}

#[test]
#[cfg(all(feature = "postgres", feature = "cassandra"))]
fn a_store_may_be_in_a_database() {
    use weir_kv::database::{CassandraSettings, PostgresSettings};
    let url = "postgres://weir@127.0.0.1/app".to_owned();
    let nodes = vec!["127.0.0.1:9042".to_owned()];
    let postgres = |table: &str| {
        EngineSettings::Postgres(PostgresSettings {
            url: url.clone(),
            table: table.to_owned(),
        })
    };
    let cassandra = |keyspace: &str, user: Option<(String, String)>| {
        EngineSettings::Cassandra(CassandraSettings {
            nodes: nodes.clone(),
            keyspace: keyspace.to_owned(),
            table: "kv".to_owned(),
            user,
        })
    };
    let user = Some(("weir".to_owned(), "secret".to_owned()));
    for (engine, expected) in [
        (format!("postgres = \"{url}\""), postgres("kv")),
        (
            format!("postgres = {{ url = \"{url}\", table = \"app.kv\" }}"),
            postgres("app.kv"),
        ),
        (format!("cassandra = {nodes:?}"), cassandra("weir", None)),
        (
            format!(
                "cassandra = {{ nodes = {nodes:?}, table = \"app.kv\", user = \"weir\", password = \"secret\" }}"
            ),
            cassandra("app", user),
        ),
    ] {
        let text = format!("[kv]\nengine = {{ {engine} }}\n");
        let config = super::whole(&[LISTENER, &text, ROUTE].concat());
        let store = config.services.kv.expect("a store");
        assert_eq!((store.engine, store.cluster), (expected, None));
    }
}

#[test]
fn mistakes_in_how_keys_find_their_nodes_are_told() {
    let engine = "[kv]\nengine = { path = \"data\" }\n";
    for (kv, complaint) in [
        (
            format!("{engine}{NODE}placement = \"slot\"\n"),
            "kv.placement: found \"slot\", expected one of \"slots\", \"ring\", \"ring-tree\", \"rendezvous\", \"jump\", \"maglev\"; did you mean \"slots\"?",
        ),
        (
            format!("{engine}{NODE}hash = \"sha1\"\n"),
            "kv.hash: found \"sha1\", expected one of \"xxh3\", \"md5\"",
        ),
        (
            format!("{engine}{NODE}placement = \"jump\"\nvirtual_nodes = 30\n"),
            "kv.virtual_nodes: has a meaning only with placement = \"ring\" or \"ring-tree\"",
        ),
        (
            format!("{engine}{NODE}join = true\nhash = \"md5\"\n"),
            "kv.join: nodes come and go only where keys are placed by slots and XXH3",
        ),
        (
            format!("{engine}hash = \"md5\"\n"),
            "kv.hash: found \"md5\", expected \"node\" and \"nodes\" beside it",
        ),
    ] {
        let told = told(&kv);
        assert!(told.contains(complaint), "{told}\n instead of {complaint}");
    }
}

#[test]
fn how_keys_find_their_nodes_is_what_it_says() {
    for (said, told) in [
        ("", "slots by xxh3"),
        ("hash = \"md5\"\n", "slots by md5"),
        ("placement = \"maglev\"\n", "maglev by xxh3"),
        (
            "placement = \"ring\"\n",
            "ring by xxh3, 256 virtual nodes each",
        ),
        (
            "placement = \"ring-tree\"\nvirtual_nodes = 30\nhash = \"md5\"\n",
            "ring-tree by md5, 30 virtual nodes each",
        ),
    ] {
        let kv = format!("[kv]\nengine = {{ path = \"data\" }}\n{NODE}{said}");
        let config = super::whole(&[LISTENER, &kv, ROUTE].concat());
        let cluster = config.services.kv.and_then(|store| store.cluster);
        let placement = cluster.map(|cluster| cluster.placement.to_string());
        assert_eq!(placement.as_deref(), Some(told));
    }
}
