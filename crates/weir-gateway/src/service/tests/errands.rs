//! What becomes of errands.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_policy::breaker;
use weir_policy::limit::concurrency::{self, Limit};
use weir_policy::limit::queue;

use super::house::{Does, House, Origin, PATIENCE, errand, route, rule, serve, server};
use crate::service::{Answer, Answered, Errand, Outcome, Refused, Reply, Unanswered};
use crate::settings::template::Template;
use crate::settings::{Action, BreakerRule, RetryRule, Settings, StatusSet};
use crate::supervision::Supervision;

const OK: &str = "HTTP/1.1 200 OK\r\nX-Says: yes\r\nContent-Length: 4\r\n\r\ndone";
const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";

fn plain() -> Does {
    Box::new(|_| Reply::ready(Answer::new(200)))
}

/// The rule by which the route of the house delivers.
fn delivery(settings: &mut Settings) -> &mut crate::settings::Forward {
    settings.routes[0].action.rule_mut().expect("it delivers")
}

fn answered(outcome: &Outcome) -> &Answered {
    match outcome {
        Outcome::Answered(answered) => answered,
        Outcome::Unanswered(why) => panic!("{why:?}"),
    }
}

fn unanswered(outcome: &Outcome) -> &Unanswered {
    match outcome {
        Outcome::Unanswered(why) => why,
        Outcome::Answered(answered) => panic!("{answered:?}"),
    }
}

#[test]
fn the_upstream_is_asked_what_was_kept() {
    let origin = Origin::new(&[OK]);
    let house = House::new(origin.address, plain());
    let outcome = house.deliver(errand("/a?b", "body"));
    let answer = answered(&outcome);
    assert_eq!((answer.status, &answer.body[..]), (200, &b"done"[..]));
    assert_eq!(answer.field("x-says"), Some(&b"yes"[..]));
    assert!(answer.is_whole);
    let asked = &origin.asked(1)[0];
    // The name is another one in each process.
    let (before, name) = asked.split_once("Via: 1.1 weir-").expect("a name");
    let asked = format!("{before}Via: 1.1 weir{}", &name[8..]);
    assert_eq!(
        asked,
        "POST /a?b HTTP/1.1\r\nHost: kept.example\r\nX-Own: 1\r\nContent-Length: 4\r\n\
         X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: kept.example\r\n\
         Via: 1.1 weir\r\nx-attempt: 1\r\n\r\nbody"
    );
}

#[test]
fn a_request_of_http_1_0_needs_no_host() {
    let origin = Origin::new(&[OK]);
    let house = House::new(origin.address, plain());
    let mut errand = errand("/", "");
    errand.head = b"GET /a HTTP/1.0\r\n\r\n".to_vec();
    assert_eq!(answered(&house.deliver(errand)).status, 200);
    let asked = &origin.asked(1)[0];
    let host = format!("GET /a HTTP/1.1\r\nHost: {}\r\n", origin.address);
    assert!(asked.starts_with(&host), "{asked}");
}

