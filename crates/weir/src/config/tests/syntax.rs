//! Texts that are not TOML, and texts without the sections that every file needs.

use super::assert_problems;

#[test]
fn what_is_not_toml_is_said_line_by_line() {
    assert_problems(&[], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
#! listener: missing, add `[[listener]]` and below it `address = "127.0.0.1:8080"`
#! route: missing, add `[[route]]` and below it `path = "/{*rest}"` and `upstream = "NAME"`
"#,
    r#"
listener = []
#! listener: found an empty list, add `[[listener]]` and below it `address = "127.0.0.1:8080"`
route = []
#! route: found an empty list, add `[[route]]` and below it `path = "/{*rest}"` and `upstream = "NAME"`
"#,
    r#"
[listener]
#! listener: found a table, expected `[[listener]]` with two brackets on each side
address = "127.0.0.1:8080"
[route]
#! route: found a table, expected `[[route]]` with two brackets on each side
path = "/"
"#,
    r#"
listener = ["127.0.0.1:8080"]
#! listener[1]: found "127.0.0.1:8080", expected a table such as `[[listener]]`
route = 3
#! route: found the integer 3, expected `[[route]]` with two brackets on each side
"#,
    r"
[server
#! [server: unclosed table, expected `]`
workers = 2
",
    r#"
[server]
workers =
#! workers: found no value, expected one after the `=`
workers = 2
#! workers: duplicate key "workers", expected it only once
[access_log]
flush = 5s
#! flush: found neither a number, a boolean, a list nor a table, expected a string in quotes; did you mean "5s"?
buffer = "1MiB
#! buffer: invalid basic string, expected `"`
format = json text
#! format: found neither a number, a boolean, a list nor a table, expected a string in quotes
"#,
    r#"
[server]
workers = 2
workers = 3
#! workers: duplicate key "workers", expected it only once
[server]
#! [server]: duplicate key "server", expected it only once
"#,
    r"
workers 2
#! workers 2: key with no value, expected `=`
",
    r"
a = [1,
2
b = 3
#! b: found this in a list that is not closed, expected `,` or `]` before it
",
    r#"
a = 1 b = 2
#! a: found neither a number, a boolean, a list nor a table, expected a string in quotes
= 3
#! unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
c = 127.0.0.1:80
#! c: found neither a number, a boolean, a list nor a table, expected a string in quotes; did you mean "127.0.0.1:80"?
d = True
#! d: invalid boolean at "True", expected `true`
e = "\q"
#! e: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\`, `"`, `x`, `u`, `U`
"#,
    r"
[admin]
token = secret-without-quotes
#! token: found neither a number, a boolean, a list nor a table, expected a string in quotes
[extra]
token = Xsecret
#! token: found neither a number, a boolean, a list nor a table, expected a string in quotes
",
    r#"
a = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
#! a: cannot recurse further; max recursion depth met at "[", which is not TOML
"#,
];
