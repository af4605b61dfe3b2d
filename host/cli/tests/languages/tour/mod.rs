//! The tour: one tool that uses all of the contract, in every language. The same test cases run
//! against each, and their results are compared byte for byte. Results that all could get wrong
//! alike are asserted as well. The specification of the tool is in `tests/guests/tour/README.md`.

mod described;
mod ending;
mod looping;
mod remembering;

use crate::built::{LANGUAGES, Language, compiled_from, load};
use crate::{all_equal, attended};
use serde_json::{Value, json};
use tollgate::{CallRequest, Host, HostBuilder, Plugin, RunEnd, StateKey};
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::KeyScope;
use tollgate_sandbox::Report;

/// The path of the tour of each language, from here.
const SOURCES: &str = "../../tests/guests/tour";

/// A native tool that defines a key that does not belong to the tour.
struct Shelf;

/// The key's value, which has a default.
#[derive(serde::Serialize, serde::Deserialize)]
struct Books(String);

impl Default for Books {
    fn default() -> Self {
        Self("books".to_owned())
    }
}

impl StateKey for Shelf {
    const NAME: &'static str = "shelf.label";
    const COMMUTES: bool = false;
    const SCOPE: KeyScope = KeyScope::Thread;
    type Value = Books;
    type Update = Books;

    fn apply(label: &mut Books, update: Books) {
        *label = update;
    }
}

impl Plugin for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn register(self: Box<Self>, parts: &mut tollgate::plugins::Parts) {
        parts.state::<Shelf>();
    }
}

/// The grants of the tour in every language.
const ALL: &str = r#"
state = { read = ["shelf.label"], write = ["shelf.label"] }
actions = ["add-context", "transfer", "escalate"]
"#;

/// Creates a host builder with the tour in every language and these grants.
pub(crate) async fn building(grants: &str) -> HostBuilder {
    let compiled = compiled_from(SOURCES);
    let table = |language: &Language| format!("[grants.{}]\n{grants}\n", language.tour().replace('_', "-"));
    let grants: String = LANGUAGES.iter().map(table).collect();
    // Agents that grants name must be configured. The hosts of the tests have their own of these names.
    let grants = grants + "[agents.scout]\n[agents.mute]\n";
    let (toolbox, _) = load(compiled.path(), &grants).await;
    Host::builder().toolbox(toolbox).plugin(Shelf)
}

async fn host() -> Host {
    building(ALL).await.build().unwrap()
}

/// Calls every language with these arguments, each on its own thread, and returns the answer and
/// reports that all of them give.
async fn all_tour(host: &Host, thread: &str, arguments: &Value) -> (Value, Value) {
    let mut answers = Vec::new();
    for language in &LANGUAGES {
        let request = CallRequest::from_json(language.tour(), arguments.to_string())
            .on_thread(format!("{thread}-{}", language.name));
        let (end, reports) = attended(host.start_call(request).await.unwrap()).await;
        answers.push(written(language, &end, &reports));
    }
    let answer = all_equal(&answers, &arguments.to_string());
    serde_json::from_str(&answer).unwrap()
}

/// Returns the reports of a language's tour.
pub(crate) async fn reports_of(host: &Host, language: &Language) -> Vec<Report> {
    let request = CallRequest::from_json(language.tour(), json!({"what": "report"}).to_string());
    attended(host.start_call(request).await.unwrap()).await.1
}

/// Returns how a call ended and what it reported, without its tool's name.
fn written(language: &Language, end: &RunEnd, reports: &[Report]) -> String {
    let end = match &end.last_call {
        Some(finished) => json!(finished.end),
        None => json!(end.waiting[0].ticket),
    };
    let written = json!([end, reports]).to_string();
    let id = language.tour().replace('_', "-");
    written.replace(&language.tour(), "TOOL").replace(&id, "COMPONENT")
}

/// Returns the data of the answer that all gave.
async fn all_data(host: &Host, thread: &str, arguments: &Value) -> Value {
    let (end, reports) = all_tour(host, thread, arguments).await;
    let result = serde_json::from_value(end.clone()).map(|end: CallEnd| match end {
        CallEnd::Result(result) => result,
        CallEnd::Fault(fault) => panic!("{arguments}: {} {}", fault.code, fault.message),
    });
    let result = result.unwrap_or_else(|error| panic!("{error}: {end}"));
    assert!(result.is_success(), "{arguments}: {end}");
    assert_eq!((result.message.as_deref(), reports), (None, json!([])), "{arguments}");
    Value::clone(&result.data)
}

