//! Cookies that weir sets and reads by itself: what a route and an upstream may say of theirs.

use std::time::Duration;

use weir_gateway::settings::SameSite;

use super::{Form, Key, Kind, Preset, forms, words};

pub(crate) static COOKIE: Key = Key {
    name: "cookie",
    kind: Kind::Text(&forms::NAME),
    preset: Preset::Required(COOKIE_EXPECTED),
    doc: "Its name, which nobody else uses: weir takes it out of requests. Gateways one behind the other need different names.",
};
/// What the name of a cookie looks like.
pub(crate) const COOKIE_EXPECTED: &str = "the name of a cookie such as \"weir\"";
pub(crate) static MAX_AGE: Key = Key {
    name: "max_age",
    kind: Kind::Duration(Duration::from_secs(1)..=Duration::from_secs(400 * 24 * 3600)),
    preset: Preset::Said("until the browser is closed"),
    doc: "How long a client keeps it, from when it was set. Whole seconds count.",
};
pub(crate) static DOMAIN: Key = Key {
    name: "domain",
    kind: Kind::Text(&DOMAIN_NAME),
    preset: Preset::Said("the host that was asked"),
    doc: "The domain that it is for, with all below it.",
};
static DOMAIN_NAME: Form = Form {
    noun: "domain",
    expected: DOMAIN_EXPECTED,
    pattern: Some("^[0-9A-Za-z.-]+$"),
};
/// What a domain looks like.
pub(crate) const DOMAIN_EXPECTED: &str = "a domain such as \"example.com\"";
pub(crate) static SAME_SITE: Key = Key {
    name: "same_site",
    kind: Kind::Words(&words::<_, 3>(SAME_SITES)),
    preset: Preset::Text("lax"),
    doc: "Whether it comes with requests that other sites cause: when a link is followed, never, or always. `\"none\"` needs TLS and says `Secure` in any case.",
};
pub(crate) const SAME_SITES: &[(&str, SameSite)] = &[
    ("lax", SameSite::Lax),
    ("strict", SameSite::Strict),
    ("none", SameSite::None),
];
