//! Records a day of work: runs and calls of several people, with questions, failures and waits.

use super::clock::Shifted;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tollgate::run::RunEnd;
use tollgate::store::{AuditKind, AuditRecord, AuditStore};
use tollgate::{CallRequest, Decision, Host, RunRequest};

pub(crate) const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;
/// The number of runs that are in progress at once.
const AT_ONCE: usize = 12;

const PEOPLE: [&str; 5] = ["ada", "lin", "sam", "noor", "nightly"];

/// The requests: agent and prompt. `#` becomes an order's number.
const REQUESTS: [(&str, &str); 12] = [
    ("support", "A customer wants the money back for order #. The cover is bent."),
    ("support", "When does order # arrive?"),
    ("librarian", "Summarize the rules for returns."),
    ("support", "How many notebooks are in stock?"),
    ("support", "Can I still change the address of #?"),
    ("librarian", "What does the handbook say about gifts?"),
    ("support", "Please refund order #, it was sent twice."),
    ("support", "The parcel of order # came back. What now?"),
    ("librarian", "Are the offices open on Friday?"),
    ("support", "Is the fountain pen in stock again?"),
    ("release", "Ship the release of this week."),
    ("librarian", "Which papers are acid-free?"),
];

type Failed = Box<dyn Error + Send + Sync>;

/// Records the runs, and leaves some questions open.
pub(crate) async fn record(host: &Host, store: &Arc<Shifted>, runs: usize) -> Result<(), Box<dyn Error>> {
    let end = now_ms();
    store.record_audit(loaded(end)).await?;
    let mut in_progress = VecDeque::new();
    let mut turns: HashMap<String, Arc<tokio::sync::Mutex<()>>> = HashMap::new();
    for number in 0..runs {
        // The day has a morning, a lunch and an evening.
        let share = number as f64 / runs as f64;
        let hours = 23.5 * (1.0 - share.powf(0.8)) + 0.6 * (share * 40.0).sin().abs();
        let back_ms = (hours * HOUR_MS as f64) as u64 + 20 * MINUTE_MS;
        let person = PEOPLE[(number * 7 + number / 5) % PEOPLE.len()];
        let thread = format!("{person}/{}", thread_name(number));
        // One run of a conversation at a time.
        let turn = Arc::clone(turns.entry(thread.clone()).or_default()).lock_owned().await;
        store.set(&thread, back_ms);
        if number % 6 == 5 {
            let tool = ["check_inventory", "find_order", "search_docs"][number / 6 % 3];
            let (sku, order) = (format!("BK-{number}"), format!("N-{number}"));
            let arguments = json!({"sku": sku, "order": order, "query": format!("ink {number}")});
            let mut call = CallRequest::new(tool, &arguments)?.on_thread(thread);
            call.principal = Some(person.into());
            host.call(call).await?;
            continue;
        }
        let (agent, prompt) = request(number);
        let handle = host.run(request_of(person, agent, &prompt, &thread).detached()).await?;
        let (host, store) = (host.clone(), Arc::clone(store));
        in_progress.push_back(tokio::spawn(async move {
            let _turn = turn;
            let end = handle.wait().await?;
            decide(&host, &store, end, &thread, number, back_ms).await
        }));
        if in_progress.len() >= AT_ONCE
            && let Some(first) = in_progress.pop_front()
        {
            finished(first).await?;
        }
    }
    for rest in in_progress {
        finished(rest).await?;
    }
    leave_open(host, store).await
}

fn request_of(person: &str, agent: &str, prompt: &str, thread: &str) -> RunRequest {
    let mut request = RunRequest::new(agent, prompt).on_thread(thread);
    request.principal = Some(person.into());
    request
}

async fn finished(run: tokio::task::JoinHandle<Result<(), Failed>>) -> Result<(), Box<dyn Error>> {
    run.await?.map_err(|why| why.to_string().into())
}

