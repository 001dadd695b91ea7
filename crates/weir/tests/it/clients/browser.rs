//! A browser shows the page.

use super::Service;
use crate::harness::Directory;
use crate::harness::tool::run;

#[test]
fn chromium_shows_the_page() {
    let service = Service::start();
    let profile = Directory::new();
    let profile = format!("--user-data-dir={}", profile.file("profile").display());
    let shown = run(
        "chromium",
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &profile,
            "--dump-dom",
            &service.url("/"),
        ],
    );
    let dom = &shown.stdout;
    assert!(dom.contains("<title>weir app</title>"), "{dom}");
    assert!(dom.contains("<h1>weir app</h1>"), "{dom}");
    assert!(
        dom.contains("<a href=\"/what-date-is-it\">/what-date-is-it</a>"),
        "{dom}"
    );
    assert!(dom.trim_end().ends_with("</html>"), "{dom}");
}