#[test]
fn what_is_none_is_told_and_asks_nobody() {
    let house = House::new((Ipv4Addr::LOCALHOST, 1).into(), plain());
    let sound = errand("/", "body");
    let with_head = |head: &str| {
        let mut errand = sound.clone();
        errand.head = head.as_bytes().to_vec();
        errand
    };
    let mut short = sound.clone();
    short.body.truncate(3);
    let mut injects = sound.clone();
    injects.fields[0].1 = "1\r\nX: 2".to_owned();
    let mut redirects = sound.clone();
    redirects.fields[0].0 = "Host".to_owned();
    let mut frames = sound.clone();
    frames.fields[0].0 = "content-length".to_owned();
    for errand in [
        with_head(""),
        with_head("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"),
        with_head("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n"),
        with_head("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
        with_head("POST /%2e%2e/%zz HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n\r\n"),
        short,
        injects,
        redirects,
        frames,
    ] {
        let outcome = house.deliver(errand.clone());
        let why = unanswered(&outcome);
        assert_eq!(
            (why.why, why.is_unheard),
            ("malformed_errand", true),
            "{errand:?}"
        );
    }
    let mut elsewhere = sound;
    elsewhere.upstream = "gone".into();
    let outcome = house.deliver(elsewhere);
    let why = unanswered(&outcome);
    assert_eq!((why.why, why.is_unheard), ("no_route", true));
}

#[test]
fn it_is_repeated_by_the_rule_of_its_route() {
    let origin = Origin::new(&[BUSY, OK]);
    let house = House::with(origin.address, plain(), |settings| {
        delivery(settings).care.retry = RetryRule {
            attempts: 2,
            statuses: StatusSet(vec![503..=503]),
            ..RetryRule::default()
        };
    });
    let mut put = errand("/", "body");
    put.head = String::from_utf8(put.head)
        .map(|head| head.replace("POST", "PUT").into_bytes())
        .expect("it is text");
    assert_eq!(answered(&house.deliver(put)).status, 200);
    let asked = origin.asked(2);
    assert!(asked[1].ends_with("\r\n\r\nbody"), "{}", asked[1]);
    // A POST may have been acted on: that is for the service to say.
    let origin = Origin::new(&[BUSY, OK]);
    house
        .reload(|settings| settings.upstreams[0].servers = vec![server(origin.address)])
        .expect("it is sound");
    let outcome = house.deliver(errand("/", "body"));
    let answer = answered(&outcome);
    assert_eq!(answer.status, 503);
    assert_eq!(answer.field("Retry-After"), Some(&b"3"[..]));
}

#[test]
fn an_open_breaker_keeps_it_away() {
    let origin = Origin::new(&[BUSY]);
    let house = House::with(origin.address, plain(), |settings| {
        delivery(settings).care.breaker = Some(BreakerRule {
            breaker: breaker::Settings {
                min_requests: 2,
                ..breaker::Settings::default()
            },
            failures: StatusSet::server_errors(),
        });
    });
    for _ in 0..2 {
        assert_eq!(answered(&house.deliver(errand("/", "body"))).status, 503);
    }
    let outcome = house.deliver(errand("/", "body"));
    let why = unanswered(&outcome);
    assert_eq!((why.why, why.is_unheard), ("breaker_open", true));
    assert!(why.retry_after.is_some(), "{why:?}");
    assert_eq!(origin.asked(2).len(), 2);
}

/// The time of an errand may be shorter than that of its route.
#[test]
fn who_does_not_answer_in_its_time_has_failed() {
    let origin = Origin::new(&[""]);
    let house = House::with(origin.address, plain(), |settings| {
        delivery(settings).care.breaker = Some(BreakerRule {
            breaker: breaker::Settings {
                min_requests: 2,
                ..breaker::Settings::default()
            },
            failures: StatusSet::server_errors(),
        });
    });
    let mut short = errand("/", "");
    short.within = Duration::from_millis(100);
    for _ in 0..2 {
        let outcome = house.deliver(short.clone());
        assert_eq!(unanswered(&outcome).why, "response_timeout");
    }
    assert_eq!(unanswered(&house.deliver(short)).why, "breaker_open");
}

#[test]
fn its_own_fields_take_the_place_of_all_others() {
    let origin = Origin::new(&[OK]);
    let house = House::with(origin.address, plain(), |settings| {
        let set = &mut delivery(settings).request_headers.set;
        set.push(("x-attempt".to_owned(), Template::fixed("rule")));
        set.push(("x-other".to_owned(), Template::fixed("rule")));
    });
    assert_eq!(answered(&house.deliver(errand("/", ""))).status, 200);
    let asked = origin.asked(1)[0].to_ascii_lowercase();
    assert_eq!(asked.matches("attempt:").count(), 1, "{asked}");
    assert!(asked.contains("x-attempt: 1\r\n") && asked.contains("x-other: rule\r\n"));
}

/// Forwarding later says the same as forwarding now.
#[test]
fn what_is_said_of_the_client_is_what_forwarding_says() {
    let origin = Origin::new(&[OK]);
    let (says, asked) = std::sync::mpsc::channel();
    let does: Does = Box::new(move |ask| {
        says.send(ask).expect("somebody waits");
        Reply::ready(Answer::new(202))
    });
    let house = House::with(origin.address, does, |settings| {
        settings.trusted_proxies = vec!["127.0.0.1/32".parse().expect("it is a network")];
    });
    let request = "GET /a HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.9.9.9, 203.0.113.9\r\nConnection: close\r\n\r\n";
    let _ = house.exchange(request);
    let ask = asked.recv().expect("it was asked");
    assert_eq!(ask.client.to_string(), "203.0.113.9");
    let later = Errand {
        client: ask.client,
        peer: ask.peer,
        scheme: ask.scheme,
        head: ask.head,
        body: ask.body,
        fields: Vec::new(),
        ..errand("/", "")
    };
    assert_eq!(answered(&house.deliver(later)).status, 200);
    house
        .reload(|settings| settings.routes[0].action = Action::Forward(rule()))
        .expect("it is sound");
    let _ = house.exchange(request);
    let asked = origin.asked(2);
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn times_and_lengths_may_be_any() {
    let origin = Origin::new(&[OK]);
    let house = House::with(origin.address, plain(), |settings| {
        let Action::Serve(serve) = &mut settings.routes[0].action else {
            panic!("it is served");
        };
        serve.timeout = Duration::MAX;
    });
    let response = house.exchange("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let mut patient = errand("/", "");
    (patient.within, patient.answer_bytes_max) = (Duration::MAX, usize::MAX);
    assert_eq!(answered(&house.deliver(patient)).status, 200);
}

#[test]
fn a_limit_holds_for_errands_too() {
    let origin = Origin::new(&[""]);
    let house = House::with(origin.address, plain(), |settings| {
        settings.upstreams[0].care.concurrency = Some(concurrency::Settings {
            limit: Limit::Fixed(1),
            queue: queue::Settings {
                waiters_max: 0,
                ..queue::Settings::default()
            },
            ..concurrency::Settings::default()
        });
        delivery(settings).timeouts.response = Duration::from_secs(1);
    });
    let courier = house.service().courier.clone();
    let first = courier.deliver(errand("/", "")).expect("there is room");
    let _ = origin.asked(1);
    let outcome = house.deliver(errand("/", ""));
    let why = unanswered(&outcome);
    assert_eq!((why.why, why.is_unheard), ("queue_full", true));
    let outcome = first.wait();
    let why = unanswered(&outcome);
    assert_eq!((why.why, why.is_unheard), ("response_timeout", false));
}

#[test]
fn an_answer_that_comes_early_is_heard() {
    let origin = Origin::new(&["HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"]);
    let house = House::new(origin.address, plain());
    // More than the sockets take while nobody reads.
    let errand = errand("/", vec![b'x'; 30 << 20]);
    assert_eq!(answered(&house.deliver(errand)).status, 413);
}

#[test]
fn a_long_answer_is_kept_in_part() {
    let long = "x".repeat(5000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{long}");
    let cut = &answer[..answer.len() - 4500];
    let origin = Origin::new(&[&answer, cut]);
    let house = House::new(origin.address, plain());
    for bytes in [1000, 500] {
        let outcome = house.deliver(errand("/", ""));
        let answer = answered(&outcome);
        assert_eq!((answer.status, answer.is_whole), (200, false));
        assert_eq!(answer.body, &long.as_bytes()[..bytes]);
    }
}

#[test]
fn it_ends_with_its_time() {
    let endless = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for (answer, is_head) in [("", false), (endless, false), (half, true)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let origin = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut stream, _) = listener.accept().expect("it is asked");
            stream
                .set_read_timeout(Some(Duration::from_millis(10)))
                .expect("it is one");
            let _ = stream.write_all(answer.as_bytes());
            // Until the gateway closes.
            while !matches!(stream.read(&mut [0; 512]), Ok(0)) {
                if answer == endless && stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let house = House::new(address, plain());
        let mut errand = errand("/", "");
        errand.within = Duration::from_millis(200);
        let outcome = house.deliver(errand);
        if is_head {
            let answer = answered(&outcome);
            assert_eq!((&answer.body[..], answer.is_whole), (&b"half"[..], false));
        } else {
            let why = unanswered(&outcome);
            assert_eq!((why.why, why.is_unheard), ("response_timeout", false));
        }
        origin.join().expect("the connection ends");
    }
}

#[test]
fn a_change_of_the_upstream_holds_for_what_begins_then() {
    let (old, new) = (Origin::new(&[""]), Origin::new(&[OK]));
    let house = House::with(old.address, plain(), |settings| {
        delivery(settings).timeouts.response = Duration::from_secs(1);
    });
    let courier = house.service().courier.clone();
    let first = courier.deliver(errand("/", "")).expect("there is room");
    let _ = old.asked(1);
    house
        .reload(|settings| settings.upstreams[0].servers = vec![server(new.address)])
        .expect("it is sound");
    assert_eq!(answered(&house.deliver(errand("/", ""))).status, 200);
    assert_eq!(unanswered(&first.wait()).why, "response_timeout");
    assert_eq!(new.asked(1).len(), 1);
}

#[test]
fn it_goes_by_the_route_that_took_it_or_one_that_delivers_there() {
    let (own, other) = (Origin::new(&[OK]), Origin::new(&[OK]));
    let prefixed = |prefix: &str| {
        let mut rule = rule();
        let set = ("x-route".to_owned(), Template::fixed(prefix));
        rule.request_headers.set.push(set);
        let Action::Serve(mut served) = serve("test") else {
            panic!("it is served");
        };
        served.delivery = Some(Box::new(rule));
        Action::Serve(served)
    };
    let house = House::with(own.address, plain(), |settings| {
        let mut second = settings.upstreams[0].clone();
        "other".clone_into(&mut second.name);
        second.servers = vec![server(other.address)];
        settings.upstreams.push(second);
        let mut elsewhere = prefixed("elsewhere");
        elsewhere.rule_mut().expect("it delivers").upstream = 1;
        settings.routes = vec![
            route("same", "/elsewhere", elsewhere),
            route("same", "/first", prefixed("first")),
            route("same", "/second", prefixed("second")),
            route("named", "/third", prefixed("third")),
        ];
    });
    let mut number = 0;
    let mut goes_by = |path: &str, name: &str| {
        let mut errand = errand(path, "");
        errand.route = name.into();
        assert_eq!(answered(&house.deliver(errand)).status, 200);
        number += 1;
        let asked = own.asked(number);
        let (_, by) = asked[number - 1].split_once("x-route: ").expect("a route");
        by.split("\r\n").next().unwrap_or_default().to_owned()
    };
    // The one that would take the request, of two of that name.
    assert_eq!(goes_by("/second", "same"), "second");
    // Its upstream counts before its path.
    assert_eq!(goes_by("/elsewhere", "same"), "first");
    // Its name counts before its path.
    assert_eq!(goes_by("/second", "named"), "third");
    // Nobody has its name any more.
    assert_eq!(goes_by("/gone", "gone"), "first");
}

#[test]
fn a_drain_lets_it_end_and_takes_no_other() {
    let origin = Origin::new(&[""]);
    let house = House::with(origin.address, plain(), |settings| {
        delivery(settings).timeouts.response = Duration::from_secs(1);
    });
    let service = house.service();
    let first = service
        .courier
        .deliver(errand("/", ""))
        .expect("there is room");
    let _ = origin.asked(1);
    let errand = errand("/", "");
    assert!(
        house
            .gateway
            .drain(|_, wait| std::thread::sleep(wait))
            .is_complete,
        "nothing was cut off"
    );
    assert_eq!(unanswered(&first.wait()).why, "response_timeout");
    let refused = service.courier.deliver(errand.clone());
    let Err(Refused::Ending(back)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(back.head, errand.head);
}

#[test]
fn what_is_too_much_is_given_back() {
    let origin = Origin::new(&[""]);
    let house = House::new(origin.address, plain());
    let courier = house.service().courier.clone();
    let mut under_way = Vec::new();
    let refused = loop {
        match courier.deliver(errand("/", "")) {
            Ok(delivery) => under_way.push(delivery),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Refused::Busy(_)));
    assert_eq!(under_way.len(), 512, "256 for each of two workers");
}

#[test]
fn what_is_too_large_together_is_given_back() {
    let origin = Origin::new(&[""]);
    let house = House::new(origin.address, plain());
    let courier = house.service().courier.clone();
    let large = || errand("/", vec![b'x'; 40 << 20]);
    let first = courier.deliver(large()).expect("there is room");
    let refused = courier.deliver(large());
    let Err(Refused::Busy(back)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(back.body.len(), 40 << 20, "all of it");
    drop(first);
}

#[test]
fn services_are_opened_once_and_end_when_no_route_has_them() {
    let house = House::new((Ipv4Addr::LOCALHOST, 1).into(), plain());
    let first = house.service();
    let names = || -> Vec<String> {
        let opened = crate::lock::lock(&house.made.opened);
        opened.iter().map(|(name, _)| name.clone()).collect()
    };
    let add = |settings: &mut Settings, name: &str| {
        let path = format!("/{name}");
        settings.routes.push(route(name, &path, serve(name)));
    };
    house
        .reload(|settings| add(settings, "second"))
        .expect("it is sound");
    assert_eq!(names(), ["test", "second"]);
    // What cannot be opened changes nothing.
    let error = house.reload(|settings| add(settings, "broken"));
    assert_eq!(error, Err("cannot open broken: it is broken".to_owned()));
    // Nor does what cannot be put to work, and what was opened for it is told to end.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let error = house.reload(|settings| {
        settings.routes.pop();
        add(settings, "vain");
        let address = taken.local_addr().expect("it is bound");
        settings.listeners.push(address);
    });
    assert!(error.is_err(), "{error:?}");
    let vain = crate::lock::lock(&house.made.opened)
        .pop()
        .expect("it was opened")
        .1;
    assert_eq!(vain.drained.load(Ordering::SeqCst), 1);
    house
        .reload(|settings| {
            settings.routes.pop();
            settings.listeners.pop();
        })
        .expect("it is sound");
    assert_eq!(first.drained.load(Ordering::SeqCst), 0);
    house
        .reload(|settings| settings.routes.retain(|route| route.name == "second"))
        .expect("it is sound");
    assert_eq!(first.drained.load(Ordering::SeqCst), 1);
    // Nobody opens it beside itself.
    let error = house.reload(|settings| add(settings, "test"));
    let told = "cannot open test: it is still ending from before; try again in a moment";
    assert_eq!(error, Err(told.to_owned()));
    // It is dropped at the next look, once nobody has it.
    let weak = Arc::downgrade(&first);
    drop((first, crate::lock::lock(&house.made.opened).remove(0)));
    let began = crate::time::now();
    let mut supervision = Supervision::default();
    while weak.strong_count() > 0 {
        let _ = house.gateway.look(&mut supervision);
        assert!(crate::time::since(began) < PATIENCE, "it is kept for ever");
    }
    house.reload(|_| {}).expect("it is sound");
    assert_eq!(names(), ["second", "test"]);
}

#[test]
fn nobody_listens() {
    let nowhere: SocketAddr = (Ipv4Addr::LOCALHOST, 1).into();
    let house = House::new(nowhere, plain());
    let outcome = house.deliver(errand("/", "body"));
    let why = unanswered(&outcome);
    assert_eq!((why.why, why.is_unheard), ("connect_failed", true));
}
