//! Names of fields as scripts read them: as variables, where several names become the same.
//!
//! CGI, and after it `FastCGI`, WSGI, Rack and PHP, turn `X-User` into `HTTP_X_USER`: letters become upper case,
//! hyphens become underscores (RFC 3875 §4.1.18). `X_User` becomes the same variable. Some also replace every other
//! character that is no letter or digit: Apache httpd up to 2.2 all of them, PHP the dot. So a rule for one such name
//! holds for all of them.

use crate::FieldName;

/// Whether scripts may read fields of both names as one variable.
pub fn is_same_variable(one: &[u8], other: &[u8]) -> bool {
    let is_same = |(one, other): (&u8, &u8)| {
        one.eq_ignore_ascii_case(other)
            || !(one.is_ascii_alphanumeric() || other.is_ascii_alphanumeric())
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// The fields that a configuration uses: those it sets or removes, or decides by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFields {
    names: Vec<String>,
    /// Whether a name has other characters than letters, digits and hyphens.
    has_odd: bool,
}

impl NamedFields {
    /// No fields.
    pub const NONE: Self = Self {
        names: Vec::new(),
        has_odd: false,
    };

    /// The fields of these names, in any case of letters.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let has_odd = names.iter().any(|name| is_odd(name.as_bytes()));
        Self { names, has_odd }
    }

    /// Whether a script would mistake a field called `name` for another field: one of these, or one that the gateway or
    /// its cache reads or writes. Upstream it would speak for the gateway, or say what the gateway has not seen.
    pub fn has_impostor(&self, name: &[u8]) -> bool {
        let is_it = |own: &String| own.as_bytes().eq_ignore_ascii_case(name);
        let passes_for = |own: &String| is_same_variable(own.as_bytes(), name) && !is_it(own);
        if is_odd(name) {
            return is_odd_known(name) || self.names.iter().any(passes_for);
        }
        self.has_odd && !self.names.iter().any(is_it) && self.names.iter().any(passes_for)
    }
}

/// Whether a name has other characters than letters, digits and hyphens, which is rare.
fn is_odd(name: &[u8]) -> bool {
    name.iter()
        .fold(false, |is_odd, &b| is_odd | ODD[usize::from(b)])
}

const ODD: [bool; 256] = {
    let mut table = [true; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = !((at as u8).is_ascii_alphanumeric() || at as u8 == b'-');
        at += 1;
    }
    table
};

/// Whether an odd name differs from a known field only in its odd characters.
fn is_odd_known(name: &[u8]) -> bool {
    let mut spelled = [0; FieldName::BYTES_MAX];
    let Some(spelled) = spelled.get_mut(..name.len()) else {
        return false;
    };
    for (to, &from) in spelled.iter_mut().zip(name) {
        *to = if ODD[usize::from(from)] { b'-' } else { from };
    }
    FieldName::of(spelled) != FieldName::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_become_one_variable() {
        for (one, other, expected) in [
            ("x-user", "X_User", true),
            ("x-user", "x.uSER", true),
            ("x_user", "x-user", true),
            ("x-user", "x-users", false),
            ("x-user", "xuuser", false),
            ("x-user", "x1user", false),
            ("x-", "xa", false),
        ] {
            let is_same = is_same_variable(one.as_bytes(), other.as_bytes());
            assert_eq!(is_same, expected, "{one} {other}");
            assert_eq!(is_same_variable(other.as_bytes(), one.as_bytes()), expected);
        }
    }

    #[test]
    fn impostors() {
        let named = |names: &[&str]| NamedFields::new(names.iter().map(ToString::to_string));
        let none = named(&[]);
        assert_eq!(none, NamedFields::NONE);
        // These mean something in every configuration.
        for name in [
            "X_Forwarded_For",
            "x-forwarded_proto",
            "Content_Length",
            "If_None_Match",
            "USER_AGENT",
            "accept.encoding",
            "proxy_authentication_info",
            "cache!control",
        ] {
            assert!(none.has_impostor(name.as_bytes()), "{name}");
        }
        for name in [
            "X_User",
            "Accept-Encoding",
            "x-user",
            "_",
            "-",
            "X_Forwarded_Fork",
        ] {
            assert!(!none.has_impostor(name.as_bytes()), "{name}");
        }
        let cases: [(&[&str], &str, bool); 9] = [
            (&["x-user"], "X_User", true),
            (&["x-user"], "X.user", true),
            (&["x-user"], "X-User", false),
            (&["x-user"], "X_Users", false),
            (&["a", "x_user"], "X_User", false),
            (&["a", "x_user"], "X-User", true),
            (&["a", "x_user"], "x.user", true),
            // When both are named, the plain one is meant.
            (&["x-user", "x_user"], "X-User", false),
            (&["x-user", "x_user"], "X_User", true),
        ];
        for (names, name, expected) in cases {
            let found = named(names).has_impostor(name.as_bytes());
            assert_eq!(found, expected, "{names:?} {name}");
        }
    }
}
