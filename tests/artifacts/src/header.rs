//! The comment at the head of a guest's file: its attack and the expected end.
//!
//! The first lines are prose. Directives follow, `;; key: value`. A value continues on lines that
//! are indented by at least three spaces.

/// How a guest's call, or its loading, must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Succeeds,
    Code(String),
    Refused(String),
}

/// The declarations of a file, without its code.
#[derive(Default, Debug)]
#[allow(dead_code, reason = "the build script reads the half that the table needs")]
pub(crate) struct Header {
    pub(crate) attack: String,
    /// The row of the sandbox's table of limits that ends the attack.
    pub(crate) limit: String,
    pub(crate) expects: Option<Expected>,
    /// WASI interfaces beside `tollgate:tool/call`, such as `wasi:cli/exit`.
    pub(crate) imports: Vec<String>,
    /// The grants that are attacked: `files` or `http`.
    pub(crate) powers: Vec<String>,
    /// The beginning of the refusal that the operator sees.
    pub(crate) denied: Option<String>,
    /// The world's whole body, if it is not that of a tool.
    pub(crate) world: Option<String>,
    /// WIT packages that only this guest uses.
    pub(crate) wit: String,
    /// JSON merged into the descriptor that `describe` returns.
    pub(crate) descriptor: Option<String>,
    /// JSON of the value that `execute` returns.
    pub(crate) returns: Option<String>,
    /// JSON of the text of the `package-docs` section that is added to the component.
    pub(crate) docs: Option<String>,
    /// The file's format, if it is not a component: see `assembly`.
    pub(crate) form: Option<String>,
    /// Whether it is a gate instead of a tool.
    pub(crate) is_gate: bool,
    /// The number of additional instances of an empty module with a memory.
    pub(crate) more_instances: u32,
}

impl Header {
    /// Parses the comment lines before the first line of code.
    pub(crate) fn parse(source: &str) -> Result<Header, String> {
        let lines = source.lines().map_while(|line| line.strip_prefix(";;"));
        let mut prose = Vec::new();
        let mut directives: Vec<(String, String)> = Vec::new();
        for line in lines {
            if let Some((_, value)) = directives.last_mut().filter(|_| line.starts_with("   ")) {
                value.push('\n');
                value.push_str(line.trim());
            } else if let Some((key, value)) = directive(line) {
                directives.push((key.to_owned(), value.to_owned()));
            } else if directives.is_empty() {
                prose.push(line.trim());
            } else if !line.trim().is_empty() {
                return Err(format!("`;;{line}` is not a directive, and prose comes first"));
            }
        }
        let mut header = Header { attack: prose.join(" ").trim().to_owned(), ..Header::default() };
        for (key, value) in directives {
            header.set(&key, &value)?;
        }
        Ok(header)
    }

    /// Returns the header if it has all directives that a file in this folder needs.
    #[allow(dead_code, reason = "for the build script")]
    pub(crate) fn complete_for(self, folder: &str) -> Result<Header, String> {
        if self.attack.is_empty() {
            return Err("the first line must say what it does: `;; Computes forever.`".into());
        }
        if self.expects.is_none() {
            return Err("say how it must end: `;; expects: out_of_fuel`".into());
        }
        if folder != "good" && self.limit.is_empty() {
            return Err("say what stops it: `;; limit: instructions`".into());
        }
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "limit" => self.limit = value.to_owned(),
            "expects" => self.expects = Some(expectation(value)?),
            "imports" => self.imports = value.split_whitespace().map(str::to_owned).collect(),
            "powers" => self.powers = value.split_whitespace().map(str::to_owned).collect(),
            "denied" => self.denied = Some(value.to_owned()),
            "world" => self.world = Some(value.to_owned()),
            "wit" => self.wit = value.to_owned(),
            "descriptor" => self.descriptor = Some(value.to_owned()),
            "returns" => self.returns = Some(value.to_owned()),
            "kind" if value == "gate" => self.is_gate = true,
            "docs" => self.docs = Some(value.to_owned()),
            "form" => self.form = Some(value.to_owned()),
            "more-instances" => {
                self.more_instances = value.parse().map_err(|_| format!("`{value}` is not a count"))?;
            }
            _ => return Err(format!("there is no directive `{key}`")),
        }
        Ok(())
    }
}

/// Parses `key: value`, where the key is one lower-case word.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix(' ')?.split_once(':')?;
    let is_word = !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    is_word.then(|| (key, value.trim()))
}

fn expectation(value: &str) -> Result<Expected, String> {
    if value == "succeeds" {
        return Ok(Expected::Succeeds);
    }
    if let Some(reason) = value.strip_prefix("refused ") {
        let reason = reason.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        return reason
            .filter(|words| !words.is_empty())
            .map(|words| Expected::Refused(words.to_owned()))
            .ok_or_else(|| format!("`{value}` must read `refused \"words of the reason\"`"));
    }
    let is_code = !value.is_empty() && value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_code
        .then(|| Expected::Code(value.to_owned()))
        .ok_or_else(|| format!("`{value}` is neither `succeeds`, a code nor a refusal"))
}
