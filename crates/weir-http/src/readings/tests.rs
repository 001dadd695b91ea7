use proptest::prelude::*;

use super::*;
use crate::target::is_normal;

/// The rules of a gateway that forbids `/admin` and what is below it.
fn route_of(path: &[u8]) -> &'static str {
    match path.strip_prefix(b"/admin") {
        Some([] | [b'/', ..]) => "admin",
        _ if path.starts_with(b"/one/") && path[5..].contains(&b'/') => "deep",
        _ if path.starts_with(b"/one/") => "one",
        _ => "any",
    }
}

fn verdict(path: &str) -> Result<&'static str, Reject> {
    let mut normal = Vec::new();
    normalize(path.as_bytes(), &mut normal)?;
    let route = route_of(&normal);
    agree(path.as_bytes(), |other| route_of(other) == route)?;
    Ok(route)
}

/// Refused paths, by the servers that read them differently.
const REFUSED: &[&str] = &[
    // nginx, Apache httpd, Tomcat, IIS: an escaped slash is a slash.
    "/x/..%2fadmin",
    "/x/..%2Fadmin/secret",
    "/x/%2e%2e%2fadmin",
    "/x%2f..%2fadmin",
    "/x%2f../admin",
    "/admin%2f",
    "/admin%2fsecret",
    "/%2fadmin",
    "/%2Fadmin/x",
    "/x/.%2fy",
    "/x/%2e%2f",
    // IIS, and every server on Windows: a backslash is one too.
    r"/x/..\admin",
    r"/x\..\admin",
    r"/x\../admin",
    r"/admin\secret",
    r"/\admin",
    r"/x/.\y",
    "/x/..%5cadmin",
    "/admin%5Csecret",
    r"/x/..%2f..\admin",
    // Tomcat, Jetty: a segment ends at its semicolon.
    "/x/..;/admin",
    "/x/..;a=b/admin",
    "/x/.;/y",
    "/admin;",
    "/admin;x/secret",
    "/admin;/secret",
    "/;/admin",
    "/;x/admin",
    "/x;/../admin",
    "/admin;x%2fy",
    "/x/..;%2fadmin",
    "/x/%2e%2e;/admin",
    // The same behind a server that decodes.
    "/admin%3bx/secret",
    "/x/..%3b/admin",
    "/x/..%3Ba%3Db/admin",
    // Two servers that decode.
    "/x/%252e%252e/admin",
    "/x/..%252fadmin",
    "/admin%252fsecret",
    "/x/..%255cadmin",
    "/%2561dmin",
    "/admin%253bx",
    "/x/%25%32%65%252e/admin",
    "/x%25%32%46..%252fadmin",
    // Programs that end a string at NUL.
    "/admin%2500.png",
    "/x%2500",
    // Servers that do not merge slashes resolve another dot segment.
    "/x//../admin",
    "/x//../y",
    "/admin//./x",
    "//x/%2e%2e/admin",
    // These may be one segment or two.
    "/one/a%2fb",
    r"/one/a\b",
    "/one/a%252Fb",
    "/one/a%5cb",
    // Servers may strip first and decode then, or the other way round.
    "/admin;%2fx",
    "/one/a;b%2fc",
];

/// Accepted paths, with the route that they take.
const SERVED: &[(&str, &str)] = &[
    ("/", "any"),
    // Names of packages and projects, dates, titles.
    ("/@scope%2fname", "any"),
    ("/api/v4/projects/group%2Fproject/raw", "any"),
    ("/admin/a%2Fb", "admin"),
    ("/one/50%25", "one"),
    ("/one/100%25%20sure", "one"),
    ("/one/a%20b%3F%23%22", "one"),
    ("/one/%C3%A9%C0%AF", "one"),
    ("/img/http%3A%2F%2Fa%2Fb.png", "any"),
    // Matrix parameters, sessions.
    ("/shop;jsessionid=1", "any"),
    ("/shop/item;color=red;size=2/x", "any"),
    ("/one/a;b", "one"),
    ("/one/a%3bb", "one"),
    ("/admin/x;y", "admin"),
    (r"/files/a\b", "any"),
    ("/a%5Cb", "any"),
    ("/a%2541b", "any"),
    ("/x%3B/..a", "any"),
    // The gateway resolves plain dot segments; names with dots are names.
    ("/x/../admin", "admin"),
    ("/x/%2e%2E/admin/.", "admin"),
    ("/.well-known/a%2Fb", "any"),
    ("/a..b;c/...%2f..d", "any"),
    ("//admin///x", "admin"),
    ("/one//a", "one"),
];