/// Returns the code and the message with which all calls ended.
async fn all_fault(host: &Host, thread: &str, arguments: &Value) -> (String, String) {
    let (end, _) = all_tour(host, thread, arguments).await;
    match serde_json::from_value(end) {
        Ok(CallEnd::Fault(fault)) => (fault.code.to_string(), fault.message),
        other => panic!("{arguments}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_sees_its_arguments_and_their_defaults() {
    let host = host().await;
    let none = json!({
        "what": "echo", "how": null, "text": "plain", "count": 3, "ratio": 0.5, "flag": true,
        "words": [], "size": 2, "place": null, "scores": {},
    });
    assert_eq!(all_data(&host, "echo", &json!({"what": "echo"})).await, none);
    let all = json!({
        "what": "echo", "how": "", "text": "ä\u{0}😀\"\\\n", "count": 1000, "ratio": -0.1, "flag": false,
        "words": ["", "b", "a", "b"], "size": 4,
        "place": {"name": "Zürich", "zip": "8000", "country": "Switzerland"},
        "scores": {"": -1, "a \"b\"": 9_007_199_254_740_991_i64, "ß": 0},
    });
    assert_eq!(all_data(&host, "echo", &all).await, all);
    for (given, seen) in [
        (json!({"place": {"name": ""}}), json!({"name": "", "zip": null, "country": "CH"})),
        (json!({"place": {"zip": "1", "name": "B"}}), json!({"name": "B", "zip": "1", "country": "CH"})),
    ] {
        let mut arguments = given.clone();
        arguments["what"] = json!("echo");
        let data = all_data(&host, "echo", &arguments).await;
        assert_eq!(data["place"], seen);
    }
    // Whole numbers may be written as `2` or `2.0`, so they are not compared as text.
    for (ratio, seen) in [(json!(2.5), 2.5), (json!(1e300), 1e300), (json!(-0.000_001), -0.000_001)] {
        let data = all_data(&host, "echo", &json!({"what": "echo", "ratio": ratio, "count": 2.0})).await;
        assert_eq!((data["ratio"].as_f64(), data["count"].as_i64()), (Some(seen), Some(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_refuses_arguments_that_do_not_fit_in_the_same_words() {
    let host = host().await;
    for (arguments, pointer) in [
        (json!({}), ""),
        (json!({"what": "nothing"}), "/what"),
        (json!({"what": "echo", "how": null}), "/how"),
        (json!({"what": "echo", "count": 1001}), "/count"),
        (json!({"what": "echo", "count": -1}), "/count"),
        (json!({"what": "echo", "ratio": "half"}), "/ratio"),
        (json!({"what": "echo", "flag": 0}), "/flag"),
        (json!({"what": "echo", "words": ["a", 1]}), "/words/1"),
        (json!({"what": "echo", "size": 3}), "/size"),
        (json!({"what": "echo", "size": "2"}), "/size"),
        (json!({"what": "echo", "place": {}}), "/place"),
        (json!({"what": "echo", "place": null}), "/place"),
        (json!({"what": "echo", "place": {"name": "B", "street": "S"}}), "/place"),
        (json!({"what": "echo", "place": {"name": "B", "country": null}}), "/place/country"),
        (json!({"what": "echo", "scores": {"a": "1"}}), "/scores/a"),
        (json!({"what": "echo", "else": true}), ""),
    ] {
        let (code, words) = all_fault(&host, "unfit", &arguments).await;
        assert_eq!(code, "invalid_arguments", "{arguments}: {words}");
        assert!(words.contains(pointer), "{arguments}: {words}");
    }
    // The tool's own check covers constraints that the schema cannot express.
    let (code, words) = all_fault(&host, "unfit", &json!({"what": "echo", "text": "forbidden"})).await;
    assert_eq!(code, "invalid_arguments");
    assert!(words.contains("The text may not be forbidden."), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_tells_everything_that_can_be_told() {
    let host = host().await;
    let (end, reports) = all_tour(&host, "report", &json!({"what": "report"})).await;
    assert!(end.to_string().contains(r#""reported""#), "{end}");
    let progress = |status, message: Option<&str>, progress: Option<f64>| json!({"status": status, "message": message, "progress": progress});
    let log = |level| json!({"level": level, "message": level});
    let told = [
        json!({"kind": "tour", "content": "first stop"}),
        json!({"kind": "tour", "patch": [{"op": "add", "path": "/stops", "value": 1}]}),
        progress("pending", None, None),
        progress("running", Some("under way"), Some(0.25)),
        progress("running", None, Some(0.5)),
        progress("failed", Some("broken"), None),
        progress("cancelled", Some("stopped"), Some(0.75)),
        progress("done", Some("there"), Some(1.0)),
        json!("one "),
        json!("two\n"),
        log("trace"),
        log("debug"),
        log("info"),
        log("warn"),
        log("error"),
    ];
    let found: Vec<Value> = reports.as_array().unwrap().iter().map(inner).collect();
    assert_eq!(found, told);
}

/// Returns a report without its type.
fn inner(report: &Value) -> Value {
    let members = report.as_object().unwrap();
    assert_eq!(members.len(), 1, "{report}");
    members.values().next().unwrap().clone()
}
