//! What clients get of services.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use weir_policy::breaker;

use super::house::{Does, House, Origin, PATIENCE, rule, serve};
use crate::service::{Answer, Content, Reply};
use crate::settings::{Action, BreakerRule, StatusSet};

/// Nobody listens there.
fn nowhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1).into()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}

/// Head and body.
fn parts(response: &str) -> (&str, &str) {
    response.split_once("\r\n\r\n").expect("a head")
}

fn status(response: &str) -> &str {
    response.get(9..12).unwrap_or_default()
}

#[test]
fn it_answers_from_another_thread_what_it_was_asked() {
    let does: Does = Box::new(|ask| {
        let (replier, reply) = Reply::later();
        let _ = std::thread::spawn(move || {
            let text = format!(
                "{} {} {} {:?} {} {:?}",
                ask.client,
                ask.route,
                ask.upstream.as_deref().unwrap_or("-"),
                ask.parameters,
                String::from_utf8_lossy(&ask.head).replace("\r\n", "|"),
                String::from_utf8_lossy(&ask.body),
            );
            replier.answer(Answer::new(202).with("Location", *b"/7").content(text));
        });
        reply
    });
    let house = House::new(nowhere(), does);
    let request = "POST /a/b?c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n\
        3\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n";
    let response = house.exchange(request);
    let (head, body) = parts(&response);
    assert!(
        head.starts_with("HTTP/1.1 202 Accepted\r\nDate: "),
        "{head}"
    );
    assert!(head.contains("\r\nLocation: /7\r\n"), "{head}");
    assert_eq!(
        body,
        "127.0.0.1 served later [(\"rest\", \"a/b\")] POST /a/b?c HTTP/1.1|Host: h|Content-Length: 5|| \"abcde\""
    );
}

/// A service may keep what it is given for long.
#[test]
fn a_small_body_takes_no_more_memory_than_it_says_it_has() {
    let does: Does = Box::new(|ask| {
        let text = format!("{} of {}", ask.body.len(), ask.body.capacity());
        Reply::ready(Answer::new(200).content(text))
    });
    let house = House::new(nowhere(), does);
    let body = "x".repeat(100);
    let request = format!(
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{body}"
    );
    assert_eq!(parts(&house.exchange(&request)).1, "100 of 100");
}

#[test]
fn a_connection_goes_on_after_a_service() {
    let does: Does = Box::new(|ask| Reply::ready(Answer::new(200).content(ask.body)));
    let house = House::new(nowhere(), does);
    let one = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none";
    let two = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
    let three = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthree";
    let response = house.exchange(&[one, two, three].concat());
    let bodies: Vec<_> = response.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    let ends: Vec<_> = bodies.iter().map(|answer| parts(answer).1).collect();
    assert_eq!(ends, ["one", "", "three"], "{response}");
}

#[test]
fn it_streams_and_is_held_back_by_its_client() {
    const PIECES: usize = 2_000;
    const PIECE: [u8; 10_000] = [b'x'; 10_000];
    let (says, fed) = mpsc::channel();
    let does: Does = Box::new(move |ask| {
        let length = (ask.path() == b"/known").then_some((PIECES * PIECE.len()) as u64);
        let (feeder, content) = Content::pieces(length);
        let says = says.clone();
        let _ = std::thread::spawn(move || {
            for _ in 0..PIECES {
                feeder.feed_blocking(&PIECE[..]).expect("somebody reads");
                says.send(()).expect("somebody counts");
            }
            feeder.finish_blocking().expect("somebody reads");
        });
        Reply::ready(Answer {
            content,
            ..Answer::new(200)
        })
    });
    let house = House::new(nowhere(), does);
    for (path, framing) in [
        ("/unknown", "Transfer-Encoding: chunked\r\n"),
        ("/known", "Content-Length: 20000000\r\n"),
    ] {
        let mut stream = house.connect();
        stream.write_all(get(path).as_bytes()).expect("it reads");
        let mut first = [0; 1];
        stream.read_exact(&mut first).expect("it answers");
        // The client reads nothing: the sockets' buffers are filled, and then nobody is fed any more.
        while fed.recv_timeout(Duration::from_millis(500)).is_ok() {}
        let mut response = first.to_vec();
        stream.read_to_end(&mut response).expect("it goes on");
        let all: usize = fed.try_iter().count();
        assert!(all > PIECES / 10, "it was not held back: {all} were left");
        let response = String::from_utf8_lossy(&response);
        let (head, body) = parts(&response);
        assert!(format!("{head}\r\n").contains(framing), "{head}");
        let content = body.bytes().filter(|&byte| byte == b'x').count();
        assert_eq!(content, PIECES * PIECE.len());
    }
}

