//! Whole exchanges: what a client sees, and what the origin is asked, when one request follows another.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use weir_cache::{CachePolicy, Timestamp};

use crate::miniature::{Miniature, Text};

/// A gateway in miniature, an origin that answers with what it is told, and a clock that is set by hand.
struct Play {
    gateway: RefCell<Miniature>,
    now: Cell<u64>,
    /// What the origin answers next; nothing breaks the connection.
    answer: RefCell<Option<Text>>,
    /// What the origin was asked.
    asked: RefCell<Vec<String>>,
}

impl Play {
    fn new(policy: CachePolicy) -> Self {
        let gateway = Miniature {
            policy,
            ..Miniature::default()
        };
        Self {
            gateway: RefCell::new(gateway),
            now: Cell::new(1_000_000),
            answer: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    fn origin_says(&self, status: &str, lines: &[&str], body: &str) {
        let head = format!("HTTP/1.1 {status}\r\n{}\r\n", as_text(lines));
        *self.answer.borrow_mut() = Some((head, body.to_owned()));
    }

    fn wait(&self, secs: u64) {
        self.now.set(self.now.get() + secs);
    }

    fn ask(&self, first: &str, lines: &[&str]) -> Text {
        let text = format!("{first} HTTP/1.1\r\nHost: h\r\n{}\r\n", as_text(lines));
        let mut origin = |sent: &str| {
            self.asked.borrow_mut().push(sent.to_owned());
            self.answer.borrow().clone()
        };
        let now = Timestamp::from_secs(self.now.get());
        self.gateway.borrow_mut().ask(now, &text, &mut origin)
    }

    /// How often the origin was asked since this was called last.
    fn asked(&self) -> usize {
        self.asked.borrow_mut().drain(..).count()
    }
}

fn as_text(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [line, "\r\n"]).collect()
}

fn play() -> Play {
    Play::new(CachePolicy::default())
}

#[test]
fn a_fresh_response_is_asked_for_once() {
    let play = play();
    play.origin_says("200 OK", &["Cache-Control: max-age=60"], "body");
    let (first, _) = play.ask("GET /", &[]);
    assert!(first.contains("Cache-Status: weir; fwd=uri-miss; stored\r\n"));
    play.wait(59);
    let (head, body) = play.ask("GET /", &[]);
    assert_eq!(play.asked(), 1);
    assert!(head.contains("\r\nAge: 59\r\n") && head.contains("Cache-Status: weir; hit\r\n"));
    assert_eq!(body, "body");
    let (head, body) = play.ask("HEAD /", &[]);
    assert!(head.contains("Content-Length: 4\r\n") && body.is_empty());
    let (head, body) = play.ask("GET /", &["Range: bytes=1-2"]);
    assert!(head.starts_with("HTTP/1.1 206") && body == "od");
    assert_eq!(play.asked(), 0);
    play.wait(1);
    play.ask("GET /", &[]);
    assert_eq!(play.asked(), 1);
}

#[test]
fn a_stale_response_is_validated() {
    let play = play();
    let lines = ["Cache-Control: max-age=5", "ETag: \"a\"", "A: 1"];
    play.origin_says("200 OK", &lines, "body");
    play.ask("GET /", &[]);
    play.wait(10);
    play.origin_says("304 Not Modified", &["ETag: \"a\"", "A: 2"], "");
    let (head, body) = play.ask("GET /", &["If-None-Match: \"old\"", "Range: bytes=0-0"]);
    let asked = play.asked.borrow().last().cloned().unwrap();
    assert!(asked.contains("If-None-Match: \"a\"\r\n"));
    assert!(!asked.contains("old") && !asked.contains("Range"));
    assert!(head.starts_with("HTTP/1.1 206") && head.contains("A: 2\r\n") && body == "b");
    assert!(head.contains("Cache-Status: weir; fwd=stale; fwd-status=304\r\n"));
    play.asked();
    let (head, _) = play.ask("GET /", &["If-None-Match: \"a\""]);
    assert!(head.starts_with("HTTP/1.1 304") && head.contains("A: 2\r\n"));
    assert_eq!(play.asked(), 0);
}

#[test]
fn a_304_that_says_no_store_is_the_last_answer() {
    let play = play();
    play.origin_says(
        "200 OK",
        &["Cache-Control: max-age=5", "ETag: \"a\""],
        "body",
    );
    play.ask("GET /", &[]);
    play.wait(10);
    let lines = ["ETag: \"a\"", "Cache-Control: no-store"];
    play.origin_says("304 Not Modified", &lines, "");
    let (_, body) = play.ask("GET /", &[]);
    assert_eq!(body, "body");
    play.origin_says("200 OK", &[], "other");
    let (_, body) = play.ask("GET /", &[]);
    assert_eq!(body, "other");
}

#[test]
fn variants_live_side_by_side() {
    let play = play();
    let lines = ["Cache-Control: max-age=60", "Vary: Accept-Language"];
    for (language, body) in [("de", "Deutsch"), ("en", "English")] {
        play.origin_says("200 OK", &lines, body);
        play.ask("GET /", &[&format!("Accept-Language: {language}")]);
    }
    assert_eq!(play.asked(), 2);
    for (language, expected) in [("DE", "Deutsch"), ("en;q=1.0", "English")] {
        let (_, body) = play.ask("GET /", &[&format!("Accept-Language: {language}")]);
        assert_eq!(body, expected);
    }
    assert_eq!(play.asked(), 0);
    let (head, _) = play.ask("GET /", &[]);
    assert!(head.contains("fwd=vary-miss"));
}

#[test]
fn a_change_ends_what_is_stored() {
    let play = play();
    play.origin_says("200 OK", &["Cache-Control: max-age=60"], "old");
    play.ask("GET /a", &[]);
    play.ask("GET /b?c", &[]);
    play.asked();
    play.origin_says("500 No", &["Location: /b?c"], "");
    play.ask("POST /a", &[]);
    assert_eq!(play.ask("GET /a", &[]).1, "old");
    play.origin_says("200 OK", &["Location: /b?c"], "");
    play.ask("POST /a", &[]);
    play.origin_says("200 OK", &[], "new");
    assert_eq!(play.ask("GET /a", &[]).1, "new");
    assert_eq!(play.ask("GET /b?c", &[]).1, "new");
}

#[test]
fn an_origin_that_fails_is_covered_for() {
    let play = play();
    let lines = ["Cache-Control: max-age=5, stale-if-error=20"];
    play.origin_says("200 OK", &lines, "body");
    play.ask("GET /", &[]);
    play.wait(10);
    play.origin_says("503 Busy", &[], "");
    assert_eq!(play.ask("GET /", &[]).1, "body");
    play.wait(15);
    assert!(play.ask("GET /", &[]).0.starts_with("HTTP/1.1 503"));
    *play.answer.borrow_mut() = None;
    assert_eq!(play.ask("GET /", &[]).1, "body");
    play.wait(3600);
    assert!(play.ask("GET /", &[]).0.starts_with("HTTP/1.1 502"));
}

#[test]
fn nobody_waits_while_it_is_revalidated() {
    let play = Play::new(CachePolicy {
        stale_while_revalidate: Some(Duration::from_secs(30)),
        ..CachePolicy::default()
    });
    play.origin_says("200 OK", &["Cache-Control: max-age=5"], "old");
    play.ask("GET /", &[]);
    play.wait(10);
    play.origin_says("200 OK", &["Cache-Control: max-age=5"], "new");
    assert_eq!(play.ask("GET /", &[]).1, "old");
    assert_eq!(play.asked(), 2);
    assert_eq!(play.ask("GET /", &[]).1, "new");
    assert_eq!(play.asked(), 0);
}

#[test]
fn clients_can_refuse_to_wait() {
    let play = play();
    let only = ["Cache-Control: only-if-cached"];
    assert!(play.ask("GET /", &only).0.starts_with("HTTP/1.1 504"));
    assert_eq!(play.asked(), 0);
}
