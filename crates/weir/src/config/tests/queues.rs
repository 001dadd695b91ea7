use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::{Action, HostPattern, Route};
use weir_queue::{Deferral, Durability, KeySource};

use super::{LISTENER, UPSTREAM, assert_problems, valid, whole};
use crate::config::{InProcessService, notes};

const QUEUE: &str = "queue.q.path = \"q\"\n";

/// The services of a sound text, besides those that tell outcomes.
fn ways(text: &str) -> Vec<(String, Deferral)> {
    let services = whole(text).services.services.into_iter();
    let ways = services.filter_map(|(name, service)| match service {
        InProcessService::Defer(_, deferral) => Some((name, deferral)),
        InProcessService::Tell(_)
        | InProcessService::Log(_)
        | InProcessService::Kv
        | InProcessService::Collect(_) => None,
    });
    ways.collect()
}

#[test]
fn a_queue_is_what_it_says() {
    let text = format!(
        "{LISTENER}{UPSTREAM}[queue.q]\npath = \"a/b\"\ndurability = \"os\"\nsize = \"1GiB\"\nmax_age = \"1h\"\nkeep = \"0s\"\n\
         message_size = \"2MiB\"\nconcurrency = 3\nrate = 2.5\ntimeout = \"5s\"\nattempts = 4\ngive_up = \"1d\"\nbackoff = \"2s\"\n\
         backoff_max = \"1m\"\nanswers = \"1KiB\"\nidempotency_window = \"1m\"\n\
         [[route]]\npath = \"/\"\ndefer = \"q\"\nupstream = \"app\"\n"
    );
    let queue = whole(&text).services.queues["q"].clone();
    assert_eq!(queue.path, PathBuf::from("a/b"));
    assert_eq!(queue.durability, Durability::Os);
    assert_eq!(
        (queue.bytes_max, queue.message_bytes_max),
        (1 << 30, 2 << 20)
    );
    assert_eq!(queue.age_max, Some(Duration::from_secs(3600)));
    let delivery = &queue.delivery;
    assert_eq!((delivery.concurrency, delivery.rate), (3, Some(2.5)));
    assert_eq!(delivery.retry.attempts_max, 4);
    assert_eq!(delivery.retry.backoff_max, Duration::from_secs(60));
    assert_eq!(delivery.answer_bytes_max, 1024);
}

#[test]
fn each_way_to_defer_is_a_service() {
    let text = format!(
        "{LISTENER}{UPSTREAM}{QUEUE}\
         [[route]]\npath = \"/a\"\ndefer = \"q\"\nupstream = \"app\"\n\
         [[route]]\npath = \"/b\"\ndefer = {{ queue = \"q\" }}\nupstream = \"app\"\n\
         [[route]]\npath = \"/c/{{id}}\"\ndefer = {{ queue = \"q\", key = \"path:id\", ttl = \"1h\" }}\nupstream = \"app\"\n\
         [[route]]\npath = \"/d\"\ndefer = {{ queue = \"q\", key = \"header:X-User\", batch = \"ndjson\" }}\nupstream = \"app\"\n\
         [[route]]\npath = \"/e\"\ndefer = {{ queue = \"q\", key = \"json:/a/b\" }}\nupstream = \"app\"\n"
    );
    let way = |key, ttl: Option<u64>, is_batch| Deferral {
        key,
        ttl: ttl.map(Duration::from_secs),
        is_batch,
    };
    let expected = [
        ("q", way(None, None, false)),
        (
            "q (key header:x-user, batch)",
            way(Some(KeySource::Field("x-user".into())), None, true),
        ),
        (
            "q (key json:/a/b)",
            way(Some(KeySource::Pointer("/a/b".into())), None, false),
        ),
        (
            "q (key path:id, ttl 1h)",
            way(Some(KeySource::Parameter("id".into())), Some(3600), false),
        ),
    ];
    let expected = expected.map(|(name, way)| (name.to_owned(), way));
    assert_eq!(ways(&text), expected);
}

