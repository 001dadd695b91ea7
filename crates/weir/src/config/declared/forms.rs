//! The forms of texts that several sections know, and those whose parser stands by itself.
//!
//! A pattern lets everything through that the parser takes; it is for editors, which underline what cannot be meant.

use super::Form;
use crate::config::address::{
    LISTEN_EXPECTED, NAME_SERVER_EXPECTED, NETWORK_EXPECTED, SERVER_EXPECTED,
};
use crate::config::pattern::{HOST_EXPECTED, LOCATION_EXPECTED, PATH_EXPECTED};
use crate::config::route::rewrite::REWRITE_EXPECTED;

/// The characters of a token (RFC 9110 §5.6.2).
const TOKEN_PATTERN: Option<&str> = Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$");
/// A line end is a character too.
const NOT_EMPTY: Option<&str> = Some("[\\s\\S]");

pub(crate) static LISTEN: Form = Form {
    noun: "IP address and port, as in `\"127.0.0.1:8080\"`; `\":8080\"` is every address of IPv4, and `\"[::]:8080\"` of IPv6 too",
    expected: LISTEN_EXPECTED,
    pattern: Some(
        "^(([0-9.]*|\\*|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|\\[[0-9A-Fa-f:.%]+\\]):)?[0-9]+$",
    ),
};
pub(crate) static SERVER: Form = Form {
    noun: "server, as in `\"127.0.0.1:3000\"`, `\"app.internal:3000\"` or `\"unix:app.sock\"`",
    expected: SERVER_EXPECTED,
    pattern: Some("^(unix:.+|[Hh][Tt][Tt][Pp]://[^/]+/?|[^/]*:[0-9]+|[0-9]+)$"),
};
pub(crate) static NAME_SERVER: Form = Form {
    noun: "IP address, with a port unless it is 53",
    expected: NAME_SERVER_EXPECTED,
    pattern: Some("^[0-9A-Fa-f:.%\\[\\]]+$"),
};
pub(crate) static NETWORK: Form = Form {
    noun: "network or address",
    expected: NETWORK_EXPECTED,
    pattern: Some("^[0-9A-Fa-f:.]+(/[0-9]+)?$"),
};

pub(crate) static FILE_OR_STDOUT: Form = Form {
    noun: "path of a file, or `\"-\"` for standard output",
    expected: "the path of a file, or \"-\" for standard output",
    pattern: NOT_EMPTY,
};
pub(crate) static INCLUDED: Form = Form {
    noun: "path of files, in which `*` and `?` stand for other characters",
    expected: "a path such as \"conf.d/*.toml\"",
    pattern: NOT_EMPTY,
};
pub(crate) static CHANGES_FILE: Form = Form {
    noun: "path of a file",
    expected: "the path of a file such as \"/var/lib/weir/changes.json\"",
    pattern: NOT_EMPTY,
};
pub(crate) static GUARD_FILE: Form = Form {
    noun: "path of a file",
    expected: "the path of a file such as \"guard.json\"",
    pattern: NOT_EMPTY,
};
pub(crate) static ANSWER_FILE: Form = Form {
    noun: "path of a file",
    expected: "the path of a file such as \"sorry.html\"",
    pattern: NOT_EMPTY,
};
pub(crate) static DIRECTORY: Form = Form {
    noun: "path of a directory",
    expected: "the path of a directory",
    pattern: NOT_EMPTY,
};

/// The fewest characters of a token for the admin listener.
pub(crate) const TOKEN_CHARS_MIN: usize = 16;
/// A token is never repeated in a message, so its reader has words of its own.
pub(crate) static TOKEN: Form = Form {
    noun: "string of at least 16 visible ASCII characters",
    expected: "a string of at least 16 characters",
    pattern: Some("^[!-~]{16,}$"),
};

/// The fewest characters of a secret.
pub(crate) const SECRET_CHARS_MIN: usize = 16;
/// A secret is never repeated in a message, so its reader has words of its own.
pub(crate) static SECRET: Form = Form {
    noun: "string of at least 16 characters",
    expected: "a string of at least 16 characters",
    pattern: Some("^[\\s\\S]{16,}$"),
};

pub(crate) static PATH: Form = Form {
    noun: "path, see [Routing](routing.md#routing)",
    expected: PATH_EXPECTED,
    pattern: Some("^/"),
};
pub(crate) static PATH_PREFIX: Form = Form {
    noun: "path",
    expected: "a prefix of the path",
    pattern: Some("^/"),
};
pub(crate) static REWRITE: Form = Form {
    noun: "path",
    expected: REWRITE_EXPECTED,
    pattern: Some("^/"),
};
pub(crate) static HOST: Form = Form {
    noun: "`\"www.example.com\"`, `\"*.example.com\"` or `\"[::1]\"`, without a port",
    expected: HOST_EXPECTED,
    pattern: Some("^(\\*\\.)?[0-9A-Za-z._-]+$|^\\[[0-9A-Fa-f:.]+\\]$"),
};
pub(crate) static ROUTE_NAME: Form = Form {
    noun: "string",
    expected: "a name",
    pattern: NOT_EMPTY,
};
pub(crate) static METHOD: Form = Form {
    noun: "method in upper case",
    expected: "a method such as \"GET\"",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Z-]+$"),
};
pub(crate) static LOCATION: Form = Form {
    noun: "path, or an `http://` or `https://` URL",
    expected: LOCATION_EXPECTED,
    pattern: Some("^(/|https?://|\\{scheme\\}://)"),
};
pub(crate) static UPSTREAM_NAME: Form = Form {
    noun: "name of an upstream",
    expected: "the name of an upstream",
    pattern: Some("^[0-9A-Za-z._-]+$"),
};
pub(crate) static PROTOCOL: Form = Form {
    noun: "protocol",
    expected: "a protocol such as \"websocket\"",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+(/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$"),
};

/// A text that may be anything.
pub(crate) static STRING: Form = Form {
    noun: "string",
    expected: "a string",
    pattern: None,
};
pub(crate) static MEDIA_TYPE: Form = Form {
    noun: "media type",
    expected: MEDIA_TYPE_EXPECTED,
    pattern: Some("^[^/;]+/[^/;]+"),
};
/// What the type of a body looks like.
pub(crate) const MEDIA_TYPE_EXPECTED: &str = "a media type such as \"text/plain\"";
pub(crate) static PLAIN_MEDIA_TYPE: Form = Form {
    noun: "media type without parameters",
    expected: "a media type such as \"application/pdf\"",
    pattern: Some("^[^/;]+/[^/;]+$"),
};

pub(crate) static FIELD_NAME: Form = Form {
    noun: "name of a field",
    expected: "a field name",
    pattern: TOKEN_PATTERN,
};
pub(crate) static REQUEST_FIELD: Form = Form {
    noun: "name of a request field",
    expected: REQUEST_FIELD_EXPECTED,
    pattern: TOKEN_PATTERN,
};
/// What the name of a field of requests looks like.
pub(crate) const REQUEST_FIELD_EXPECTED: &str =
    "the name of a request field such as \"x-priority\"";
/// A name of a field, a cookie or a query parameter.
pub(crate) static NAME: Form = Form {
    noun: "name",
    expected: "a name",
    pattern: TOKEN_PATTERN,
};
