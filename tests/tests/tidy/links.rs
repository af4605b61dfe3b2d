//! What the documentation points to is there.

use crate::{TextFile, assert_none, root, text_files};

#[test]
fn links_between_documents_lead_somewhere() {
    let files = text_files();
    let documents: Vec<&TextFile> = files.iter().filter(|file| file.path.ends_with(".md")).collect();
    let mut broken = Vec::new();
    let mut followed = 0;
    for document in documents {
        let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in local_targets(&document.text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { document.name() } else { path };
            let full = root().join(folder).join(path);
            followed += 1;
            let heading_is_there = || {
                let text = std::fs::read_to_string(&full).unwrap_or_default();
                anchor.is_empty() || headings(&text).any(|heading| heading == anchor)
            };
            if !full.exists() || !heading_is_there() {
                broken.push(format!("{}: {target}", document.path));
            }
        }
    }
    assert_none("These links lead nowhere:", broken);
    assert!(followed > 10, "only {followed} links were found");
}

/// The targets of `[text](target)` that are no addresses, outside of code.
fn local_targets(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| {
        prose
            .split("](")
            .skip(1)
            .filter_map(|after| after.split_once(')').map(|(target, _)| target))
            .filter(|target| !target.contains("://"))
    })
}

/// Headings as the names under which they can be linked to.
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
