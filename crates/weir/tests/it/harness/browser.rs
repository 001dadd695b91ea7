//! Chromium, as whoever looks at a page has it: the page after its scripts ran, and a page that is typed into.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::tool::run;
use super::{Directory, Process, wait_until};

const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// A browser takes its time to start on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The document after it was loaded, with `more` flags.
pub(crate) fn dump(url: &str, more: &[&str]) -> String {
    let profile = Directory::new();
    let profile = profile_of(&profile);
    let flags = [&FLAGS[..], more, &[&profile, "--dump-dom", url]].concat();
    run("chromium", &flags).stdout
}

fn profile_of(directory: &Directory) -> String {
    format!("--user-data-dir={}", directory.file("profile").display())
}

/// A page that stays open, driven by the remote debugging protocol: JSON between zero bytes, on the descriptors 3 and 4.
#[derive(Debug)]
pub(crate) struct Page {
    asking: File,
    told: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    _browser: Process,
    _directory: Directory,
}

impl Page {
    pub(crate) fn open(url: &str) -> Self {
        let directory = Directory::new();
        let [asked, told] =
            ["asked", "told"].map(|name| directory.file(name).display().to_string());
        run("mkfifo", &[&asked, &told]);
        let script = format!("exec chromium \"$@\" 3<'{asked}' 4>'{told}'");
        let profile = profile_of(&directory);
        let more = ["--remote-debugging-pipe", &profile];
        let arguments = [&["-c", &script, "sh"], &FLAGS[..], &more[..]].concat();
        let browser = Process::start("sh", &arguments, &directory);
        let asking = File::options().write(true).open(&asked);
        let mut page = Self {
            asking: asking.expect("the browser opens its end"),
            told: listen(&told),
            session: None,
            asked: 0,
            _browser: browser,
            _directory: directory,
        };
        let target = page.ask("Target.createTarget", &json!({ "url": url }));
        let attached = page.ask(
            "Target.attachToTarget",
            &json!({ "targetId": target["targetId"], "flatten": true }),
        );
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        page
    }

    /// What an expression of JavaScript is in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer = self.evaluate(expression);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true; in a page that is not there yet it throws.
    pub(crate) fn wait_for(&mut self, what: &str, expression: &str) {
        wait_until(what, || {
            self.evaluate(expression)["result"]["value"] == true
        });
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        self.ask("Runtime.evaluate", &asked)
    }

    /// Types into what has the focus, and presses the key Enter.
    pub(crate) fn enter(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({ "text": text }));
        for kind in ["keyDown", "keyUp"] {
            let key =
                json!({ "type": kind, "key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13 });
            self.ask("Input.dispatchKeyEvent", &key);
        }
    }

    pub(crate) fn reload(&mut self) {
        self.ask("Page.reload", &json!({}));
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let asked = self.asking.write_all(format!("{message}\0").as_bytes());
        asked.expect("the browser listens");
        loop {
            let told = self.told.recv_timeout(ANSWER_MAX);
            let told = told.unwrap_or_else(|error| panic!("{method}: {error}"));
            if told["id"] == self.asked {
                assert!(told["error"].is_null(), "{method}: {told}");
                return told["result"].clone();
            }
        }
    }
}

/// Reads what a browser says until it ends.
fn listen(path: &str) -> Receiver<Value> {
    let telling = File::open(path).expect("the browser opens its end");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let messages = BufReader::new(telling).split(0);
        for message in messages.map_while(Result::ok) {
            let told = serde_json::from_slice(&message).expect("a message is JSON");
            if sender.send(told).is_err() {
                return;
            }
        }
    });
    receiver
}
