//! `[permissions]`: the rules for allowing, asking about and denying calls, and how "always"
//! answers are stored in them.

use super::edit::{push, to_text};
use super::error::Source;
use super::raw::RawPermissions;
use super::{ConfigChangeError, ConfigError, change};
use std::path::{Path, PathBuf};
use tollgate_agent::gate::permissions::{MAX_REMEMBERED, Permissions, RuleError, RuleSpec};
use toml::Spanned;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

pub(super) fn check(source: &Source<'_>, raw: RawPermissions) -> Result<Permissions, ConfigError> {
    type Add = fn(Permissions, RuleSpec) -> Result<Permissions, RuleError>;
    let lists: [(Vec<Spanned<toml::Value>>, Add); 4] = [
        (raw.allow, Permissions::allow),
        (raw.ask, Permissions::ask),
        (raw.deny, Permissions::deny),
        (raw.remembered, Permissions::remembered),
    ];
    let mut permissions = Permissions::new(raw.otherwise);
    for (rules, add) in lists {
        for rule in rules {
            let span = rule.span();
            let spec = spec(source, rule)?;
            permissions = add(permissions, spec).map_err(|why| source.wrong(span, why.to_string()))?;
        }
    }
    Ok(permissions)
}

/// Parses a rule: a tool's name, or a table with details.
fn spec(source: &Source<'_>, rule: Spanned<toml::Value>) -> Result<RuleSpec, ConfigError> {
    let span = rule.span();
    match rule.into_inner() {
        toml::Value::String(tool) => Ok(RuleSpec::of_tool(tool)),
        table @ toml::Value::Table(_) => table.try_into().map_err(|why| source.refused_at(span, &why)),
        _ => Err(source.wrong(
            span,
            "a rule is a tool's name, such as \"find_*\", or { tool = \"find_*\", at = \"/path\", glob = \"/docs/**\" }",
        )),
    }
}

/// The reason why an "always" answer was not stored.
#[derive(Debug, thiserror::Error)]
#[error("the answer is remembered for this thread only: {} {what}; add it by hand: [permissions] remembered = [{rule}]", file.display())]
pub struct RememberError {
    file: PathBuf,
    what: String,
    rule: String,
}

/// Adds an "always" answer to the configuration, keeping its comments and order. Creates the
/// file if it does not exist.
///
/// # Errors
/// The file cannot be read or written, or is not a valid configuration.
pub fn remember_always(file: &Path, rule: &RuleSpec) -> Result<(), RememberError> {
    let written = as_toml(rule);
    let changed: Result<(), ConfigChangeError> = change(file, |text| match with_rule(text, &written) {
        Ok(text) => Ok((text, ())),
        Err(what) => Err(ConfigChangeError { file: file.to_owned(), what }),
    });
    changed.map_err(|ConfigChangeError { file, what }| RememberError {
        file,
        what,
        rule: written.to_string(),
    })
}

fn with_rule(text: &str, rule: &InlineTable) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|why| format!("is not valid TOML ({why})"))?;
    let permissions = document.entry("permissions").or_insert_with(|| Item::Table(Table::new()));
    let table = permissions.as_table_like_mut().ok_or("has a `permissions` that is not a table")?;
    let list = table.entry("remembered").or_insert_with(|| Item::Value(Value::Array(Array::new())));
    let list = list.as_array_mut().ok_or("has a `permissions.remembered` that is not a list")?;
    let is_there = list.iter().any(|known| known.to_string().trim() == rule.to_string().trim());
    let is_bound = |known: &&Value| known.as_inline_table().is_some_and(|known| known.contains_key("digest"));
    if !is_there && list.iter().filter(is_bound).count() >= MAX_REMEMBERED {
        return Err(format!("remembers {MAX_REMEMBERED} answers already; remove some of them"));
    }
    if !is_there {
        push(list, rule.clone().into());
    }
    Ok(to_text(&document, text))
}