#[test]
fn what_servers_make_of_a_path() {
    for path in REFUSED {
        assert_eq!(verdict(path), Err(Reject::PathAmbiguous), "{path}");
    }
    for &(path, route) in SERVED {
        assert_eq!(verdict(path), Ok(route), "{path}");
    }
    for path in ["/%", "/%4;", "/%zz%2f", "/%00", "/../x", "/a/../..%2f"] {
        assert!(verdict(path).is_err(), "{path}");
    }
}

#[test]
fn a_long_path_in_doubt_is_refused() {
    let long = "a".repeat(BYTES_MAX);
    assert_eq!(verdict(&format!("/{long}")), Ok("any"));
    assert_eq!(verdict(&format!("/{long}%20")), Ok("any"));
    for doubt in ["%2F", ";", "\\"] {
        assert_eq!(
            verdict(&format!("/{long}{doubt}")),
            Err(Reject::PathAmbiguous)
        );
    }
    // Even a wild mix has only few readings.
    let mixed = r"/a%252f;b\c%3bd%5ce%255cf%253bg".repeat(BYTES_MAX / 32);
    let mut readings = 0;
    let _ = agree(mixed.as_bytes(), |_| {
        readings += 1;
        true
    });
    assert!(readings <= READINGS_MAX * (DECODINGS_MAX + 1), "{readings}");
}

/// One step of a server that handles a path.
#[derive(Debug, Clone)]
enum Step {
    Decode,
    Parameters,
    Backslashes,
    Resolve,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Decode),
        Just(Step::Parameters),
        Just(Step::Backslashes),
        Just(Step::Resolve)
    ]
}

fn read_by(steps: &[Step], path: &[u8]) -> Vec<u8> {
    let mut text = path.to_vec();
    for step in steps {
        text = match step {
            Step::Decode => decode_all(&text),
            Step::Parameters => without_parameters(&text),
            Step::Backslashes => text
                .iter()
                .map(|&b| if b == b'\\' { b'/' } else { b })
                .collect(),
            Step::Resolve => resolved(&text),
        };
    }
    resolved(&text)
}

fn decode_all(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let [byte, tail @ ..] = rest {
        let (kept, after) = escaped(rest).unwrap_or((*byte, tail));
        out.push(kept);
        rest = after;
    }
    out
}

fn resolved(text: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_open = false;
    for segment in text.split(|&b| b == b'/') {
        is_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut out: Vec<u8> = kept
        .iter()
        .flat_map(|name| [b"/", *name].concat())
        .collect();
    if is_open {
        out.push(b'/');
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// For any server behind that decodes at most twice, no accepted path leads to `/admin` unseen.
    #[test]
    fn no_server_is_led_elsewhere(
        parts in prop::collection::vec(
            prop::sample::select(vec!["/", "/", "%2f", "%5C", "\\", ";", ";x", "%3b", ".", "..", "%2e", "admin", "x", "%61dmin", "%25", "2f", "2e", "5c", "3b", "one"]),
            1..8,
        ),
        steps in prop::collection::vec(step(), 0..6),
    ) {
        let path = format!("/{}", parts.concat());
        let decodings = steps.iter().filter(|step| matches!(step, Step::Decode)).count();
        prop_assume!(decodings <= DECODINGS_MAX);
        if let Ok(route) = verdict(&path) {
            let mut normal = Vec::new();
            normalize(path.as_bytes(), &mut normal).unwrap();
            let forwarded = crate::target::forwarded(path.as_bytes(), &normal);
            let read = read_by(&steps, forwarded);
            let is_admin = route_of(&read) == "admin";
            prop_assert!(!is_admin || route == "admin", "{} read as {}", path, read.escape_ascii());
        }
        if is_normal(path.as_bytes()) {
            prop_assert!(!is_doubtful(path.as_bytes()));
        }
    }
}

#[test]
fn an_escape_that_is_not_needed_leads_to_no_other_route() {
    let route_of = |path: &[u8]| (path.starts_with(b"/@own/"), path == b"/a*b".as_slice());
    for (path, is_refused) in [
        ("/%40own/x", true),
        ("/x/../%40own/x", true),
        ("/%40own%2Fx", true),
        ("/@own%2Fx", true),
        ("/a%2Ab", true),
        ("/%40others/x", false),
        ("/x%2C%20y", false),
        ("/@own/%40x", false),
        ("/%C3%BC%5B", false),
    ] {
        let mut normal = Vec::new();
        normalize(path.as_bytes(), &mut normal).unwrap();
        let taken = route_of(&normal);
        let agreed = agree(path.as_bytes(), |read| route_of(read) == taken);
        assert_eq!(agreed.is_err(), is_refused, "{path}");
    }
    assert_eq!(plain(b"/%40a%2Ab%2Fc%25%3B%"), b"/@a*b%2Fc%25%3B%");
}
