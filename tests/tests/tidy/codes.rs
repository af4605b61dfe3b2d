//! Checks that docs/codes.md explains every code of a call.

use std::collections::BTreeMap;
use tollgate_agent::code::Code;

use crate::root;

const PARTS: [&str; 3] = ["**Meaning.** ", "**Reason.** ", "**Fix.** "];

#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let pages = pages();
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    for code in &codes {
        assert!(pages.contains_key(*code), "docs/codes.md has no section `{code}`");
    }
    for page in pages.keys() {
        assert!(codes.contains(&page.as_str()), "docs/codes.md explains `{page}`, which is not a code");
    }
}

#[test]
fn a_section_gives_meaning_reason_and_fix() {
    for (code, page) in pages() {
        for part in PARTS {
            let said = page.split_once(part).and_then(|(_, after)| after.split("\n\n").next());
            let words = said.unwrap_or_default().split_whitespace().count();
            assert!(words >= 5, "the section `{code}` of docs/codes.md says too little under {part:?}");
        }
    }
}

/// Returns the sections of the page, by the code in their heading.
fn pages() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join("docs/codes.md")).expect("docs/codes.md is there");
    text.split("\n### `")
        .skip(1)
        .map(|section| {
            let (code, page) = section.split_once('`').expect("a heading ends its code");
            (code.to_owned(), page.split("\n## ").next().unwrap_or_default().to_owned())
        })
        .collect()
}
