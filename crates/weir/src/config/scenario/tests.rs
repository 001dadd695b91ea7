use weir_lab::scenario::Amount;

use super::*;

const SOUND: &str = r#"title = "t"
baseline = "one"
rounds = 2
quick = { rounds = 1 }

[[load]]
name = "l"
path = "/"
connections = 1
duration = "1s"
quick = "100ms"

[[configuration]]
name = "one"
services = ["app"]
published = { l = 5 }

[service.app]
kind = "app"
"#;

fn complaints(text: &str) -> String {
    parse("s", text, "s.toml")
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn all_that_come_with_weir_can_be_read() {
    for (name, text) in BUILT_IN {
        let scenario = parse(name, text, name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.about.is_empty(), "{name}");
        // Figures of others have a source, and a source has figures.
        assert_eq!(
            scenario.source.is_empty(),
            scenario.published.is_empty(),
            "{name}"
        );
    }
}

#[test]
fn a_file_becomes_what_it_says() {
    let scenario = parse("s", SOUND, "s.toml").expect("it is sound");
    assert_eq!(scenario.name, "s");
    assert_eq!((scenario.effort.rounds, scenario.quick.rounds), (2, 1));
    assert_eq!(scenario.loads[0].method, "GET");
    assert_eq!(
        scenario.loads[0].amount,
        Amount::Time(Duration::from_secs(1))
    );
    assert_eq!(scenario.configurations[0].entry, "app");
    assert_eq!(scenario.published[0].rate, Some(5.0));
}

/// A part of [`SOUND`], what stands there instead, and how what is told begins.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "rounds = 2\n",
        "",
        "s.toml:18: rounds: missing, expected how often each configuration is measured",
    ),
    (
        "connections = 1",
        "connections = 0",
        "s.toml:9: load[1].connections: found the integer 0, expected an integer from 1 to 1000000",
    ),
    (
        "duration = \"1s\"\n",
        "",
        "s.toml:6: load[1].duration: expected either \"duration\" or \"requests\"",
    ),
    (
        "kind = \"app\"",
        "kind = \"ap\"",
        "s.toml:19: service.app.kind: found \"ap\", expected one of",
    ),
    (
        "kind = \"app\"",
        "kind = \"app\"\nthread = 2",
        "s.toml:20: service.app.thread: unknown key; did you mean \"threads\"?",
    ),
    (
        "path = \"/\"",
        "path = \"/{rnd:1..2}\"",
        "s.toml:6: load[1]: ",
    ),
    (
        "[\"app\"]",
        "[\"ap\"]",
        "s.toml:13: configuration[1]: there is no service \"ap\"",
    ),
    (
        "{ l = 5 }",
        "{ m = 5 }",
        "s.toml:13: configuration[1]: a figure is published for the load \"m\", which there is not",
    ),
    (
        "{ l = 5 }",
        "{ l = \"5\" }",
        "s.toml:16: configuration[1].published.l: found \"5\", expected a number",
    ),
    (
        "baseline = \"one\"",
        "baseline = \"two\"",
        "s.toml:2: baseline: there is no configuration \"two\"",
    ),
    (
        "kind = \"app\"",
        "kind = \"nginx\"\nconfig = \"proxy_pass http://127.0.0.1:{port:other};\"",
        "s.toml:13: configuration[1]: \"app\" refers to \"other\", which is not among its services",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nrate = 5\nfault = { service = \"app\", mode = \"sulk\", from = 0.1, to = 1.5 }\n",
        "s.toml:13: load[1].fault.mode: found \"sulk\", expected one of",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nrate = 5\narrivals = \"bursts\"\n",
        "s.toml:13: load[1].arrivals: found \"bursts\", expected \"even\", \"poisson\" or as in \"bursts of 100\"",
    ),
    (
        "kind = \"app\"",
        "kind = \"app\"\nflags = [\"--slots\", \"{with:slots}\"]",
        "s.toml:6: load[1]: a service takes {with:slots}, which is not in \"with\"",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nfault = { service = \"app\", mode = \"fail\", from = 0.1, to = 0.5 }\n",
        "s.toml:6: load[1]: a fault takes a load with a rate and a duration",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nrate = 5\nfault = { service = \"app\", mode = \"fail\", from = 0.1, to = 0.5 }\n",
        "s.toml:6: load[1]: \"app\" is not a service of kind \"app\" with the flag \"--faults\"",
    ),
    (
        "rounds = 2\n",
        "rounds = 2\nevents = { from = \"app\", to = \"logs\" }\n",
        "s.toml:4: events: \"logs\" is not a service of kind \"app\"",
    ),
    (
        "kind = \"app\"",
        "kind = \"app\"\n[service.logs]\nkind = \"app\"\n[events]\nfrom = \"app\"\nto = \"logs\"",
        "events: \"logs\" is not among the services of \"one\"",
    ),
    (
        "rounds = 2\n",
        "rounds = 2\nevents = { from = \"app\" }\n",
        "s.toml:4: events.to: missing, expected the service that handles them",
    ),
    (
        "services = [\"app\"]",
        "services = [\"app\"]\nflags = { ap = [\"--delay\", \"1ms\"] }",
        "s.toml:13: configuration[1]: there is no service \"ap\"",
    ),
    (
        "services = [\"app\"]",
        "services = [\"app\"]\nflags = { app = [\"--delay\", \"{with:delay}\"] }",
        "s.toml:6: load[1]: a service takes {with:delay}, which is not in \"with\"",
    ),
    (
        "services = [\"app\"]",
        "services = [\"app\"]\nflags = { app = [\"{with:flag}\"] }\nwith = { flag = \"--a={port:other}\" }",
        "s.toml:13: configuration[1]: \"app\" refers to \"other\", which is not among its services",
    ),
    (
        "kind = \"app\"",
        "kind = \"command\"\nline = \"x {port}\"\n[[configuration]]\nname = \"two\"\nservices = [\"app\"]\nflags = { app = [\"--x\"] }",
        "configuration[2]: \"app\" takes no flags: it is no \"app\"",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nbeside = { load = \"l\", delay = \"1s\", quick = \"0s\" }\n",
        "s.toml:6: load[1]: it is to run beside \"l\", which is no load that runs by itself",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\n[[load]]\nname = \"m\"\npath = \"/\"\nconnections = 1\nduration = \"1s\"\nquick = \"1s\"\nbeside = { load = \"l\", delay = \"1s\", quick = \"0s\" }\n",
        "s.toml:12: load[2]: it begins when \"l\" has ended",
    ),
    (
        "quick = \"100ms\"\n",
        "quick = \"100ms\"\nbeside = { load = \"l\", delay = \"1s\" }\n",
        "s.toml:12: load[1].beside.quick: missing, expected how much later it begins",
    ),
    ("path = \"/\"", "path = \"/{key}\"", "s.toml:6: load[1]: "),
    (
        "services = [\"app\"]",
        "services = [\"app\"]\nled = true",
        "s.toml:6: load[1]: \"one\" is led, which takes loads without a fault and with \"keys\"",
    ),
];

#[test]
fn loads_may_run_beside_another_one_and_ask_for_keys() {
    let second = "[[load]]\nname = \"m\"\npath = \"/{key}\"\nkeys = 10\nconnections = 1\nduration = \"1s\"\nquick = \"1s\"\n\
                  beside = { load = \"l\", delay = \"500ms\", quick = \"50ms\" }\n\n[[configuration]]";
    let text = SOUND.replacen("[[configuration]]", second, 1);
    let scenario = parse("s", &text, "s.toml").expect("it is sound");
    let sets = scenario.sets();
    let names: Vec<&str> = sets[0].iter().map(|load| load.name.as_str()).collect();
    assert_eq!((sets.len(), names), (1, vec!["l", "m"]));
    let beside = &scenario.loads[1];
    assert_eq!(beside.keys, Some(10));
    let delays = [false, true].map(|is_quick| beside.delay(is_quick));
    assert_eq!(delays, [500, 50].map(Duration::from_millis));
}

#[test]
fn a_mistake_is_told_with_its_file_line_and_key() {
    for (wrong, instead, complaint) in MISTAKES {
        assert!(SOUND.contains(wrong), "{wrong}");
        let told = complaints(&SOUND.replacen(wrong, instead, 1));
        assert!(told.contains(complaint), "{told}\n instead of {complaint}");
    }
    assert_eq!(complaints(SOUND), "");
}

#[test]
fn a_name_that_is_nearly_right_is_suggested() {
    let told = |name: &str| open(name).expect_err("there is none").to_string();
    assert_eq!(
        told("gaurd"),
        "there is no scenario \"gaurd\"; did you mean \"guard\"?"
    );
    assert!(told("x").ends_with("or the path of a file"));
    assert!(told("./none.toml").starts_with("cannot read ./none.toml: "));
}
