//! Statements of a component about itself, in custom sections: its licence, its source, and the
//! packages that it was built from.
//!
//! The sections are those of `wasm-tools metadata`. The packages are in `.dep-v0`, the format of
//! cargo-auditable: compressed JSON. Nothing here was verified by anyone; it counts as much as the
//! signature that covers the component.

use crate::error::{Code, Error, Result};
use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read as _;
use tollgate_agent::text::clean;
use wasmparser::{Parser, Payload};

/// The most text that all sections with packages may expand to together, in bytes.
const MAX_EXPANDED_BYTES: u64 = 2 << 20;
/// The longest statement that is kept, in bytes.
const MAX_TEXT_BYTES: usize = 500;
/// The longest name, version or source of a package that is kept, in bytes.
const MAX_NAME_BYTES: usize = 100;
/// The section with packages.
const PACKAGES: &str = ".dep-v0";

/// Statements of a component about itself. All texts are cleaned and cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// The licence, as an SPDX expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// The address of its source code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its web page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// Its authors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authors: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The packages that it was built from, sorted, without itself; `None` if it does not list them.
    pub packages: Option<Vec<Package>>,
    /// Why its list of packages cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A package that a component was built from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its source: `crates.io`, `git`, `local`, `registry`, or something else.
    #[serde(default)]
    pub source: String,
    /// Whether only the build needed it.
    #[serde(default)]
    pub is_build: bool,
}

/// `.dep-v0` as it is written. Unknown fields are ignored, as its specification demands.
#[derive(Serialize, Deserialize)]
struct DependencyList {
    packages: Vec<WrittenPackage>,
}

#[derive(Serialize, Deserialize)]
struct WrittenPackage {
    name: String,
    version: String,
    source: String,
    #[serde(default, skip_serializing_if = "is_runtime")]
    kind: DependencyKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    root: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DependencyKind {
    Build,
    #[default]
    #[serde(other)]
    Runtime,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_runtime(kind: &DependencyKind) -> bool {
    *kind == DependencyKind::Runtime
}

impl Metadata {
    /// Reads the statements of a component. A part that cannot be read is absent, and `fault` says
    /// why the packages are.
    #[must_use]
    pub fn of(wasm: &[u8]) -> Self {
        let mut found = Self::default();
        let mut packages = BTreeSet::new();
        let mut left = MAX_EXPANDED_BYTES;
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(wasm) {
            // Loading the component reports what is wrong with it.
            let Ok(payload) = payload else { break };
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) if section.name() == PACKAGES => {
                    match packages_in(section.data(), &mut left) {
                        Ok(more) => {
                            packages.extend(more);
                            found.packages.get_or_insert_default();
                        }
                        Err(why) => found.fault = Some(clean(&why, MAX_TEXT_BYTES)),
                    }
                }
                // The statements of a nested module are about that module alone.
                Payload::CustomSection(section) if depth == 0 => {
                    if let Some(field) = found.field(section.name()) {
                        let text = clean(&String::from_utf8_lossy(section.data()), MAX_TEXT_BYTES);
                        *field = Some(text).filter(|text| !text.is_empty());
                    }
                }
                _ => {}
            }
        }
        // A list of which a part is missing would pass for a whole one.
        found.packages =
            found.packages.filter(|_| found.fault.is_none()).map(|_| packages.into_iter().collect());
        found
    }

    fn field(&mut self, section: &str) -> Option<&mut Option<String>> {
        Some(match section {
            "licenses" => &mut self.licence,
            "source" => &mut self.source,
            "homepage" => &mut self.homepage,
            "authors" => &mut self.authors,
            "description" => &mut self.description,
            "revision" => &mut self.revision,
            _ => return None,
        })
    }

    /// Writes the statements as custom sections, to append to a component. `root` is the name and
    /// version of the component's own package, which the list of packages has to contain.
    ///
    /// # Errors
    /// The list of packages is too long to be read again.
    pub fn to_sections(&self, root: (&str, &str)) -> Result<Vec<u8>> {
        let mut sections = Vec::new();
        for (name, text) in [
            ("licenses", &self.licence),
            ("source", &self.source),
            ("homepage", &self.homepage),
            ("authors", &self.authors),
            ("description", &self.description),
            ("revision", &self.revision),
        ] {
            if let Some(text) = text {
                sections.extend(section(name, text.as_bytes()));
            }
        }
        let Some(packages) = &self.packages else { return Ok(sections) };
        let written = |package: &Package| WrittenPackage {
            name: package.name.clone(),
            version: package.version.clone(),
            source: package.source.clone(),
            kind: if package.is_build { DependencyKind::Build } else { DependencyKind::Runtime },
            dependencies: Vec::new(),
            root: false,
        };
        let own = WrittenPackage {
            name: root.0.to_owned(),
            version: root.1.to_owned(),
            source: "local".to_owned(),
            kind: DependencyKind::Runtime,
            // Which package needs which is not listed: only that the component needs them.
            dependencies: (1..=packages.len()).collect(),
            root: true,
        };
        let written =
            DependencyList { packages: std::iter::once(own).chain(packages.iter().map(written)).collect() };
        let failed = |why: &dyn std::fmt::Display| {
            Error::new(Code::TooLarge, format!("the list of packages cannot be written: {why}"))
        };
        let text = serde_json::to_vec(&written).map_err(|e| failed(&e))?;
        if text.len() as u64 > MAX_EXPANDED_BYTES {
            return Err(failed(&format!("it is longer than {MAX_EXPANDED_BYTES} bytes")));
        }
        let mut packed = Vec::new();
        ZlibEncoder::new(text.as_slice(), Compression::best())
            .read_to_end(&mut packed)
            .map_err(|e| failed(&e))?;
        sections.extend(section(PACKAGES, &packed));
        Ok(sections)
    }
}

