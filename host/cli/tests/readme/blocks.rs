//! The fenced blocks of a Markdown file, with the directives in the comments above them: `<!-- not
//! run: why -->` leaves one out, `<!-- file: path -->` is written to a file.

/// The contents of a fenced block.
pub(crate) struct Block {
    pub(crate) fence: Fence,
    /// The reason why it is not run.
    pub(crate) left_out: Option<String>,
    /// The file to which it is written.
    pub(crate) file: Option<String>,
    pub(crate) text: String,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Fence {
    Shell,
    /// Commands with a prompt, and their output.
    Console,
    /// The output of the preceding commands.
    Text,
    Toml,
    Rust,
    /// The configuration of another program.
    Nginx,
}

impl Fence {
    fn of(word: &str) -> Fence {
        match word {
            "sh" => Fence::Shell,
            "console" => Fence::Console,
            "text" => Fence::Text,
            "toml" => Fence::Toml,
            "rust" => Fence::Rust,
            "nginx" => Fence::Nginx,
            other => panic!("nothing is known of blocks that begin with ```{other}"),
        }
    }
}

/// Returns all blocks, in order.
pub(crate) fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut above = "";
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(word) = line.strip_prefix("```") else {
            above = line;
            continue;
        };
        let text: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        let says = |what: &str| {
            let said = above.strip_prefix("<!-- ")?.strip_prefix(what)?.strip_suffix(" -->")?;
            Some(said.to_owned())
        };
        blocks.push(Block {
            fence: Fence::of(word),
            left_out: says("not run: "),
            file: says("file: "),
            text,
        });
        above = "";
    }
    blocks
}
