//! The agents of the day. Their model plays a script for each kind of request; it keeps nothing
//! between requests, so that a run can continue at any time.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::tollgate_agent::message::{
    AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, TokenUsage,
};
use tollgate::{Agent, Model, RunLimits, async_trait};

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

/// Returns the text and the calls of a turn.
fn script(prompt: &str, turn: usize, failed: bool) -> (String, Vec<ModelCall>) {
    let order = prompt.split_whitespace().find(|word| word.starts_with("N-")).unwrap_or("N-2041");
    let order = order.trim_end_matches(['.', ',', '?', ':']);
    let cents = order.bytes().map(u64::from).sum::<u64>() * 9;
    let cents = if prompt.contains("whole year") { 250_000 } else { cents };
    let say = |text: &str| (text.to_owned(), Vec::new());
    if failed && turn >= 2 {
        return say("That did not work, so I stopped here and left a note for the team.");
    }
    match (prompt, turn) {
        (text, _) if text.starts_with("Edit") => {
            say("Returns: 30 days, free. Refunds: two working days. Gifts: exchange only.")
        }
        (text, 0) if text.contains("refund") || text.contains("money back") => (
            "I look at the order first.".to_owned(),
            vec![
                call("find_order", json!({"order": order})),
                call("search_docs", json!({"query": "refund policy"})),
            ],
        ),
        (text, 1) if text.contains("refund") || text.contains("money back") => (
            String::new(),
            vec![call(
                "refund_payment",
                json!({"order": order, "cents": cents, "reason": "The notebook arrived with a bent cover."}),
            )],
        ),
        (text, 2) if text.contains("refund") || text.contains("money back") => (
            String::new(),
            vec![call(
                "send_email",
                json!({"to": "customer@example.org", "subject": format!("Your refund for {order}"), "body": "The money is on its way."}),
            )],
        ),
        (text, _) if text.contains("refund") || text.contains("money back") => say(&format!(
            "I refunded {}.{:02} EUR for the order {order} and wrote to the customer. The handbook allows it within 30 days.",
            cents / 100,
            cents % 100
        )),
        (text, 0) if text.contains("came back") => {
            (String::new(), vec![call("find_order", json!({"order": order}))])
        }
        (text, 1) if text.contains("came back") => {
            (String::new(), vec![call("ask_customer", json!({"order": order}))])
        }
        (text, _) if text.contains("came back") => {
            say(&format!("The parcel for {order} goes out again today."))
        }
        (text, 0) if text.contains("release") || text.contains("Ship") => {
            ("First the tests.".to_owned(), vec![call("run_tests", json!({"branch": "release"}))])
        }
        (text, 1) if text.contains("release") || text.contains("Ship") => (
            "All green. Staging next.".to_owned(),
            vec![call("deploy", json!({"version": "2026.11.4", "environment": "staging"}))],
        ),
        (text, 2) if text.contains("release") || text.contains("Ship") => (
            String::new(),
            vec![call("deploy", json!({"version": "2026.11.4", "environment": "production"}))],
        ),
        (text, _) if text.contains("release") || text.contains("Ship") => say("Version 2026.11.4 is live."),
        (text, 0) if text.contains("stock") => (
            String::new(),
            ["BK-110", "BK-220", "PN-031", "PN-077"]
                .map(|sku| call("check_inventory", json!({"sku": format!("{sku}{}", prompt.len())})))
                .to_vec(),
        ),
        (text, _) if text.contains("stock") => {
            say("Everything is in stock except the fountain pen PN-077, which comes on Thursday.")
        }
        (text, 0) if text.contains("Summarize") => (
            String::new(),
            vec![call("search_docs", json!({"query": text})), call("write_summary", json!({"text": text}))],
        ),
        (text, _) if text.contains("Summarize") => say(
            "Three points: returns are free for 30 days, refunds take two working days, and gifts can be exchanged.",
        ),
        (text, _) if text.contains("forever") => {
            (String::new(), vec![call("search_docs", json!({"query": format!("page {turn}")}))])
        }
        (_, 0) => (String::new(), vec![call("search_docs", json!({"query": prompt}))]),
        _ => say("The handbook says: orders before noon leave the same day. Returns are free for 30 days."),
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
