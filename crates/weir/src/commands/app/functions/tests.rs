//! What each function answers, without sockets.

use super::*;
use crate::commands::app::payload::RECORDS;

/// 2026-11-21T00:37:11Z.
const NOW: u64 = 1_795_221_431;

struct Answer {
    status: u16,
    headers: hyper::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn records(&self) -> Vec<serde_json::Value> {
        serde_json::from_slice(&self.body).unwrap()
    }
}

fn ask(method: &Method, path: &str, body: &[u8]) -> Answer {
    ask_at(NOW, method, path, Ok(Bytes::copy_from_slice(body)))
}

fn ask_at(unix_now: u64, method: &Method, path: &str, body: Result<Bytes, BodyFault>) -> Answer {
    let response = answer(route(method, path), body, unix_now, Work(1));
    let (head, mut payload) = response.into_parts();
    let body = std::iter::from_fn(|| payload.next_bytes())
        .flatten()
        .collect();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    }
}

#[test]
fn the_date_is_todays_in_ten_thousand_records() {
    let answer = ask(&Method::GET, "/what-date-is-it", b"");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(
        answer
            .text()
            .starts_with(r#"[{"year":2026,"month":11,"day":21},{"year":2026,"#)
    );
    let records = answer.records();
    assert_eq!(records.len(), RECORDS);
    assert!(records.iter().all(|record| *record == records[0]));
}

#[test]
fn the_date_may_be_kept_until_midnight() {
    let last_midnight = NOW - NOW % 86_400;
    for (now, max_age) in [
        (last_midnight, 86_400),
        (NOW, 84_169),
        (last_midnight + 86_399, 1),
    ] {
        let answer = ask_at(now, &Method::GET, "/what-date-is-it", Ok(Bytes::new()));
        assert_eq!(
            answer.header("cache-control"),
            format!("public, max-age={max_age}")
        );
        assert_eq!(
            answer.header("last-modified"),
            "Sat, 21 Nov 2026 00:00:00 GMT"
        );
    }
    let tomorrow = ask_at(
        last_midnight + 86_400,
        &Method::GET,
        "/what-date-is-it",
        Ok(Bytes::new()),
    );
    assert_eq!(
        tomorrow.header("last-modified"),
        "Sun, 22 Nov 2026 00:00:00 GMT"
    );
    assert!(
        tomorrow
            .text()
            .starts_with(r#"[{"year":2026,"month":11,"day":22},"#)
    );
}

#[test]
fn a_name_comes_back_in_ten_thousand_records() {
    for (form, name) in [
        (&b"name=Ada"[..], "Ada"),
        (b"x=1&name=Ada+Lovelace&y", "Ada Lovelace"),
        (b"name=%D0%90%D0%BD%D1%8F%22", "\u{410}\u{43d}\u{44f}\""),
        (b"name=", ""),
        (b"n%61me=Ada", "Ada"),
    ] {
        let answer = ask(&Method::POST, "/what-is-my-name", form);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, "application/json")
        );
        let records = answer.records();
        assert_eq!(records.len(), RECORDS);
        assert!(
            records
                .iter()
                .all(|record| *record == serde_json::json!({ "name": name }))
        );
    }
}

#[test]
fn a_form_without_exactly_one_sound_name_is_refused_with_the_reason() {
    for (form, reason) in [
        (&b""[..], "the form parameter name is missing\n"),
        (b"Name=Ada", "the form parameter name is missing\n"),
        (
            b"name=Ada&name=Ada",
            "the form parameter name is there more than once\n",
        ),
        (
            b"name=100%",
            "the form is broken: the % at byte 8 is not followed by two hexadecimal digits\n",
        ),
        (
            b"name=Ada&other=%xy",
            "the form is broken: the % at byte 15 is not followed by two hexadecimal digits\n",
        ),
        (
            b"name=%FF",
            "the form is broken: the text is not UTF-8 from byte 5 on\n",
        ),
    ] {
        let answer = ask(&Method::POST, "/what-is-my-name", form);
        assert_eq!((answer.status, answer.text()), (400, reason));
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
}

#[test]
fn a_body_that_did_not_arrive_is_answered_and_ends_the_connection() {
    for (fault, status) in [
        (BodyFault::TooLarge, 413),
        (BodyFault::TooSlow, 408),
        (BodyFault::Broken, 400),
    ] {
        let answer = ask_at(NOW, &Method::POST, "/what-is-my-name", Err(fault));
        assert_eq!(
            (answer.status, answer.header("connection")),
            (status, "close")
        );
    }
}

#[test]
fn the_two_workloads_say_that_they_are_done() {
    let handled = ask(&Method::GET, "/handle", b"");
    assert_eq!((handled.status, handled.text()), (200, "done!"));
    assert_eq!(handled.header("content-type"), "application/json");
    let saved = ask(&Method::POST, "/sendEvent", b"");
    assert_eq!((saved.status, saved.text()), (200, "event is saved!"));
    assert_eq!(saved.header("content-type"), "application/json");
}

#[test]
fn the_work_is_1001_strings_of_letters_as_often_as_is_said() {
    let mut worked = Rng::with_seed(1);
    Work(3).on(10, &mut worked);
    let mut drawn = Rng::with_seed(1);
    for _letter in 0..3 * 1001 * 10 {
        drawn.alphabetic();
    }
    assert_eq!(worked, drawn);
}

#[test]
fn the_page_has_612_bytes_of_html() {
    let page = ask(&Method::GET, "/", b"");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    assert_eq!(page.body.len(), 612);
    assert!(page.text().starts_with("<!DOCTYPE html>\n") && page.text().ends_with("</html>\n"));
}

#[test]
fn a_healthy_service_says_ok() {
    let health = ask(&Method::GET, "/healthz", b"");
    assert_eq!((health.status, health.text()), (200, "ok"));
}

#[test]
fn head_goes_where_get_goes() {
    for path in ["/", "/healthz", "/what-date-is-it", "/handle"] {
        assert!(matches!(route(&Method::GET, path), Route::To(_)));
        assert_eq!(route(&Method::HEAD, path), route(&Method::GET, path));
    }
}

#[test]
fn other_methods_are_refused_with_the_ones_there_are() {
    for (method, path, allow) in [
        (Method::POST, "/", "GET, HEAD"),
        (Method::DELETE, "/healthz", "GET, HEAD"),
        (Method::POST, "/what-date-is-it", "GET, HEAD"),
        (Method::OPTIONS, "/handle", "GET, HEAD"),
        (Method::GET, "/what-is-my-name", "POST"),
        (Method::HEAD, "/sendEvent", "POST"),
        (Method::from_bytes(b"get").unwrap(), "/", "GET, HEAD"),
    ] {
        let answer = ask(&method, path, b"");
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, allow),
            "{method} {path}"
        );
    }
}

#[test]
fn an_unknown_path_is_not_found() {
    for path in ["/handle/", "/Handle", "//", "*", ""] {
        assert_eq!(ask(&Method::GET, path, b"").status, 404, "{path}");
    }
}