#[test]
fn content_that_is_not_what_was_said_breaks_off() {
    for (pieces, length, ends) in [
        (vec!["12345"], Some(10), true),
        (vec!["12345", "1234567"], Some(10), true),
        (vec!["12345"], Some(10), false),
        (vec!["12345"], None, false),
    ] {
        let fed = pieces.clone();
        let does: Does = Box::new(move |_| {
            let (feeder, content) = Content::pieces(length);
            let fed = fed.clone();
            let _ = std::thread::spawn(move || {
                for piece in fed {
                    let _ = feeder.feed_blocking(piece);
                }
                if ends {
                    let _ = feeder.finish_blocking();
                }
            });
            Reply::ready(Answer {
                content,
                ..Answer::new(200)
            })
        });
        let house = House::new(nowhere(), does);
        let mut stream = house.connect();
        stream.write_all(get("/").as_bytes()).expect("it reads");
        let mut response = Vec::new();
        let end = stream.read_to_end(&mut response);
        assert!(end.is_err(), "{pieces:?} {length:?} {ends}");
        let response = String::from_utf8_lossy(&response);
        assert!(!response.contains("\r\n0\r\n\r\n"), "{response}");
    }
}

#[test]
fn it_refuses_and_what_it_cannot_say_is_a_500() {
    let does: Does = Box::new(|ask| match ask.path() {
        b"/refuse" => Reply::ready(Answer::new(503).with("Retry-After", *b"7")),
        b"/none" => Reply::later().1,
        b"/length" => Reply::ready(Answer::new(200).with("Content-Length", *b"9")),
        b"/inject" => Reply::ready(Answer::new(200).with("X", *b"1\r\nSet-Cookie: a")),
        b"/interim" => Reply::ready(Answer::new(103)),
        b"/304" => Reply::ready(Answer::new(304).content("text")),
        _ => Reply::ready(Answer::new(204)),
    });
    let house = House::new(nowhere(), does);
    for (path, expected) in [
        ("/refuse", "503"),
        ("/none", "500"),
        ("/length", "500"),
        ("/inject", "500"),
        ("/interim", "500"),
        ("/304", "500"),
        ("/", "204"),
    ] {
        let response = house.exchange(&get(path));
        assert_eq!(status(&response), expected, "{path}: {response}");
        assert!(!response.contains("Set-Cookie"), "{response}");
        let has_length = response.contains("Content-Length");
        assert_eq!(has_length, expected != "204", "{response}");
        assert_eq!(response.contains("Retry-After: 7\r\n"), path == "/refuse");
    }
}

#[test]
fn bodies_have_the_least_of_all_limits() {
    let does: Does = Box::new(|ask| Reply::ready(Answer::new(200).content(ask.body)));
    let house = House::with(nowhere(), does, |settings| {
        settings.routes[0].limits.body_bytes = 200_000;
    });
    let send = |house: &House, length: usize, chunked: bool| {
        let body = "x".repeat(length);
        let request = if chunked {
            format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n")
        } else {
            format!("Content-Length: {length}\r\n\r\n{body}")
        };
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{request}");
        status(&house.exchange(&request)).to_owned()
    };
    for (length, chunked, expected) in [
        (100_000, false, "200"),
        (99_900, true, "200"),
        (100_001, false, "413"),
        (100_001, true, "413"),
    ] {
        assert_eq!(send(&house, length, chunked), expected, "{length}");
    }
    house
        .reload(|settings| settings.routes[0].limits.body_bytes = 10)
        .expect("it is sound");
    assert_eq!(send(&house, 11, false), "413");
    // No room for what has to be here whole: what fits into one buffer needs none.
    house
        .reload(|settings| {
            settings.routes[0].limits.body_bytes = 1 << 20;
            settings.limits.held_body_bytes = 0;
        })
        .expect("it is sound");
    assert_eq!(send(&house, 20_000, false), "200");
    assert_eq!(send(&house, 90_000, false), "503");
}

