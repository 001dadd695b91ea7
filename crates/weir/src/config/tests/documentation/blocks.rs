//! The configs that the documentation shows, found in its pages. The end-to-end tests read this file too.
//!
//! A block of `toml` that has a listener is a whole file; one with `[[request]]` is a mix for `weir load`; any other is a
//! part of a file. A block shows mistakes when the next block of its page is what `weir check` prints, which begins with
//! `weir.toml:`. What needs files or variables around it stands below `<!-- run by: NAME -->`, with the name of the test
//! that has them.

use std::fs;
use std::path::Path;

/// A block of `toml`.
#[derive(Debug)]
pub(crate) struct Block {
    /// The page and the line of its fence, for messages.
    pub(crate) place: String,
    pub(crate) text: String,
    /// What is printed for it, if it shows mistakes.
    pub(crate) mistakes: Option<String>,
    /// The test that runs it, if it is another one.
    pub(crate) run_by: Option<String>,
}

impl Block {
    pub(crate) fn is_whole_file(&self) -> bool {
        self.text.contains("[[listener]]") && self.run_by.is_none()
    }

    pub(crate) fn is_mix(&self) -> bool {
        self.text.contains("[[request]]")
    }
}

/// All blocks of `README.md` and of the pages below `docs`.
pub(crate) fn all() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for directory in ["docs", "docs/reference", "docs/decisions"] {
        let entries = fs::read_dir(root.join(directory)).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    pages.sort();
    let blocks = pages.iter().flat_map(|path| {
        let page = fs::read_to_string(path).expect("a page");
        let name = path.strip_prefix(&root).expect("it is below");
        of_page(&name.display().to_string(), &page)
    });
    blocks.collect()
}

fn of_page(name: &str, page: &str) -> Vec<Block> {
    let fenced = fenced(page);
    let mut blocks = Vec::new();
    for (index, (line, language, text)) in fenced.iter().enumerate() {
        if *language != "toml" {
            continue;
        }
        let above = line
            .checked_sub(2)
            .and_then(|above| page.lines().nth(above));
        let run_by =
            above.and_then(|above| above.strip_prefix("<!-- run by: ")?.strip_suffix(" -->"));
        let next = fenced.get(index + 1);
        let printed = next.filter(|(_, _, next)| next.starts_with("weir.toml:"));
        blocks.push(Block {
            place: format!("{name}:{line}"),
            text: text.clone(),
            mistakes: printed.map(|(_, _, printed)| printed.clone()),
            run_by: run_by.map(str::to_owned),
        });
    }
    blocks
}

/// The line of each fence, the language behind it, and what it holds.
fn fenced(page: &str) -> Vec<(usize, &str, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let text = lines.by_ref().map(|(_, line)| line);
        let text = text.take_while(|line| *line != "```");
        let text: String = text.flat_map(|line| [line, "\n"]).collect();
        blocks.push((index + 1, language, text));
    }
    blocks
}