/// Reads the packages of one section. `left` is what sections may still expand to.
fn packages_in(data: &[u8], left: &mut u64) -> std::result::Result<Vec<Package>, String> {
    let mut text = Vec::new();
    let read = ZlibDecoder::new(data).take(*left + 1).read_to_end(&mut text);
    read.map_err(|e| format!("its list of packages cannot be expanded: {e}"))?;
    let expanded = text.len() as u64;
    if expanded > *left {
        *left = 0;
        return Err(format!("its list of packages expands to more than {MAX_EXPANDED_BYTES} bytes"));
    }
    *left -= expanded;
    let invalid = |e: serde_json::Error| format!("its list of packages is not valid: {e}");
    let DependencyList { packages } = serde_json::from_slice(&text).map_err(invalid)?;
    let named = |text: &str| clean(text, MAX_NAME_BYTES);
    let others = packages.iter().filter(|package| !package.root);
    let package = |package: &WrittenPackage| Package {
        name: named(&package.name),
        version: named(&package.version),
        source: named(&package.source),
        is_build: package.kind == DependencyKind::Build,
    };
    Ok(others.map(package).collect())
}

/// A custom section.
fn section(name: &str, data: &[u8]) -> Vec<u8> {
    let content = [&leb128(name.len())[..], name.as_bytes(), data].concat();
    [&[0][..], &leb128(content.len()), &content].concat()
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const COMPONENT: &[u8] = &[0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    const MODULE: &[u8] = &[0, b'a', b's', b'm', 1, 0, 0, 0];

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            source: "crates.io".to_owned(),
            is_build: false,
        }
    }

    fn stated() -> Metadata {
        Metadata {
            licence: Some("MIT".to_owned()),
            source: Some("https://example.com/acme/weather".to_owned()),
            packages: Some(vec![
                package("serde", "1.0.0"),
                Package { is_build: true, ..package("cc", "1.2.0") },
            ]),
            ..Metadata::default()
        }
    }

    /// A component with a module in it.
    fn nested(in_module: &[u8]) -> Vec<u8> {
        let module = [MODULE, in_module].concat();
        [COMPONENT, &[1], &leb128(module.len()), &module].concat()
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        ZlibEncoder::new(text, Compression::best()).read_to_end(&mut packed).unwrap();
        section(PACKAGES, &packed)
    }

    #[test]
    fn statements_read_back_as_they_were_written() {
        let sections = stated().to_sections(("weather", "1.2.0")).unwrap();
        let read = Metadata::of(&[COMPONENT, &sections].concat());
        let mut expected = stated();
        expected.packages.as_mut().unwrap().sort();
        assert_eq!(read, expected);
        assert_eq!(Metadata::of(COMPONENT), Metadata::default());
        assert_eq!(
            stated().to_sections(("weather", "1.2.0")).unwrap(),
            sections,
            "the same input, the same bytes"
        );
    }

    #[test]
    fn packages_of_all_modules_count_and_licences_of_modules_do_not() {
        let inner = Metadata { packages: Some(vec![package("ring", "0.17.0")]), ..stated() };
        let inner = inner.to_sections(("part", "1.0.0")).unwrap();
        let outer = Metadata { licence: None, ..stated() }.to_sections(("weather", "1.2.0")).unwrap();
        let read = Metadata::of(&[nested(&inner), outer].concat());
        assert_eq!(read.licence, None);
        let names: Vec<_> = read.packages.unwrap().into_iter().map(|package| package.name).collect();
        assert_eq!(names, ["cc", "ring", "serde"]);
    }

    #[test]
    fn a_list_that_expands_without_end_or_is_not_valid_is_no_list() {
        let endless = packed(&vec![b' '; 3 << 20]);
        assert!(endless.len() < 10_000);
        // Each would do alone, and all of them together are too much.
        let many = vec![packed(&[&vec![b' '; 1 << 20][..], b"{\"packages\":[]}"].concat()); 3].concat();
        let deep = format!("{{\"packages\":{}", "[".repeat(100_000));
        for section in [
            endless,
            many,
            packed(deep.as_bytes()),
            packed(b"[]"),
            packed(b"{\"packages\":[{\"name\":1}]}"),
            section(PACKAGES, b"not compressed"),
            section(PACKAGES, &[]),
        ] {
            let read = Metadata::of(&[COMPONENT, &section].concat());
            assert!(read.packages.is_none() && read.fault.is_some(), "{read:?}");
            // A list that can be read does not hide that another one cannot.
            let both = [nested(&packed(b"{\"packages\":[]}")), section].concat();
            assert!(Metadata::of(&both).packages.is_none());
        }
        assert_eq!(Metadata::of(b"not a component"), Metadata::default());
    }

    #[test]
    fn words_are_cleaned_and_cut() {
        let licence = section("licenses", "MIT\u{1b}[31m\u{202e}".as_bytes());
        let long = section("description", &vec![b'x'; 10_000]);
        let name = packed(b"{\"packages\":[{\"name\":\"a\\u001b]0;x\",\"version\":\"1\",\"source\":\"y\"}]}");
        let read = Metadata::of(&[COMPONENT, &licence, &long, &name].concat());
        assert!(!read.licence.unwrap().contains(['\u{1b}', '\u{202e}']));
        assert!(read.description.unwrap().len() <= MAX_TEXT_BYTES + 20);
        assert!(!read.packages.unwrap()[0].name.contains('\u{1b}'));
    }
}
