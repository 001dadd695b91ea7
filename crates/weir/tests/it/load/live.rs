//! The live view, on a terminal that `script` makes.

use crate::harness::App;
use crate::harness::tool::run;

/// What is left on a terminal with so many columns and rows enough after `output` was shown on it.
fn screen(output: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0);
    let mut characters = output.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                assert_eq!(characters.next(), Some('['), "{output:?}");
                let sequence: String = characters
                    .by_ref()
                    .take_while(|character| !character.is_ascii_alphabetic())
                    .collect();
                // What ends it is taken as well: a row is given only for going up.
                if let Ok(up) = sequence.parse::<usize>() {
                    row = row.checked_sub(up).expect("it stays on the screen");
                } else if sequence.is_empty() {
                    lines.truncate(row + 1);
                    lines[row].truncate(column);
                }
            }
            _ => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                lines.resize(lines.len().max(row + 1), Vec::new());
                lines[row].truncate(column);
                lines[row].push(character);
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    lines
        .into_iter()
        .map(|line| line.into_iter().collect())
        .collect()
}

/// However narrow the terminal is, each view is drawn over the one before, and the last one makes room for the results.
#[test]
fn nothing_of_it_stays() {
    let app = App::start("a");
    for columns in [20, 50, 100] {
        let weir = env!("CARGO_BIN_EXE_weir");
        let load = format!(
            "{weir} load http://{}/ -c 2 -d 1s --json /dev/null",
            app.address
        );
        let command = format!("stty cols {columns} rows 10 && {load}");
        let shown = run("script", &["-qec", &command, "/dev/null"]).stdout;
        assert!(shown.matches("%, ").count() >= 2, "it was seen: {shown:?}");
        assert!(
            shown.contains("\x1b[?25l") && shown.contains("\x1b[?25h"),
            "{shown:?}"
        );
        let screen = screen(&shown, columns);
        let text = screen.join("\n");
        assert!(screen[0].contains(" requests in"), "{text}");
        assert!(!text.contains("%, "), "{text}");
    }
}
