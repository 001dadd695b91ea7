//! `/v0`: the API of a course on services under high load, whose tests it passes.
//!
//! ```text
//! GET    /v0/status
//! GET    /v0/entity?id=K      200 and the value, 404
//! PUT    /v0/entity?id=K      201
//! DELETE /v0/entity?id=K      202
//! GET    /v0/entities?start=K[&end=K]     the entries of this node, in the order of their keys: key, line feed, value
//! ```
//!
//! `replicas=ACK/FROM`, or `ack=` and `from=`, say how many replicas are asked and how many have to answer. Whatever is wrong
//! with a request is 400; too few replicas are 504. Pure.

use bytes::Bytes;
use weir_http::Method;

use super::{Parameters, Refusal, Size, key, not_allowed};
use crate::coordinator::Quorum;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Status,
    Get(Bytes, Quorum),
    Put(Bytes, Quorum),
    Delete(Bytes, Quorum),
    /// The entries from a key on, up to another one without it.
    Range(Bytes, Option<Bytes>),
}

/// Reads a request to a cluster of such a size.
pub(crate) fn parse(
    method: Method,
    path: &[u8],
    query: &[u8],
    size: Size,
) -> Result<Call, Refusal> {
    let parameters = Parameters::read(query)?;
    let find = |name: &str| parameters.find(name);
    let rest = path.strip_prefix(b"/v0").unwrap_or(path);
    match (rest, method) {
        (b"/status", Method::Get | Method::Head) => Ok(Call::Status),
        (b"/entity", _) => {
            let id = key("id", find("id")?)?;
            let quorum = parameters.quorum(size)?;
            match method {
                Method::Get | Method::Head => Ok(Call::Get(id, quorum)),
                Method::Put => Ok(Call::Put(id, quorum)),
                Method::Delete => Ok(Call::Delete(id, quorum)),
                _ => Err(not_allowed("GET, HEAD, PUT, DELETE")),
            }
        }
        (b"/entities", Method::Get | Method::Head) => {
            let end = find("end")?.filter(|end| !end.is_empty());
            let end = end.map(|end| key("end", Some(end))).transpose()?;
            Ok(Call::Range(key("start", find("start")?)?, end))
        }
        (b"/status" | b"/entities", _) => Err(not_allowed("GET, HEAD")),
        _ => Err(Refusal::bad(
            "there are /v0/status, /v0/entity?id=KEY and /v0/entities?start=KEY&end=KEY",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::KEY_BYTES_MAX;

    fn get(query: &str, nodes: usize) -> Result<Call, u16> {
        let parsed = parse(
            Method::Get,
            b"/v0/entity",
            query.as_bytes(),
            Size::whole(nodes),
        );
        parsed.map_err(|refusal| refusal.status)
    }

    fn quorum_of(query: &str, nodes: usize) -> Option<(usize, usize)> {
        match get(query, nodes) {
            Ok(Call::Get(_, quorum)) => Some((quorum.ack, quorum.from)),
            _ => None,
        }
    }

    #[test]
    fn the_default_is_more_than_half_of_all() {
        for (nodes, expected) in [
            (1, (1, 1)),
            (2, (2, 2)),
            (3, (2, 3)),
            (4, (3, 4)),
            (5, (3, 5)),
        ] {
            assert_eq!(quorum_of("id=k", nodes), Some(expected));
        }
        assert_eq!(quorum_of("id=k&from=2", 3), Some((2, 2)));
        assert_eq!(quorum_of("id=k&ack=1", 3), Some((1, 3)));
    }

    #[test]
    fn replicas_are_said_in_two_ways() {
        assert_eq!(quorum_of("id=k&replicas=1/2", 3), Some((1, 2)));
        assert_eq!(quorum_of("id=k&ack=1&from=2", 3), Some((1, 2)));
        for wrong in [
            "replicas=0/1",
            "replicas=3/2",
            "replicas=4/4",
            "replicas=1",
            "replicas=a/b",
            "replicas=",
            "replicas=+1/2",
            "replicas=1/2&ack=1",
            "ack=0&from=1",
            "ack=2&from=1",
            "ack=&from=",
            "from=0",
            "from=99999999999999999999999",
            "ack=1&ack=1",
        ] {
            let told = get(&format!("id=k&{wrong}"), 3);
            assert_eq!(told, Err(400), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_there_and_not_too_long() {
        let key = |query: &str| match get(query, 1) {
            Ok(Call::Get(key, _)) => Ok(key),
            Ok(other) => panic!("{other:?}"),
            Err(status) => Err(status),
        };
        assert_eq!(key("id=a%20b"), Ok(Bytes::from_static(b"a b")));
        let long = "x".repeat(KEY_BYTES_MAX);
        assert!(key(&format!("id={long}")).is_ok());
        for query in [
            "",
            "id",
            "id=",
            "di=k",
            "id=a&id=b",
            "id=%zz",
            &format!("id={long}x"),
        ] {
            assert_eq!(key(query), Err(400), "{query}");
        }
    }

    #[test]
    fn other_paths_are_400_and_other_methods_405() {
        for (method, path, query, status) in [
            (Method::Get, "/v0/", "", 400),
            (Method::Get, "/v0/entities2", "start=a", 400),
            (Method::Post, "/v0/entity", "id=k", 405),
            (Method::Post, "/v0/status", "", 405),
            (Method::Put, "/v0/entities", "start=a", 405),
            (Method::Get, "/v0/entities", "", 400),
            (Method::Get, "/v0/entities", "start=", 400),
            (Method::Post, "/v0/entity", "", 400),
        ] {
            let parsed = parse(method, path.as_bytes(), query.as_bytes(), Size::whole(3));
            let told = parsed.map_err(|refusal| refusal.status);
            assert_eq!(told, Err(status), "{method:?} {path}?{query}");
        }
    }

    #[test]
    fn a_range_begins_somewhere_and_may_end() {
        let range = |query: &str| {
            parse(
                Method::Get,
                b"/v0/entities",
                query.as_bytes(),
                Size::whole(3),
            )
        };
        let call = |from: &'static [u8], to: Option<&'static [u8]>| {
            Ok(Call::Range(
                Bytes::from_static(from),
                to.map(Bytes::from_static),
            ))
        };
        assert_eq!(range("start=a"), call(b"a", None));
        assert_eq!(range("start=a&end=b"), call(b"a", Some(b"b")));
        assert_eq!(range("start=a&end="), call(b"a", None));
    }
}
