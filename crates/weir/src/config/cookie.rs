//! The cookies that weir sets by itself.

use weir_gateway::settings::Cookie;

use super::declared::cookie::{
    COOKIE_EXPECTED, DOMAIN, DOMAIN_EXPECTED, MAX_AGE, SAME_SITE, SAME_SITES,
};
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::suggest::quoted;

/// The name of a cookie.
pub(super) fn name(value: &Entry) -> Option<String> {
    value.parsed(|text| {
        // Browsers accept names with these beginnings under conditions that not every request meets.
        let is_special = ["__secure-", "__host-"];
        let lower = text.to_ascii_lowercase();
        if !is_token(text)
            || is_special
                .iter()
                .any(|beginning| lower.starts_with(beginning))
        {
            return Err(format!("expected {COOKIE_EXPECTED}"));
        }
        Ok(text.to_owned())
    })
}

/// What to say of a name that an upstream has for its own.
pub(super) fn taken(name: &str, upstream: &str) -> String {
    format!(
        "found {}, which the upstream {} sets too, expected a name of its own",
        quoted(name),
        quoted(upstream)
    )
}

/// What else stands in the table of a cookie. It may stand there if there `is_one`; without a sound name there is none.
pub(super) fn rest(table: &mut Entries, name: Option<String>, is_one: bool) -> Option<Cookie> {
    let max_age = table.optional(&MAX_AGE);
    let domain = table.optional(&DOMAIN);
    let same_site = table.optional(&SAME_SITE);
    if !is_one {
        for value in [max_age, domain, same_site].into_iter().flatten() {
            value.wrong("has a meaning only with \"cookie\", expected none here");
        }
        return None;
    }
    let max_age = max_age.map(|value| value.duration());
    let domain = domain.map(|value| value.parsed(self::domain));
    let same_site = same_site.map(|value| value.choice(SAME_SITES));
    Some(Cookie {
        name: name?,
        max_age: max_age.flatten(),
        domain: domain.flatten(),
        same_site: same_site.flatten().unwrap_or_default(),
    })
}

fn domain(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_part)
    };
    let has_dot = text.contains('.');
    if !has_dot || text.len() > 253 || !text.split('.').all(is_label) {
        return Err(format!("expected {DOMAIN_EXPECTED}"));
    }
    Ok(text.to_ascii_lowercase())
}
