//! Checks that links between documents lead somewhere, and that the book in `docs/` is complete.

use crate::{TextFile, assert_none, root, text_files};

/// The URLs under which the book links to the repository's own files.
const REPOSITORY: [&str; 2] =
    ["https://github.com/tollgate/tollgate/blob/main/", "https://github.com/tollgate/tollgate/tree/main/"];

#[test]
fn links_between_documents_lead_somewhere() {
    let files = text_files();
    let mut broken = Vec::new();
    let mut followed = 0;
    for document in files.iter().filter(|file| file.path.ends_with(".md")) {
        for target in targets(&document.text) {
            let Some((path, anchor)) = resolve(document, target) else { continue };
            followed += 1;
            let heading_exists = || {
                let text = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
                anchor.is_empty() || headings(&text).any(|heading| heading == anchor)
            };
            if !root().join(&path).exists() || !heading_exists() {
                broken.push(format!("{}: {target}", document.path));
            }
        }
    }
    assert_none("These links lead nowhere:", broken);
    assert!(followed > 10, "only {followed} links were found");
}

/// mdbook renders only the pages that the summary lists, so a relative link to any other
/// file works in the repository and is broken in the book.
#[test]
fn links_of_the_book_stay_in_the_book() {
    let files = text_files();
    let pages: Vec<&TextFile> =
        files.iter().filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md")).collect();
    let summary = pages.iter().find(|page| page.name() == "SUMMARY.md").expect("the book has a summary");
    let listed: Vec<&str> = targets(&summary.text).collect();
    let mut wrong = Vec::new();
    for page in &pages {
        if page.name() != "SUMMARY.md" && !listed.contains(&page.name()) {
            wrong.push(format!("{} is not in docs/SUMMARY.md", page.path));
        }
        let included = includes(&page.text);
        for text in included.iter().map(String::as_str).chain([page.text.as_str()]) {
            let relative = targets(text).filter(|target| !target.contains("://"));
            let paths = relative.map(|target| target.split('#').next().unwrap_or_default());
            // mdbook copies pictures; that they exist is checked above.
            let outside = paths
                .filter(|path| !path.is_empty() && !path.starts_with("images/") && !listed.contains(path));
            wrong.extend(outside.map(|path| format!("{}: {path} (use {}...)", page.path, REPOSITORY[0])));
        }
    }
    assert_none("These pages or links are missing from the book:", wrong);
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
}

/// Returns the path of a link's target, relative to the root, and its anchor. `None` if it leaves
/// the repository.
fn resolve(document: &TextFile, target: &str) -> Option<(String, String)> {
    let (address, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = match REPOSITORY.iter().find_map(|start| address.strip_prefix(start)) {
        Some(path) => path.to_owned(),
        None if address.contains("://") => return None,
        None if address.is_empty() => document.path.clone(),
        None => format!("./{folder}/{address}"),
    };
    Some((path, anchor.to_owned()))
}

/// Returns the targets of `[text](target)` outside of code blocks.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| {
        prose.split("](").skip(1).filter_map(|after| after.split_once(')').map(|(target, _)| target))
    })
}

/// Returns the texts that a page includes with `{{#include path}}` or `{{#include path:anchor}}`.
fn includes(page: &str) -> Vec<String> {
    let named = page.split("{{#include ").skip(1).filter_map(|after| after.split_once("}}"));
    named
        .map(|(name, _)| {
            let (path, anchor) = name.split_once(':').unwrap_or((name, ""));
            let path = root().join("docs").join(path);
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            match anchor {
                "" => text,
                _ => section(&text, anchor).unwrap_or_else(|| panic!("{name} has no such anchor")).to_owned(),
            }
        })
        .collect()
}

/// Returns the part of a text between an anchor's two comments.
fn section<'a>(text: &'a str, anchor: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<!-- ANCHOR: {anchor} -->"))?;
    Some(after.split_once(&format!("<!-- ANCHOR_END: {anchor} -->"))?.0)
}

/// Returns the anchors of all headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        line.trim_start_matches('#')
            .trim()
            .chars()
            .filter(kept)
            .collect::<String>()
            .to_lowercase()
            .replace(' ', "-")
    })
}