fn as_toml(rule: &RuleSpec) -> InlineTable {
    let fields = [
        ("tool", Some(&rule.tool)),
        ("owner", rule.owner.as_ref()),
        ("digest", rule.digest.as_ref()),
        ("arguments", rule.arguments.as_ref()),
        ("at", rule.at.as_ref()),
        ("glob", rule.glob.as_ref()),
        ("matches", rule.matches.as_ref()),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key, value?.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    fn rule() -> RuleSpec {
        RuleSpec {
            owner: Some("finder".to_owned()),
            digest: Some("ab".to_owned()),
            arguments: Some(r#"{"q":"a'b"}"#.to_owned()),
            ..RuleSpec::of_tool("search")
        }
    }

    #[test]
    fn z11_at_most_256_answers_are_remembered_for_always_and_old_ones_stay_readable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        let old = "{ tool = \"old\" }, ".repeat(MAX_REMEMBERED + 1);
        std::fs::write(&file, format!("[permissions]\nremembered = [{old}]\n")).unwrap();
        for number in 0..MAX_REMEMBERED {
            let rule = RuleSpec { arguments: Some(format!("{{\"n\":{number}}}")), ..rule() };
            remember_always(&file, &rule).unwrap();
        }
        let why = remember_always(&file, &rule()).unwrap_err().to_string();
        assert!(why.contains("remembers 256 answers already"), "{why}");
        let permissions = Config::load(Some(&file)).unwrap().permissions.unwrap();
        assert_eq!(permissions.unbound_answers(), MAX_REMEMBERED + 1);
    }

    #[test]
    fn an_answer_for_always_is_written_and_the_rest_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        let text =
            "# mine\n[permissions]   # who may what\nask = [\"*\"] # all\n\n[limits]\nfuel = 7 # little\n";
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        for text in [text, &windows] {
            std::fs::write(&file, text).unwrap();
            remember_always(&file, &rule()).unwrap();
            remember_always(&file, &rule()).unwrap();
            let written = std::fs::read_to_string(&file).unwrap();
            for line in text.split_inclusive('\n') {
                assert!(written.contains(line), "{line:?} is gone from:\n{written}");
            }
            assert_eq!(written.matches("search").count(), 1, "{written}");
            assert!(Config::load(Some(&file)).unwrap().permissions.is_some());
        }
    }

    #[test]
    fn without_a_file_it_is_made_and_what_is_no_toml_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        remember_always(&file, &rule()).unwrap();
        assert!(Config::load(Some(&file)).unwrap().permissions.is_some());
        std::fs::write(&file, "not toml").unwrap();
        let why = remember_always(&file, &rule()).unwrap_err().to_string();
        assert!(why.contains("is not valid TOML") && why.contains("search"), "{why}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "not toml");
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_named_with_its_line() {
        for (text, words) in [
            ("deny = [{ tool = \"a\", at = \"path\", glob = \"x\" }]", "begins with /"),
            ("deny = [{ tool = \"a\", matches = \"(\" }]", "is not a valid pattern"),
            ("deny = [{ tool = \"a\", glub = \"x\" }]", "did you mean `glob`"),
            ("deny = [{ at = \"/a\", glob = \"x\" }]", "`tool` is missing"),
            ("deny = [3]", "a rule is a tool's name"),
            ("deny = [{ tool = \"a\", owner = \"No id\" }]", "`owner` must be the id of"),
        ] {
            let text = format!("[permissions]\nallow = [\"*\"]\n{text}\n");
            let why = Config::parse(Path::new("tollgate.toml"), &text).unwrap_err();
            assert_eq!(why.line(), Some(3), "{why}");
            assert!(why.to_string().contains(words), "{why}");
        }
        let why = Config::parse(Path::new("t.toml"), "[permissions]\nalow = []\n").unwrap_err();
        assert!(why.to_string().contains("did you mean `allow`"), "{why}");
    }
}
