//! The agents of the day. Their model plays a script for each kind of request; it keeps nothing
//! between requests, so that a run can continue at any time.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::{Agent, Model, RunLimits, async_trait};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, TokenUsage};

/// The pause before a word of a reply, in microseconds. It is longer once people look.
pub(crate) static PACE_US: AtomicU64 = AtomicU64::new(300);

/// A model that answers by the words of the request.
struct Player;

#[async_trait]
impl Model for Player {
    fn name(&self) -> &str {
        "scripted-2"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let asked = request.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let asked = asked.unwrap_or(0);
        let prompt = match request.messages.get(asked) {
            Some(Message::User(text)) => text.as_str(),
            _ => "",
        };
        let turn = request.messages[asked..]
            .iter()
            .filter(|message| matches!(message, Message::Assistant(_)))
            .count();
        let failed = request
            .messages
            .last()
            .is_some_and(|last| matches!(last, Message::Answer(answer) if answer.is_error));
        if prompt.contains("weather") {
            return Err(ModelFault::permanent("The model `scripted-2` is not available in this region."));
        }
        let (text, calls) = script(prompt, turn, failed);
        for word in text.split_inclusive(' ') {
            tokio::time::sleep(Duration::from_micros(PACE_US.load(Ordering::Relaxed))).await;
            deltas(Delta::Text(word.to_owned()));
        }
        let length: usize = request.messages.iter().map(|message| format!("{message:?}").len()).sum();
        let input_tokens = 640 + length as u64 / 3;
        let output_tokens = 12 + text.len() as u64 / 3 + 40 * calls.len() as u64;
        Ok(ModelReply {
            message: AssistantMessage { text, reasoning: None, calls: Arc::new(calls) },
            usage: TokenUsage { input_tokens, output_tokens },
            ..ModelReply::default()
        })
    }
}

fn call(name: &str, arguments: Value) -> ModelCall {
    ModelCall { name: name.to_owned(), arguments: arguments.to_string(), ..ModelCall::default() }
}

/// The text and the calls of a turn.
type Line = (String, Vec<ModelCall>);

fn says(text: &str) -> Line {
    (text.to_owned(), Vec::new())
}

fn calls<const N: usize>(text: &str, calls: [ModelCall; N]) -> Line {
    (text.to_owned(), calls.to_vec())
}

/// Returns the text and the calls of a turn.
fn script(prompt: &str, turn: usize, failed: bool) -> Line {
    let has = |word: &str| prompt.contains(word);
    let order = prompt.split_whitespace().find(|word| word.starts_with("N-")).unwrap_or("N-2041");
    let order = order.trim_end_matches(['.', ',', '?', ':']);
    if failed && turn >= 2 {
        return says("That did not work, so I stopped here and left a note for the team.");
    }
    if prompt.starts_with("Edit") {
        return says("Returns: 30 days, free. Refunds: two working days. Gifts: exchange only.");
    }
    if has("refund") || has("money back") {
        let cents = order.bytes().map(u64::from).sum::<u64>() * 9;
        return refund(turn, order, if has("whole year") { 250_000 } else { cents });
    }
    match turn {
        _ if has("came back") => parcel(turn, order),
        _ if has("release") => release(turn),
        0 if has("stock") => {
            let articles = ["BK-110", "BK-220", "PN-031", "PN-077"];
            calls(
                "",
                articles.map(|sku| call("check_inventory", json!({"sku": format!("{sku}{}", prompt.len())}))),
            )
        }
        _ if has("stock") => {
            says("Everything is in stock except the fountain pen PN-077, which comes on Thursday.")
        }
        0 if has("Summarize") => calls(
            "",
            [call("search_docs", json!({"query": prompt})), call("write_summary", json!({"text": prompt}))],
        ),
        _ if has("Summarize") => says(
            "Three points: returns are free for 30 days, refunds take two working days, and gifts can be exchanged.",
        ),
        _ if has("forever") => calls("", [call("search_docs", json!({"query": format!("page {turn}")}))]),
        0 => calls("", [call("search_docs", json!({"query": prompt}))]),
        _ => says("The handbook says: orders before noon leave the same day. Returns are free for 30 days."),
    }
}

fn refund(turn: usize, order: &str, cents: u64) -> Line {
    match turn {
        0 => calls(
            "I look at the order first.",
            [
                call("find_order", json!({"order": order})),
                call("search_docs", json!({"query": "refund policy"})),
            ],
        ),
        1 => {
            let reason = "The notebook arrived with a bent cover.";
            calls("", [call("refund_payment", json!({"order": order, "cents": cents, "reason": reason}))])
        }
        2 => {
            let subject = format!("Your refund for {order}");
            let body = "The money is on its way.";
            let to = "customer@example.org";
            calls("", [call("send_email", json!({"to": to, "subject": subject, "body": body}))])
        }
        _ => says(&format!(
            "I refunded {}.{:02} EUR for the order {order} and wrote to the customer. The handbook allows it within 30 days.",
            cents / 100,
            cents % 100
        )),
    }
}

fn parcel(turn: usize, order: &str) -> Line {
    match turn {
        0 => calls("", [call("find_order", json!({"order": order}))]),
        1 => calls("", [call("ask_customer", json!({"order": order}))]),
        _ => says(&format!("The parcel for {order} goes out again today.")),
    }
}

fn release(turn: usize) -> Line {
    let deploy =
        |environment: &str| call("deploy", json!({"version": "2026.11.4", "environment": environment}));
    match turn {
        0 => calls("First the tests.", [call("run_tests", json!({"branch": "release"}))]),
        1 => calls("All green. Staging next.", [deploy("staging")]),
        2 => calls("", [deploy("production")]),
        _ => says("Version 2026.11.4 is live."),
    }
}

/// Returns the agents.
pub(crate) fn agents() -> Vec<Agent> {
    vec![
        Agent::new("support", Player)
            .with_description("Answers customers: orders, refunds and parcels.")
            .with_instructions("You work at the help desk of a stationery shop. Be brief and kind. Refund only what the handbook allows.")
            .with_tools(["find_order", "refund_payment", "search_docs", "send_email", "ask_customer", "check_inventory"])
            .with_limits(RunLimits { model_turns: 8, tokens: Some(40_000), ..RunLimits::default() }),
        Agent::new("release", Player)
            .with_description("Tests and deploys the shop.")
            .with_tools(["run_tests", "deploy", "search_docs"])
            .with_limits(RunLimits { model_turns: 6, ..RunLimits::default() }),
        Agent::new("librarian", Player)
            .with_description("Searches and summarizes the handbook.")
            .with_tools(["search_docs", "write_summary"])
            .with_limits(RunLimits { model_turns: 5, ..RunLimits::default() }),
        Agent::new("editor", Player).with_description("Writes summaries for other agents."),
    ]
}
