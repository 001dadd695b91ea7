//! Random routes and requests, against a reading of the rule that looks at every route.

use super::*;

const HOSTS: [&str; 5] = [
    "",
    "a.example.com",
    "b.example.com",
    "*.example.com",
    "*.com",
];
const PATHS: [&str; 10] = [
    "/",
    "/{*r}",
    "/a",
    "/a/",
    "/a/{*r}",
    "/{x}",
    "/{x}/b",
    "/a/{y}",
    "/a/b",
    "/{x}/{*r}",
];
const METHODS: [&[&str]; 4] = [&[], &["GET"], &["POST", "PUT"], &["HEAD"]];
const CONDITIONS: [&str; 8] = [
    "header x=1",
    "header x=2",
    "header x=+",
    "header x=-",
    "header y=1",
    "query q=1",
    "query q=+",
    "query q=-",
];
const ASKED_HOSTS: [&str; 4] = ["a.example.com", "c.example.com", "x.com", "other"];
const ASKED_PATHS: [&str; 7] = ["/", "/a", "/a/", "/a/b", "/a/c", "/c/b", "/a/b/c"];
const ASKED_METHODS: [&str; 4] = ["GET", "HEAD", "POST", "DELETE"];
const ASKED_FIELDS: [&str; 5] = ["", "x: 1\r\n", "x: 2\r\n", "y: 1\r\n", "x: 1\r\ny: 1\r\n"];
const ASKED_QUERIES: [&str; 4] = ["", "?q=1", "?q=2", "?p"];

#[test]
fn the_rule_is_kept_for_any_routes_and_requests() {
    let mut decided = [0_usize; 3];
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let routes = random_routes(&mut random);
        let router = Router::new(&routes).unwrap();
        for _ in 0..200 {
            let host = random.choice(ASKED_HOSTS).unwrap();
            let method = random.choice(ASKED_METHODS).unwrap();
            let path = random.choice(ASKED_PATHS).unwrap();
            let query = random.choice(ASKED_QUERIES).unwrap();
            let fields = random.choice(ASKED_FIELDS).unwrap();
            let request = format!("{path}{query}");
            let found = found_by(&router, host, method, &request, fields);
            let expected = by_rule(&routes, (host, method, path, query), fields);
            // Which methods there are, the table says.
            let found = found.map_err(|refused| refused[..3].to_owned());
            let asked = format!("{method} {host} {request} {fields:?} of {routes:#?}");
            assert_eq!(
                found,
                expected.map_err(str::to_owned),
                "seed {seed}: {asked}"
            );
            decided[found.map_or_else(|refused| 1 + usize::from(refused == "404"), |_| 0)] += 1;
        }
    }
    assert!(decided.iter().all(|&count| count > 1000), "{decided:?}");
}

/// Routes of which no two are equal.
fn random_routes(random: &mut fastrand::Rng) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for _ in 0..random.usize(1..12) {
        let mut conditions: Vec<&str> = Vec::new();
        for _ in 0..random.usize(0..3) {
            let one = random.choice(CONDITIONS).unwrap();
            let name = |condition: &str| condition.split('=').next().unwrap().to_owned();
            if !conditions.iter().any(|other| name(other) == name(one)) {
                conditions.push(one);
            }
        }
        let methods = random.choice(METHODS).unwrap();
        let mut new = wanting(random.choice(PATHS).unwrap(), methods, &conditions);
        new.host = route(random.choice(HOSTS).unwrap(), "/", &[]).host;
        if !routes.iter().any(|other| overlap(other, &new)) {
            routes.push(new);
        }
    }
    routes
}

/// What the reference says, read aloud.
fn by_rule(
    routes: &[Route],
    (host, method, path, query): (&str, &str, &str, &str),
    fields: &str,
) -> Result<usize, &'static str> {
    let mut refused = Err("404");
    for level in 0..4 {
        let mut there: Vec<(Vec<u8>, usize)> = (0..routes.len())
            .filter(|&index| host_level(&routes[index].host, host) == Some(level))
            .filter(|&index| meets(&routes[index], query, fields))
            .filter_map(|index| Some((path_key(&routes[index].path, path)?, index)))
            .collect();
        there.sort();
        let Some((most_specific, _)) = there.first().cloned() else {
            continue;
        };
        let of_path = there.iter().filter(|(key, _)| *key == most_specific);
        let serves = |index: usize| {
            let methods = routes[index].methods.as_ref();
            methods.is_none_or(|all| {
                all.iter()
                    .any(|own| own == method || (own == "GET" && method == "HEAD"))
            })
        };
        // An exact path is more specific than one whose rest is empty.
        let rank = |index: &usize| {
            (
                !routes[*index].path.contains("{*"),
                routes[*index].conditions.rank(),
            )
        };
        let serving = of_path
            .map(|(_, index)| *index)
            .filter(|&index| serves(index));
        if let Some(best) = serving.max_by_key(rank) {
            return Ok(best);
        }
        if refused == Err("404") {
            refused = Err("405");
        }
    }
    refused
}

fn host_level(pattern: &HostPattern, host: &str) -> Option<usize> {
    match pattern {
        HostPattern::Exact(name) => (name == host).then_some(0),
        HostPattern::Wildcard(suffix) => {
            let is_below = host.ends_with(&format!(".{suffix}"));
            is_below.then_some(if suffix == "com" { 2 } else { 1 })
        }
        HostPattern::Any => Some(3),
    }
}

fn meets(route: &Route, query: &str, fields: &str) -> bool {
    let is_met = |sent: Option<String>, wanted: &Wanted| match wanted {
        Wanted::Present => sent.is_some(),
        Wanted::Absent => sent.is_none(),
        Wanted::Value(value) => sent.as_ref() == Some(value),
    };
    let field = |name: &str| {
        let mut lines = fields
            .split("\r\n")
            .filter_map(|line| line.split_once(": "));
        lines
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.to_owned())
    };
    let parameter = |name: &str| {
        let (own, value) = query
            .strip_prefix('?')?
            .split_once('=')
            .unwrap_or((&query[1..], ""));
        (own == name).then(|| value.to_owned())
    };
    let conditions = &route.conditions;
    conditions
        .headers
        .iter()
        .all(|(name, wanted)| is_met(field(name), wanted))
        && conditions
            .query
            .iter()
            .all(|(name, wanted)| is_met(parameter(name), wanted))
}

/// How general each segment of `pattern` is, if it serves `path`; the smallest is the most specific. One with an empty rest
/// is as the path before it.
fn path_key(pattern: &str, path: &str) -> Option<Vec<u8>> {
    let (own, asked): (Vec<&str>, Vec<&str>) = (
        pattern.split('/').skip(1).collect(),
        path.split('/').skip(1).collect(),
    );
    let mut key = Vec::new();
    for (place, segment) in own.iter().enumerate() {
        let sent = *asked.get(place)?;
        key.push(match *segment {
            rest if rest.starts_with("{*") => {
                let is_empty = sent.is_empty() && asked.len() == place + 1;
                key.push(if is_empty { 0 } else { 2 });
                return Some(key);
            }
            name if name.starts_with('{') => {
                if sent.is_empty() {
                    return None;
                }
                1
            }
            text => {
                if text != sent {
                    return None;
                }
                0
            }
        });
    }
    (own.len() == asked.len()).then_some(key)
}
