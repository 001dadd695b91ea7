//! What a cache behind is told of how a route was chosen, for random routes and all requests of a small world.

use super::*;

const PATHS: [&str; 4] = ["/{*rest}", "/a/{id}", "/a/b", "/a/{*rest}"];
const METHODS: [&[&str]; 4] = [&[], &["GET"], &["POST"], &["GET", "POST"]];
const CONDITIONS: [&[&str]; 6] = [
    &[],
    &["header x-a=1"],
    &["header x-b=+"],
    &["header x-a=-", "header x-b=2"],
    &["query q=1"],
    &["header x-b=1", "query q=1"],
];

/// Up to six routes that requests can tell apart.
fn routes(random: &mut fastrand::Rng) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for _ in 0..random.usize(1..7) {
        let mut route = wanting(
            PATHS[random.usize(..PATHS.len())],
            METHODS[random.usize(..METHODS.len())],
            CONDITIONS[random.usize(..CONDITIONS.len())],
        );
        route.host = match random.u8(..4) {
            0 => HostPattern::Exact("a.example".to_owned()),
            1 => HostPattern::Wildcard("example".to_owned()),
            _ => HostPattern::Any,
        };
        if routes.iter().all(|other| !overlap(&route, other)) {
            routes.push(route);
        }
    }
    routes
}

/// The fields of a request with these values of `x-a` and `x-b`.
fn lines(values: [&str; 2]) -> String {
    let lines = ["X-A", "X-B"].into_iter().zip(values);
    let sent = lines.filter(|(_, value)| !value.is_empty());
    let sent: Vec<String> = sent
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    sent.concat()
}

/// Whether the field at `place` changes what is found, whatever the other one says.
fn decides(place: usize, found: impl Fn([&'static str; 2]) -> Result<usize, String>) -> bool {
    ["", "1", "2"].iter().any(|other| {
        let with = |value| {
            let mut values = [*other; 2];
            values[place] = value;
            found(values)
        };
        with("") != with("1") || with("") != with("2")
    })
}

/// What decides of each route.
fn told(routes: &[Route]) -> String {
    let told = routes.iter().map(|it| {
        let (methods, conditions) = (&it.methods, &it.conditions);
        format!("\n{} {} {methods:?} {conditions:?}", it.host, it.path)
    });
    told.collect()
}

#[test]
fn a_field_that_changes_what_is_found_is_named() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut named, mut silent, mut needless) = (0, 0, 0);
    for _ in 0..400 {
        let routes = routes(&mut random);
        let router = Router::new(&routes).expect("no two are alike");
        for host in ["a.example", "b.example", "other"] {
            for target in ["/", "/a/b", "/a/c", "/a/b/c", "/c", "/a/b?q=1"] {
                for method in ["GET", "HEAD", "POST", "PUT"] {
                    let names = asking(host, method, target, "", |asked| {
                        let names = router.chosen_by(asked).into_iter();
                        names.map(str::to_owned).collect::<Vec<_>>()
                    });
                    for (place, name) in ["x-a", "x-b"].iter().enumerate() {
                        let found =
                            |values| found_by(&router, host, method, target, &lines(values));
                        let is_named = names.iter().any(|it| it == name);
                        match (is_named, decides(place, found)) {
                            (true, true) => named += 1,
                            (false, false) => silent += 1,
                            (true, false) => needless += 1,
                            (false, true) => {
                                panic!(
                                    "{name}: {method} {host}{target}: {names:?} of {}",
                                    told(&routes)
                                )
                            }
                        }
                    }
                }
            }
        }
    }
    // Which of them a later one makes good for is not worth knowing.
    assert!(
        named > 5_000 && silent > 5_000 && needless < named / 10,
        "{named} {silent} {needless}"
    );
}
