//! Whole config texts: what they resolve to, and what is said about broken ones.
//!
//! Every message that a file can cause stands in one of the tables of broken texts. In them, a line that begins with
//! `#! ` is no part of the text: it is the next problem that is reported on the line before it.

mod actions;
mod answers;
mod cache;
mod care;
mod collect;
mod compress;
mod declared;
mod defaults;
mod documentation;
mod examples;
mod flags;
mod included;
mod kv;
mod mutated;
mod outside;
mod queues;
mod routes;
mod schema;
mod sections;
mod sinks;
mod spread;
mod syntax;
mod upstreams;

use weir_gateway::settings::Settings;

use super::{Config, ConfigError};

/// A listener, on one line.
const LISTENER: &str = "listener = [{ address = \"127.0.0.1:8080\" }]\n";
/// An upstream, on one line.
const UPSTREAM: &str = "upstream.app.servers = [\"127.0.0.1:9001\"]\n";
/// A route, on one line.
const ROUTE: &str = "route = [{ path = \"/\", respond = {} }]\n";

fn parse(text: &str) -> Result<Settings, ConfigError> {
    super::parse(text, "weir.toml").map(|config| config.settings)
}

/// All that a sound text says, queues included.
#[track_caller]
fn whole(text: &str) -> Config {
    valid(text);
    super::parse(text, "weir.toml").expect("it was sound before")
}

/// What a sound text says. The schema takes every text that is sound.
#[track_caller]
fn valid(text: &str) -> Settings {
    let settings =
        parse(text).unwrap_or_else(|error| panic!("should be valid:\n{error}\n\n{text}"));
    let told = schema::complaints(text);
    assert!(told.is_empty(), "the schema refuses {told:?} of:\n{text}");
    settings
}

/// Checks that each of `broken`, put after `sound` lines, is answered with exactly the problems written into it. Where one
/// of them is an unknown key, the schema refuses the text too.
#[track_caller]
fn assert_problems(sound: &[&str], broken: &[&str]) {
    for annotated in broken {
        let mut text = sound.concat();
        let mut line = sound.len();
        let mut expected = Vec::new();
        for part in annotated.trim_start_matches('\n').lines() {
            if let Some(problem) = part.strip_prefix("#! ") {
                expected.push(format!("weir.toml:{}: {problem}", line.max(1)));
            } else {
                text.push_str(part);
                text.push('\n');
                line += 1;
            }
        }
        let found =
            parse(&text).map_or_else(|error| error.to_string(), |_| "no problem".to_owned());
        assert_eq!(found, expected.join("\n"), "of the text:\n{text}");
        if found.contains(": unknown key") {
            assert_ne!(schema::complaints(&text), Vec::<String>::new(), "{text}");
        }
    }
}
