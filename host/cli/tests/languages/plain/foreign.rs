//! Tests components of another project, built unchanged from its sources in C and Go: the guests
//! with which wit-bindgen tests itself. The tests that need no other toolchain compile those in
//! Rust, which give the same answers.

use super::cases::cases;
use super::making::{World, c, go};
use super::sources::sources;
use super::{answer, place};
use crate::built::load;
use std::path::{Path, PathBuf};
use tollgate::Host;
use wit_component::StringEncoding::{UTF8, UTF16};

/// The folders of the guests in C, with their string encoding.
const IN_C: [(&str, wit_component::StringEncoding); 6] = [
    ("lists", UTF8),
    ("many-arguments", UTF8),
    ("numbers", UTF8),
    ("records", UTF8),
    ("strings", UTF16),
    ("variants", UTF8),
];
const IN_GO: [&str; 5] = ["lists", "many-arguments", "numbers", "records", "variants"];

/// Runs every case against the components that have its tool, and returns how many cases there
/// were.
async fn asked(components: &[(&str, Vec<u8>)]) -> usize {
    let components: Vec<(&str, &[u8])> = components.iter().map(|(name, bytes)| (*name, &**bytes)).collect();
    let place = place(&components);
    let (toolbox, _) = load(place.path(), "").await;
    let tools: Vec<String> = toolbox.catalog().tools().map(|tool| tool.descriptor.name.to_string()).collect();
    let host = Host::builder().toolbox(toolbox).build().unwrap();
    let mut asked = 0;
    for (tool, arguments, answered) in cases() {
        if tools.iter().any(|name| name == tool) {
            assert_eq!(answer(&host, tool, &arguments).await, answered, "{tool} {arguments}");
            asked += 1;
        }
    }
    asked
}

fn guests() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-sources");
    sources(&place, "wit-bindgen-cli", "0.63.0").join("tests/runtime")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn guests_of_wit_bindgen_in_c_and_go_are_tools() {
    let guests = guests();
    let world =
        |name: &str, encoding| World { wit: guests.join(name).join("test.wit"), name: "test", encoding };
    let in_c =
        IN_C.map(|(name, encoding)| (name, c(&world(name, encoding), &guests.join(name).join("test.c"))));
    assert_eq!(asked(&in_c).await, 40);
    let in_go = IN_GO.map(|name| (name, go(&world(name, UTF8), &[guests.join(name).join("test.go")])));
    assert_eq!(asked(&in_go).await, 38);
}
