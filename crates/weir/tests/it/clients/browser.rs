//! A browser shows the page.

use super::Service;
use crate::harness::browser;

#[test]
fn chromium_shows_the_page() {
    let service = Service::start();
    let dom = browser::dump(&service.url("/"), &[]);
    assert!(dom.contains("<title>weir app</title>"), "{dom}");
    assert!(dom.contains("<h1>weir app</h1>"), "{dom}");
    assert!(
        dom.contains("<a href=\"/what-date-is-it\">/what-date-is-it</a>"),
        "{dom}"
    );
    assert!(dom.trim_end().ends_with("</html>"), "{dom}");
}
