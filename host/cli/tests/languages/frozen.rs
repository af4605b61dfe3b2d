//! Components of earlier releases, one in each language. They were compiled once, against the
//! contract and with the guest libraries of their day. They must load and give the same answers
//! forever.
//!
//! They need no toolchain, so these tests run everywhere.

use crate::built::{LANGUAGES, Language, compiled, serve};
use crate::{answer, answer_of};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::Decision;

/// The directories of the fixtures, one for each release whose guests differ from those before.
const RELEASES: [&str; 1] = ["guests-0.1.0"];

fn folder(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(release)
}

/// The guests of the newest release, unpacked into the `tools` of a directory.
pub(crate) fn newest() -> tempfile::TempDir {
    unpacked(RELEASES[RELEASES.len() - 1])
}

/// The guests of a release, unpacked into the `tools` of a directory.
fn unpacked(release: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for language in LANGUAGES {
        let packed = File::open(folder(release).join(language.name).with_extension("wasm.gz")).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        fs::write(tools.join(language.name).with_extension("wasm"), bytes).unwrap();
    }
    place
}

/// Returns the calls made to every guest, one after another on one thread: counts, Unicode, state
/// of earlier calls, errors of the tool and of the contract, a question.
fn questions() -> [Value; 8] {
    [
        json!({"text": "one two two three three three"}),
        json!({"text": "Grüezi Welt, grüezi 😀 hello Hello\nA", "top": 20}),
        json!({"text": "< > & ' \" \\ / \t\u{7f} \u{2028} \u{10FFFF}", "top": 20, "rounds": 2}),
        json!({"text": ""}),
        json!({"text": "nul\u{0}"}),
        json!({"text": 1}),
        json!({"text": "wörd 😀 ".repeat(20_000), "top": 1}),
        json!({"text": "a b", "confirm": true}),
    ]
}

/// Returns a person's decisions on the question with which all guests suspend their calls, with
/// their outcomes.
fn decisions() -> [(Value, &'static str); 2] {
    let declined = r#"[{"result":{"status":"error","data":{"error":{"code":"declined","message":"The person said no."}},"message":"The person said no."}},[]]"#;
    let measured = r#"[{"result":{"status":"success","data":{"bytes":3,"characters":3,"words":2,"lines":1,"top":[{"word":"a","count":1},{"word":"b","count":1}],"seen":0}}},[{"progress":{"status":"running","message":"measuring","progress":0.0}},{"output":"1 a\n"},{"output":"1 b\n"},{"progress":{"status":"done","message":"measured 2 words","progress":1.0}}]]"#;
    [(json!(true), measured), (json!(false), declined)]
}

/// Asks the question, on a thread of its own, and decides it.
async fn answer_to_decision(host: &Host, language: &Language, decided: &Value) -> String {
    let arguments = json!({"text": "a b", "confirm": true}).to_string();
    let asked = host.call(CallRequest::from_json(language.tool(), arguments)).await.unwrap();
    let decision = Decision::resume(asked.waiting[0].call_id.as_str(), decided.clone()).with_id("d1");
    answer(host.decide(&asked.run_id, decision).await.unwrap(), language).await
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_an_earlier_release_answer_the_same() {
    for release in RELEASES {
        let place = unpacked(release);
        let host = serve(place.path(), "").await;
        let recorded = fs::read_to_string(folder(release).join("answers.jsonl")).unwrap();
        assert_eq!(recorded.lines().count(), questions().len(), "{release}");
        for language in &LANGUAGES {
            for (question, recorded) in questions().iter().zip(recorded.lines()) {
                let answer = answer_of(&host, language, "frozen", &question.to_string()).await;
                assert_eq!(answer, recorded, "{release}, {}: {question}", language.name);
            }
            for (decided, recorded) in decisions() {
                let answer = answer_to_decision(&host, language, &decided).await;
                assert_eq!(answer, recorded, "{release}, {}: {decided}", language.name);
            }
        }
    }
}

/// Makes the fixtures of a release; see the README beside them. They are made once and never again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "makes fixtures, and needs the toolchains"]
async fn the_guests_of_this_release_are_frozen() {
    let folder = folder(&format!("guests-{}", env!("CARGO_PKG_VERSION")));
    fs::create_dir(&folder).expect("what a release froze is never made again");
    let place = compiled();
    for language in LANGUAGES {
        let name = language.tool().replace('_', "-");
        let bytes = fs::read(place.path().join("tools").join(name).with_extension("wasm")).unwrap();
        let packed = File::create(folder.join(language.name).with_extension("wasm.gz")).unwrap();
        GzEncoder::new(packed, Compression::best()).write_all(&bytes).unwrap();
    }
    let host = serve(place.path(), "").await;
    let mut answers = File::create(folder.join("answers.jsonl")).unwrap();
    for question in questions() {
        writeln!(answers, "{}", answer_of(&host, &LANGUAGES[0], "frozen", &question.to_string()).await)
            .unwrap();
    }
}