/// What comes behind a body that was too long is no request, however it was cut into packets.
#[test]
fn nothing_of_a_body_that_is_too_long_is_taken_for_a_request() {
    let guarded = || {
        let mut rule = rule();
        rule.care.breaker = Some(BreakerRule {
            breaker: breaker::Settings::default(),
            failures: StatusSet::server_errors(),
        });
        Action::Forward(rule)
    };
    let origin = Origin::new(&["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
    // A service is asked for the whole body, and an upstream with a breaker gets what was collected.
    for action in [serve("test"), guarded()] {
        let does: Does = Box::new(|_| Reply::ready(Answer::new(200)));
        let house = House::with(origin.address, does, |settings| {
            settings.routes[0].limits.body_bytes = 30;
            settings.routes[0].action = action;
        });
        let mut stream = house.connect();
        stream.set_nodelay(true).expect("Nagle can be switched off");
        let inner = "GET /smuggled HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let filler = "x".repeat(20);
        let size = filler.len() + inner.len();
        let first = "POST /first HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(first.as_bytes()).expect("it reads");
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).expect("it says so");
        let begin = format!("{size:x}\r\n{filler}");
        stream.write_all(begin.as_bytes()).expect("it reads");
        // The worker has taken the first piece when it has taken this turn, too.
        assert_eq!(status(&house.exchange(&get("/other"))), "200");
        let end = format!("{inner}\r\n0\r\n\r\n");
        stream.write_all(end.as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let response = String::from_utf8_lossy(&response);
        let answers = response.matches("HTTP/1.1 ").count();
        assert_eq!((status(&response), answers), ("413", 1), "{response}");
    }
}

#[test]
fn a_client_that_waits_for_a_100_is_told_so() {
    let does: Does = Box::new(|ask| Reply::ready(Answer::new(200).content(ask.body)));
    let house = House::new(nowhere(), does);
    let mut stream = house.connect();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("it says so");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it answers");
    assert_eq!(parts(&response).1, "abc");
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let (says, asked) = mpsc::channel();
    let does: Does = Box::new(move |_| {
        let (replier, reply) = Reply::later();
        says.send(replier).expect("somebody waits");
        reply
    });
    let house = House::new(nowhere(), does);
    for body in ["", "abc"] {
        let mut stream = house.connect();
        let length = body.len();
        let request =
            format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("it reads");
        let replier = asked.recv_timeout(PATIENCE).expect("it is asked");
        assert!(!replier.has_left());
        drop(stream);
        let began = crate::time::now();
        while !replier.has_left() {
            assert!(crate::time::since(began) < PATIENCE, "nobody noticed");
            std::thread::yield_now();
        }
        replier.answer(Answer::new(200));
    }
}

#[test]
fn it_has_the_time_that_its_route_gives_it() {
    let (says, asked) = mpsc::channel();
    let does: Does = Box::new(move |_| {
        let (replier, reply) = Reply::later();
        says.send(replier).expect("somebody waits");
        reply
    });
    let house = House::with(nowhere(), does, |settings| {
        let Action::Serve(serve) = &mut settings.routes[0].action else {
            panic!("it is served");
        };
        serve.timeout = Duration::from_millis(100);
    });
    let response = house.exchange(&get("/"));
    assert_eq!(status(&response), "504", "{response}");
    assert!(asked.recv().expect("it was asked").has_left());
}

#[test]
fn a_drain_waits_for_what_is_under_way() {
    let (says, asked) = mpsc::channel();
    let does: Does = Box::new(move |_| {
        let (replier, reply) = Reply::later();
        says.send(replier).expect("somebody waits");
        reply
    });
    let house = House::new(nowhere(), does);
    let service = house.service();
    service
        .is_busy
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let mut stream = house.connect();
    stream.write_all(get("/").as_bytes()).expect("it reads");
    let replier = asked.recv_timeout(PATIENCE).expect("it is asked");
    let gateway = house.gateway;
    let (ends, ended) = mpsc::channel();
    let drain = std::thread::spawn(move || {
        let is_whole = gateway
            .drain(|_, wait| std::thread::sleep(wait))
            .is_complete;
        ends.send(()).expect("somebody waits");
        is_whole
    });
    // It was told, and waits for the client and for the service.
    let began = crate::time::now();
    while service.drained.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        assert!(crate::time::since(began) < PATIENCE, "nobody told it");
        std::thread::yield_now();
    }
    assert!(ended.try_recv().is_err());
    replier.answer(Answer::new(200).content("late"));
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it answers");
    assert_eq!(parts(&response).1, "late");
    assert!(ended.try_recv().is_err(), "the service is busy");
    service
        .is_busy
        .store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(drain.join().expect("it ends"), "nothing was cut off");
}
