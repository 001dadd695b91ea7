//! `compress`: what it resolves to, and what is said about mistakes in it.

use weir_cache::negotiate::{Coding, CompressPolicy, Levels};

use super::examples::forward;
use super::{LISTENER, UPSTREAM, assert_problems, valid};

fn policy(compress: &str) -> Option<CompressPolicy> {
    let route = format!("[[route]]\npath = \"/\"\nupstream = \"app\"\n{compress}");
    let settings = valid(&[LISTENER, UPSTREAM, &route].concat());
    forward(&settings.routes[0]).compress.as_deref().cloned()
}

#[test]
fn what_compress_means() {
    assert_eq!(policy(""), None);
    assert_eq!(policy("compress = false"), None);
    assert_eq!(policy("compress = true"), Some(CompressPolicy::default()));
    assert_eq!(policy("compress = {}"), Some(CompressPolicy::default()));
    let all = policy(
        "compress = { codings = [\"br\", \"gzip\"], types = [\"Application/PDF\"], min_bytes = \"2KiB\", \
         level = { br = 11, zstd = 19, gzip = 9 }, stored_level = { gzip = 1 } }",
    );
    let expected = CompressPolicy {
        codings: vec![Coding::Brotli, Coding::Gzip],
        types: vec!["application/pdf".to_owned()],
        body_bytes_min: 2048,
        streaming: Levels {
            brotli: 11,
            zstd: 19,
            gzip: 9,
        },
        stored: Levels {
            gzip: 1,
            ..Levels::STORED
        },
    };
    assert_eq!(all, Some(expected));
}

#[test]
fn mistakes_in_compress_are_all_told() {
    let route = "[[route]]\npath = \"/\"\nupstream = \"app\"\n";
    let lines: Vec<_> = route.split_inclusive('\n').collect();
    assert_problems(&[&[LISTENER, UPSTREAM], lines.as_slice()].concat(), BROKEN);
    assert_problems(&[LISTENER], BROKEN_ELSEWHERE);
}

const BROKEN: &[&str] = &[
    r#"
compress = "gzip"
#! route[1].compress: found "gzip", expected true, false or a table such as `{ codings = ["br", "gzip"] }`
"#,
    r#"
compress.codings = ["brotli", "gzip", "gzip"]
#! route[1].compress.codings[1]: found "brotli", expected one of "zstd", "br", "gzip"
#! route[1].compress.codings[3]: found "gzip", expected each coding only once
"#,
    r"
compress.codings = []
#! route[1].compress.codings: found an empty list, expected at least one coding, or `compress = false`
",
    r#"
compress.types = ["text", "text/*"]
#! route[1].compress.types[1]: found "text", expected a media type such as "application/pdf"
#! route[1].compress.types[2]: found "text/*", expected a media type such as "application/pdf"
"#,
    r#"
compress.min_bytes = "little"
#! route[1].compress.min_bytes: found "little", expected a size such as "512", "16KiB", "1MiB" or "10GiB"
"#,
    r"
compress.level = { gzip = 10, br = 12 }
#! route[1].compress.level.gzip: found the integer 10, expected an integer from 1 to 9
#! route[1].compress.level.br: found the integer 12, expected an integer from 0 to 11
",
    r#"
compress.stored_level = { zstd = 22, deflate = 1 }
#! route[1].compress.stored_level.zstd: found the integer 22, expected an integer from 1 to 19
#! route[1].compress.stored_level.deflate: unknown key; expected one of "zstd", "br", "gzip"
"#,
    r#"
compress.min_byte = 1
#! route[1].compress.min_byte: unknown key; did you mean "min_bytes"?
"#,
    r#"
compress = true
#! route[1].compress: found beside "content-encoding" in "response_headers", expected only one of them
response_headers.remove = ["Content-Encoding"]
"#,
];

const BROKEN_ELSEWHERE: &[&str] = &[r#"
[[route]]
path = "/"
respond = {}
compress = true
#! route[1].compress: has no meaning with "respond", expected it only with "upstream" or "split"
"#];