/// A host of its own would take the path of outcomes with its other paths.
#[test]
fn outcomes_are_told_on_every_host_that_defers() {
    let text = format!(
        "{LISTENER}{UPSTREAM}{QUEUE}[[route]]\npath = \"/\"\ndefer = \"q\"\nupstream = \"app\"\n\
         [[route]]\nhost = \"a.example\"\npath = \"/{{*rest}}\"\ndefer = \"q\"\nupstream = \"app\"\n\
         [[route]]\nhost = \"b.example\"\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    );
    let tells = |route: &&Route| route.path.starts_with("/.weir/queue/q/");
    let settings = valid(&text);
    let hosts: Vec<_> = settings
        .routes
        .iter()
        .filter(tells)
        .map(|route| &route.host)
        .collect();
    assert_eq!(
        hosts,
        [
            &HostPattern::Any,
            &HostPattern::Exact("a.example".to_owned())
        ]
    );
    for route in settings.routes.iter().filter(tells) {
        let Action::Serve(serve) = &route.action else {
            panic!("{route:?}");
        };
        assert_eq!(serve.service, "q (outcomes)");
        assert_eq!(route.methods.as_deref(), Some(&["GET".to_owned()][..]));
    }
}

#[test]
fn mistakes_are_all_told() {
    let sound = [LISTENER, UPSTREAM, QUEUE];
    assert_problems(
        &sound,
        &[
            r#"
route = [{ path = "/", defer = "p", upstream = "app" }]
#! route[1].defer: found "p", there is no queue of this name; expected "q"
"#,
            r#"
route = [{ path = "/", defer = "q", respond = {} }]
#! route[1].defer: has no meaning with "respond", expected it only with "upstream"
"#,
            r#"
route = [{ path = "/", defer = "q", upstream = "app", cache = true, compress = true }]
#! route[1].cache: has no meaning with "defer": nobody waits for the answer
#! route[1].compress: has no meaning with "defer": nobody waits for the answer
"#,
            r#"
route = [{ path = "/{id}", defer = { queue = "q", key = "path:name" }, upstream = "app" }]
#! route[1].defer.key: found "path:name", expected a parameter of the route's path
"#,
            r#"
route = [{ path = "/", defer = { queue = "q", key = "cookie:a" }, upstream = "app" }]
#! route[1].defer.key: found "cookie:a", expected one of "header:NAME", "path:PARAMETER" of the route's path, "json:/POINTER" (RFC 6901)
"#,
            r#"
route = [{ path = "/.weir/queue/q/{id}", respond = {} }]
#! route[1].path: found "/.weir/queue/q/{id}", expected another path: what is below /.weir/ is weir's own
"#,
            r#"
route = [{ path = "/", defer = { key = "header:a" }, upstream = "app" }]
#! route[1].defer.queue: missing, expected the name of a queue
"#,
        ],
    );
    let sound = [LISTENER, "route = [{ path = \"/\", respond = {} }]\n"];
    assert_problems(
        &sound,
        &[
            r#"
queue.q = { durability = "group" }
#! queue.q.path: missing, expected the path of a directory
"#,
            r#"
queue.".q".path = "q"
#! queue.".q": expected a name of letters, digits, "-", "_" and ".", which is not its first
"#,
            r#"
queue.a.path = "data/a"
queue.b.path = "./data/a/b"
#! queue.b.path: found "./data/a/b", expected a directory that has nothing to do with that of the queue "a"
"#,
            r#"
queue.a = { path = "a", size = "4MiB", message_size = "2MiB" }
#! queue.a.message_size: expected at most a quarter of "size", which is "1MiB"
"#,
            r#"
queue.a = { path = "a", backoff = "1m", backoff_max = "1s" }
#! queue.a.backoff_max: expected at least "backoff", which is "1m"
"#,
        ],
    );
}

#[test]
fn what_is_hardly_meant_is_noted() {
    let notes = |routes: &str| {
        let config = whole(&format!("{LISTENER}{UPSTREAM}{QUEUE}{routes}"));
        notes::of(&config.settings, &config.services)
    };
    let told = notes("[[route]]\npath = \"/a\"\nupstream = \"app\"\n");
    assert_eq!(
        told,
        [
            "no route defers to the queue \"q\": what waits in it stays there; one does with defer = \"q\""
        ]
    );
    let told = notes("[[route]]\npath = \"/a\"\ndefer = \"q\"\nupstream = \"app\"\n");
    assert_eq!(
        told,
        [
            "the route \"/a\" defers GET too, whose answer is 202 then; methods = [\"POST\"] leaves it out"
        ]
    );
    let told = notes(
        "[[route]]\npath = \"/a\"\nmethods = [\"POST\"]\ndefer = \"q\"\nupstream = \"app\"\n",
    );
    assert_eq!(told, [""; 0]);
}
