//! A person at a terminal: the program runs on a terminal of its own, of 80 columns, and reads what
//! the person types.

use crate::place::Place;
use crate::terminal::on_terminal;
use std::process::Stdio;

/// The text that a person saw, and the code with which the program ended.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Screen {
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn shows(self, words: &str) -> Self {
        assert!(self.text.contains(words), "{words:?} is not on the screen:\n{}", self.text);
        self
    }
}

/// Types lines into the program on a terminal.
pub(crate) fn type_on_a_terminal(place: &Place, arguments: &[&str], lines: &str) -> Screen {
    place.write("typed", lines);
    let typed = std::fs::File::open(place.path().join("typed")).unwrap();
    let quoted = arguments.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    let output = on_terminal(&quoted.collect::<Vec<_>>().join(" "))
        .current_dir(place.path())
        .env("TOLLGATE_DATA", place.path().join("data"))
        .env("TOLLGATE_CACHE", place.path().join("cache"))
        .env("COLUMNS", "80")
        .env_remove("TOLLGATE_LOG")
        .stdin(Stdio::from(typed))
        .output()
        .expect("`script`, of util-linux, gives programs a terminal");
    let text = anstream::adapter::strip_str(&String::from_utf8_lossy(&output.stdout)).to_string();
    Screen { code: output.status.code(), text: text.replace('\r', "") }
}

/// Starts the program without waiting for its end, and drops what it says.
pub(crate) fn type_with(place: &Place, arguments: &[&str]) -> std::process::Child {
    let mut command = place.program(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