fn thread_name(number: usize) -> String {
    // A few conversations are long.
    if number.is_multiple_of(9) {
        format!("desk-{}", number / 72)
    } else {
        format!("case-{}", 3_100 + number)
    }
}

fn request(number: usize) -> (&'static str, String) {
    let (agent, prompt) = match number {
        n if n % 61 == 17 => ("librarian", "What is the weather in the archive?"),
        n if n % 53 == 30 => ("librarian", "Read the handbook forever."),
        n if n % 47 == 11 => ("support", "Please refund the whole year of order #."),
        n => REQUESTS[(n * 5 + n / 12) % REQUESTS.len()],
    };
    (agent, prompt.replace('#', &format!("N-{}", 2_000 + number * 3)))
}

/// Answers the questions of a run, after a while.
async fn decide(
    host: &Host,
    store: &Shifted,
    mut end: RunEnd,
    thread: &str,
    number: usize,
    back_ms: u64,
) -> Result<(), Failed> {
    let mut waited_ms = 0;
    while let Some(asked) = end.waiting.first() {
        waited_ms += [3, 14, 47, 126, 8][number % 5] * MINUTE_MS / 2;
        store.set(thread, back_ms.saturating_sub(waited_ms));
        let target = asked.suspension_id.clone();
        let decision = if asked.tool_name == "ask_customer" {
            let address = serde_json::json!({"street": "Quay 4", "city": "Bergen", "postcode": "5003"});
            Decision::resume(
                target,
                serde_json::json!({"speed": "express", "notify": true, "address": address}),
            )
        } else if number % 7 == 3 {
            Decision::cancel(target).because("The order is older than 30 days.")
        } else {
            Decision::resume(target, true)
        };
        end = host.decide(&end.run_id, decision).await?.wait().await?;
    }
    Ok(())
}

/// Leaves questions open, and runs in progress.
async fn leave_open(host: &Host, store: &Shifted) -> Result<(), Box<dyn Error>> {
    for (minutes, agent, person, prompt) in [
        (131, "support", "noor", "The parcel of order N-2987 came back. What now?"),
        (38, "release", "sam", "Ship the release of this week."),
        (12, "support", "lin", "A customer wants the money back for order N-3010. The cover is bent."),
        (3, "support", "ada", "Please refund order N-3041, it was sent twice."),
    ] {
        let thread = format!("{person}/case-{}", 4_000 + minutes);
        store.set(&thread, minutes * MINUTE_MS);
        let mut end = host.run(request_of(person, agent, prompt, &thread)).await?.wait().await?;
        while agent == "release" && end.waiting.is_empty() {
            end = host.run(request_of(person, agent, prompt, &thread)).await?.wait().await?;
        }
    }
    let thread = "lin/case-4200";
    store.set(thread, 50 * MINUTE_MS);
    let prompt = "A customer wants the money back for order N-3017. The cover is bent.";
    let run = host.run(request_of("lin", "support", prompt, thread)).await?.wait().await?;
    host.cancel(&run.run_id, Some("it was cancelled by lin: sent to the wrong desk".to_owned())).await?;
    Ok(())
}

/// Returns the records that a start of the host writes.
fn loaded(now: u64) -> Vec<AuditRecord> {
    let at = |hours: u64| now - hours * HOUR_MS;
    vec![
        AuditRecord::at(at(23), AuditKind::Load, "host", "served")
            .of_file(Path::new("send-email.wasm"))
            .of_component("send-email", Some("9f2c41d7a0b3".into())),
        AuditRecord::at(at(22), AuditKind::Grant, "person", "granted")
            .of_component("send-email", None)
            .of_power("http POST https://mail.example.org/"),
        AuditRecord::at(at(21), AuditKind::Refusal, "host", "refused")
            .of_file(Path::new("old-notes.wasm"))
            .because("the component asks for more than was approved; run `tollgate grant notes`"),
    ]
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
