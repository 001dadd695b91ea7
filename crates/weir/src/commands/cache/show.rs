//! Stored objects, for people: a line or a paragraph each.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

pub(super) const HEADING: &str =
    "STATUS      SIZE     AGE   FRESH  USES  TIER         URL, and what else tells it apart";

/// The shown parts of what the gateway says of an object.
#[derive(Debug, Deserialize)]
pub(super) struct Facts {
    url: String,
    key_parts: Vec<String>,
    vary: Vec<String>,
    tiers: Vec<String>,
    body_bytes: u64,
    uses_at_least: u64,
    tags: Vec<String>,
    is_purged_softly: bool,
    status: Option<u16>,
    age_s: Option<i64>,
    fresh_for_s: Option<i64>,
    lifetime_s: Option<i64>,
    lifetime_from: Option<String>,
    etag: Option<String>,
    last_modified: Option<String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
}

impl Facts {
    pub(super) fn read(object: Value) -> anyhow::Result<Self> {
        Ok(serde_json::from_value(object)?)
    }

    /// One line under [`HEADING`].
    pub(super) fn line(&self) -> String {
        let status = self
            .status
            .map_or("?".to_owned(), |status| status.to_string());
        let span = |seconds: Option<i64>| seconds.map_or("?".to_owned(), span);
        let mut line = format!(
            "{status:>6}{:>10}{:>8}{:>8}{:>6}  {:<13}{}",
            size(self.body_bytes),
            span(self.age_s),
            span(self.fresh_for_s),
            self.uses(),
            self.tiers.join(", "),
            self.url
        );
        for part in self.key_parts.iter().chain(&self.vary) {
            let _ = write!(line, "  {part}");
        }
        printable(&line)
    }

    /// All that is known, below the URL.
    pub(super) fn paragraph(&self) -> String {
        let mut lines = vec![self.url.clone()];
        let mut say = |name: &str, what: String| {
            if !what.is_empty() {
                lines.push(format!("  {name:<14}{what}"));
            }
        };
        say("key", self.key_parts.join("; "));
        say("chosen by", self.vary.join("; "));
        say(
            "status",
            self.status
                .map_or(String::new(), |status| status.to_string()),
        );
        say("body", self.body());
        say("age", self.age_s.map_or(String::new(), span));
        say("fresh", self.freshness());
        say("etag", self.etag.clone().unwrap_or_default());
        say(
            "last modified",
            self.last_modified.clone().unwrap_or_default(),
        );
        say("tags", self.tags.join(", "));
        say("stored in", self.tiers.join(", "));
        say("uses", self.uses());
        printable(&lines.join("\n"))
    }

    fn body(&self) -> String {
        let said = [&self.content_type, &self.content_encoding];
        let said = said.into_iter().flatten();
        let mut body = format!("{} bytes", self.body_bytes);
        for what in said {
            let _ = write!(body, ", {what}");
        }
        body
    }

    fn freshness(&self) -> String {
        let (Some(left), Some(lifetime)) = (self.fresh_for_s, self.lifetime_s) else {
            return String::new();
        };
        let from = self.lifetime_from.as_deref().unwrap_or("nobody");
        let state = match left {
            _ if self.is_purged_softly => {
                "purged softly: asked for again at its next use".to_owned()
            }
            left if left > 0 => format!("for {}", span(left)),
            left => format!("no more, since {}", span(-left)),
        };
        format!("{state}; {} by {from}", span(lifetime))
    }

    /// In memory, no more than two are counted.
    fn uses(&self) -> String {
        let is_more = self.uses_at_least >= 2 && self.tiers.iter().any(|tier| tier == "memory");
        format!("{}{}", self.uses_at_least, if is_more { "+" } else { "" })
    }
}

/// `90` as `90s`, `7200` as `120m`: two to four digits.
fn span(seconds: i64) -> String {
    match seconds.abs() {
        0..600 => format!("{seconds}s"),
        600..36_000 => format!("{}m", seconds / 60),
        36_000..864_000 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn size(bytes: u64) -> String {
    let scaled = |by: u128, unit: &str| {
        let tenths = u128::from(bytes) * 10 / by;
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..1024 => format!("{bytes} B"),
        0x400..0x10_0000 => scaled(1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => scaled(1 << 20, "MiB"),
        _ => scaled(1 << 30, "GiB"),
    }
}

/// Text from an origin or a client must not control the terminal.
fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(tiers: &[&str], left: i64) -> Facts {
        let object = serde_json::json!({
            "url": "http://a/b", "key_parts": ["header x:y"], "vary": ["accept-encoding:gzip"], "tiers": tiers,
            "body_bytes": 5000, "uses_at_least": 2, "tags": ["news", "\u{1b}[2J"], "is_purged_softly": false,
            "status": 200, "age_s": 700, "fresh_for_s": left, "lifetime_s": 3600, "lifetime_from": "max-age",
            "etag": "\"1\"", "content_type": "text/html", "new": 1,
        });
        Facts::read(object).expect("that is how an object is told")
    }

    #[test]
    fn a_line_stands_under_its_heading() {
        let line = facts(&["memory", "disk"], -5).line();
        assert_eq!(
            line,
            "   200   4.8 KiB     11m     -5s    2+  memory, disk http://a/b  header x:y  accept-encoding:gzip"
        );
        let columns = |text: &str| text.find("http").or_else(|| text.find("URL"));
        assert_eq!(columns(HEADING), columns(&line));
    }

    #[test]
    fn a_paragraph_is_complete_and_controls_no_terminal() {
        let expected = "http://a/b\n  key           header x:y\n  chosen by     accept-encoding:gzip\n  \
            status        200\n  body          5000 bytes, text/html\n  age           11m\n  \
            fresh         for 48m; 60m by max-age\n  etag          \"1\"\n  tags          news, \u{fffd}[2J\n  \
            stored in     disk\n  uses          2";
        assert_eq!(facts(&["disk"], 2900).paragraph(), expected);
    }

    #[test]
    fn sizes_and_spans_are_short() {
        let sizes = [0, 1023, 1024, 1 << 20, 1 << 40].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1024.0 GiB"]);
        let spans = [-5, 599, 600, 36_000, 864_000].map(span);
        assert_eq!(spans, ["-5s", "599s", "10m", "10h", "10d"]);
    }
}
