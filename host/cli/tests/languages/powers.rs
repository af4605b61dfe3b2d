//! The table of languages and powers in docs/languages.md: each cell is what a tool of that
//! language does here.

use crate::built::{LANGUAGES, Language};
use crate::{tour, weather};
use serde_json::json;
use std::fs;
use std::path::Path;
use tollgate::{Agent, CallRequest, Host, RunEnd, ScriptedModel, ScriptedTurn};
use tollgate_sandbox::Report;

const BEGIN: &str = "<!-- made: TOLLGATE_WRITE_DOCS=1 scripts/test languages -->\n";
const END: &str = "<!-- end -->\n";
/// The powers, in the order of [`row`].
const POWERS: [&str; 10] = [
    "State",
    "Progress",
    "Streamed output",
    "Questions",
    "HTTP",
    "Secrets",
    "Settings",
    "Other agents",
    "Files",
    "Attachments",
];

async fn call(host: &Host, tool: String, arguments: serde_json::Value) -> RunEnd {
    host.call(CallRequest::from_json(tool, arguments.to_string())).await.unwrap()
}

async fn succeeds(host: &Host, language: &Language, arguments: serde_json::Value) -> bool {
    call(host, language.tour(), arguments).await.result().is_some_and(|result| result.is_success())
}

/// The row of one language, from calls of its tour and its weather, whose server sees the requests.
async fn row(language: &Language, tour: &Host, weather: &Host, server: &weather::Server) -> String {
    let reported = tour::reports_of(tour, language).await;
    server.take();
    let asked = call(tour, language.tour(), json!({"what": "suspend", "how": "plain"})).await;
    let place = json!({"latitude": 1, "longitude": 2});
    let answered = call(weather, language.weather(), place).await;
    let setting = call(tour, language.tour(), json!({"what": "setting", "text": "units"})).await;
    let attached = call(tour, language.tour(), json!({"what": "attach"})).await;
    let kept = call(tour, language.tour(), json!({"what": "file", "text": "wörds"})).await;
    let has = [
        succeeds(tour, language, json!({"what": "reread"})).await,
        reported.iter().any(|report| matches!(report, Report::Progress { progress: Some(_), .. })),
        reported.iter().any(|report| matches!(report, Report::Output(text) if text == "two\n")),
        asked.waiting.len() == 1,
        answered.result().is_some_and(|result| result.is_success()),
        server.take().iter().any(|head| head.contains(weather::KEY)),
        setting.result().is_some_and(|result| result.data == "metric"),
        succeeds(tour, language, json!({"what": "child", "text": "scout", "how": "Look."})).await,
        kept.result().is_some_and(|result| result.data == "wörds"),
        attached.result().is_some_and(|result| result.content.len() == 3),
    ];
    let cells: [&str; POWERS.len()] = has.map(|has| if has { "yes" } else { "no" });
    format!("| {} | {} |\n", shown(language.name), cells.join(" | "))
}

fn shown(name: &str) -> String {
    match name {
        "javascript" => "JavaScript".to_owned(),
        "typescript" => "TypeScript".to_owned(),
        name => name[..1].to_uppercase() + &name[1..],
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k14_the_table_of_powers_says_what_each_language_has() {
    let server = weather::Server::start().await;
    let weather = weather::host(&server.origin, &format!("{}/v1/", server.origin)).await;
    let files = tempfile::tempdir().unwrap();
    let grants = format!(
        "delegates = [{{ agent = \"scout\" }}]\nsettings = {{ units = \"metric\" }}\n\
         files = [{{ host = {:?}, guest = \"/files\", access = \"read-write\" }}]",
        files.path()
    );
    let turns = vec![ScriptedTurn::text("Here it is."); LANGUAGES.len()];
    let scout = Agent::new("scout", ScriptedModel::new(turns));
    let tour = tour::building(&grants).await.agent(scout).build().unwrap();
    let mut table = format!("| Language | {} |\n|{}\n", POWERS.join(" | "), "---|".repeat(POWERS.len() + 1));
    for language in &LANGUAGES {
        table.push_str(&row(language, &tour, &weather, &server).await);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/languages.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        fs::write(&file, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, table, "docs/languages.md is not what the tools do; write it anew: {BEGIN}");
}
