//! `Prefer: redirect` (RFC 7240): a client that likes to ask the right node itself is told which one that is.

use weir_gateway::service::{Answer, Ask};
use weir_http::Fields;
use weir_http::fields::elements;

use super::Store;
use crate::api;

const REDIRECT: &str = "redirect";

impl Store {
    /// Where to ask for a key instead, if the client prefers to know and that is elsewhere.
    pub(super) fn redirect(&self, ask: &Ask, key: &[u8]) -> Option<Answer> {
        let cluster = self.cluster.as_ref().filter(|cluster| cluster.has_urls())?;
        if !is_preferred(ask.fields()) {
            return None;
        }
        let url = cluster.elsewhere(key)?;
        let mut location = [url.as_bytes(), ask.path()].concat();
        if let Some(query) = ask.query() {
            location.push(b'?');
            location.extend(query);
        }
        let answer = api::text(307, &format!("another node has the key: {url}"));
        Some(
            answer
                .with("Location", location)
                .with("Preference-Applied", REDIRECT)
                .with("Vary", *b"Prefer"),
        )
    }
}

/// Whether `redirect` is among the preferences. With a value it would be another one, which nobody knows.
fn is_preferred(fields: Fields<'_>) -> bool {
    let preferences = fields.named(b"prefer").flat_map(elements);
    preferences.into_iter().any(|preference| {
        let end = preference.iter().position(|byte| *byte == b';');
        let preference = &preference[..end.unwrap_or(preference.len())];
        let mut parts = preference.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next());
        let is_empty = value.is_none_or(|value| matches!(value.trim_ascii(), b"" | b"\"\""));
        is_empty && name.trim_ascii().eq_ignore_ascii_case(REDIRECT.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_is_one_of_a_list() {
        for (lines, is) in [
            ("", false),
            ("Prefer: redirect\r\n", true),
            ("prefer: respond-async, REDIRECT ; a=b\r\n", true),
            ("Prefer: wait=5\r\nPrefer: redirect=\"\"\r\n", true),
            ("Prefer: redirect =\r\n", true),
            ("Prefer: redirect=never\r\n", false),
            ("Prefer: redirects\r\n", false),
            ("Prefer: handling=\"redirect, redirect\"\r\n", false),
            ("Prefer: wait; redirect\r\n", false),
        ] {
            let head = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            let mut table = Vec::new();
            Fields::scan(head.as_bytes(), &mut table);
            let fields = Fields::new(head.as_bytes(), &table);
            assert_eq!(is_preferred(fields), is, "{lines}");
        }
    }
}
