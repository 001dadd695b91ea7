use super::*;

fn fill(text: &str, number: u64) -> String {
    let template = Template::parse(text.as_bytes()).expect(text);
    let mut out = Vec::new();
    template.fill(&mut Filling::new(1, number), &mut out);
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn fields_become_text() {
    assert_eq!(fill("/plain", 3), "/plain");
    assert_eq!(fill("/a{seq}b{seq}", 12), "/a12b12");
    assert_eq!(fill("{{name} {seq}", 7), "{name} 7");
    assert_eq!(fill("{rand:5..5}", 9), "5");
    assert_eq!(fill("{seq}", u64::MAX), u64::MAX.to_string());
    for number in 0..500 {
        let drawn: u64 = fill("{rand:10..12}", number).parse().expect("a number");
        assert!((10..=12).contains(&drawn));
        assert_eq!(
            fill("{uuid}{rand:1..99}", number),
            fill("{uuid}{rand:1..99}", number)
        );
    }
}

/// Bodies are mostly JSON.
#[test]
fn braces_of_json_are_text() {
    for text in [
        "{}",
        "{\"a\": {\"b\": {}}}",
        "{ \"a\": [{\"b\": 1}] }",
        "}{",
        "{",
        "{\n}",
    ] {
        assert_eq!(fill(text, 1), text);
    }
    let body = "{\"user\": {\"id\": {seq}, \"tags\": [{rand:5..5}]}}";
    assert_eq!(fill(body, 3), "{\"user\": {\"id\": 3, \"tags\": [5]}}");
}

#[test]
fn a_uuid_is_one_of_version_4() {
    let uuid = fill("{uuid}", 1);
    let parts: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{uuid}");
    assert_eq!(&uuid[14..15], "4", "{uuid}");
    assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    assert_ne!(uuid, fill("{uuid}", 2));
}

/// The k-th number comes with a probability in proportion to k^-skew.
#[test]
fn zipf_is_as_skewed_as_it_says() {
    for (text, skew) in [
        ("{zipf:1..1000:0.9}", 0.9),
        ("{zipf:1..1000:1}", 1.0),
        ("{zipf:1..1000:0}", 0.0),
        ("{zipf:1..1000}", 0.99),
    ] {
        let template = Template::parse(text.as_bytes()).expect(text);
        let mut counts = [0_u32; 1001];
        let draws = 200_000_u32;
        for number in 0..draws {
            let mut out = Vec::new();
            template.fill(&mut Filling::new(3, number.into()), &mut out);
            let drawn: usize = String::from_utf8(out)
                .expect("digits")
                .parse()
                .expect("a number");
            counts[drawn] += 1;
        }
        let whole: f64 = (1..=1000).map(|k| f64::from(k).powf(-skew)).sum();
        for k in [1, 2, 10, 500] {
            let expected = f64::from(draws) * f64::from(k).powf(-skew) / whole;
            let found = f64::from(counts[k as usize]);
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                "{text} {k}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn mistakes_name_the_field_the_place_and_what_is_known() {
    for (text, field, at, message) in [
        (
            "/a/{sequence}",
            "{sequence}",
            3,
            "an unknown field; expected {seq}",
        ),
        ("ab{seq", "{", 2, "no } ends it"),
        ("{seq:1}", "{seq:1}", 0, "a field of another form"),
        ("{rand}", "{rand}", 0, "a field of another form"),
        (
            "{rand:1..x}",
            "{rand:1..x}",
            0,
            "two whole numbers, as in 1..1000000",
        ),
        (
            "{rand:9..1}",
            "{rand:9..1}",
            0,
            "the smaller number first, as in 1..9",
        ),
        ("{zipf:1..9:x}", "{zipf:1..9:x}", 0, "a skew from 0 to 10"),
        (
            "{line:/nowhere}",
            "{line:/nowhere}",
            0,
            "cannot read /nowhere",
        ),
    ] {
        let error = Template::parse(text.as_bytes()).expect_err(text);
        assert_eq!((error.field.as_str(), error.at), (field, at), "{text}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}
