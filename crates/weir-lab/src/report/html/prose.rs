//! Markdown of a scenario as HTML: text and its structure, and nothing that a browser would load or run.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Renders `markdown`. Raw HTML becomes visible text, an image becomes its description, and a link keeps its target
/// only if it leads to a web page.
pub(super) fn render(markdown: &str) -> String {
    let mut html = String::new();
    let options = Options::ENABLE_TABLES;
    pulldown_cmark::html::push_html(
        &mut html,
        Parser::new_ext(markdown, options).filter_map(harmless),
    );
    html
}

fn harmless(event: Event<'_>) -> Option<Event<'_>> {
    match event {
        Event::Html(raw) | Event::InlineHtml(raw) => Some(Event::Text(raw)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let is_page = ["https://", "http://"]
                .iter()
                .any(|scheme| dest_url.starts_with(scheme));
            Some(Event::Start(Tag::Link {
                link_type,
                dest_url: if is_page { dest_url } else { "#".into() },
                title,
                id,
            }))
        }
        other => Some(other),
    }
}
