//! The tools of the day, and the permission rules for them.

use serde_json::{Value, json};
use std::time::Duration;
use tollgate::plugins::{Effects, HookError, HookedCall, Hooks, Parts, Plugin, StateKey};
use tollgate::{
    ChildRequest, Fault, HostBuilder, NativeTool, Ticket, ToolCall, ToolDescriptor, ToolOutput, ToolResult,
    async_trait,
};
use tollgate_agent::descriptor::ExecutionPolicy;
use tollgate_agent::gate::permissions::{DefaultRule, Permissions, RuleSpec};
use tollgate_agent::outcome::ResumeMode;
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::KeyScope;

/// A tool that answers after a while.
struct DayTool {
    id: &'static str,
    description: &'static str,
    parameters: Value,
    category: &'static str,
    ms: u64,
}

#[async_trait]
impl NativeTool for DayTool {
    fn descriptor(&self) -> ToolDescriptor {
        let policy = ExecutionPolicy {
            timeout_ms: (self.id == "check-inventory").then_some(60),
            max_retries: Some(1),
            idempotent: self.id != "refund-payment",
            ..ExecutionPolicy::default()
        };
        ToolDescriptor::new(self.id, self.id.replace('-', "_"), self.description)
            .with_parameters(self.parameters.clone())
            .with_category(self.category)
            .with_execution(policy)
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let arguments = call.arguments().clone();
        let spread = arguments.to_string().bytes().fold(7_u64, |sum, byte| sum * 31 % 997 + u64::from(byte));
        let is_slow = self.id == "check-inventory" && spread.is_multiple_of(5) && call.attempt().attempt == 1;
        let ms = if is_slow { 200 } else { self.ms / 2 + spread % self.ms.max(1) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let result = match self.id {
            "ask-customer" => match call.attempt().resume {
                None => ToolResult::suspended_with(delivery_question(&arguments)),
                Some(decided) => {
                    ToolResult::success_with_message(decided.value.clone(), "The customer answered.")
                }
            },
            "write-summary" => {
                let request = ChildRequest::new(
                    "editor",
                    format!("Edit: {}", arguments["text"].as_str().unwrap_or_default()),
                );
                let child = call.context().run_child(request).await;
                match child.map(|outcome| outcome.response) {
                    Ok(Some(response)) => ToolResult::success(response),
                    Ok(None) => ToolResult::error("The editor gave no answer."),
                    Err(why) => ToolResult::error(why.to_string()),
                }
            }
            "send-email" if spread.is_multiple_of(11) => {
                ToolResult::error_with_code("mailbox_full", "The mailbox of the recipient is full.")
            }
            id => answer(id, &arguments, spread),
        };
        Ok(result.into())
    }
}

fn answer(id: &str, arguments: &Value, spread: u64) -> ToolResult {
    let order = arguments["order"].clone();
    let status = ["shipped", "paid", "returned"][spread as usize % 3];
    match id {
        "find-order" => ToolResult::success(json!({
            "order": order, "status": status,
            "total_cents": 1_900 + spread * 7, "currency": "EUR",
            "items": [{"sku": format!("BK-{spread}"), "title": "Field notebook, dotted", "count": 2}],
        })),
        "refund-payment" => ToolResult::success_with_message(
            json!({"refund": format!("re_{spread:05}"), "cents": arguments["cents"]}),
            "The refund was sent to the card.",
        ),
        "search-docs" => ToolResult::success(json!([
            {"title": "Returns and refunds", "url": "handbook/returns.md", "score": 0.92},
            {"title": "Shipping times", "url": "handbook/shipping.md", "score": 0.71},
        ])),
        "run-tests" => ToolResult::success(json!({"passed": 412, "failed": 0, "seconds": 38.5})),
        "deploy" => ToolResult::success(
            json!({"release": arguments["version"], "environment": arguments["environment"]}),
        ),
        "check-inventory" => ToolResult::success(json!({"sku": arguments["sku"], "available": spread % 40})),
        "send-email" => ToolResult::success_with_message(json!({"id": format!("m-{spread}")}), "Sent."),
        _ => ToolResult::success(json!({"ok": true})),
    }
}

fn delivery_question(arguments: &Value) -> Ticket {
    Ticket {
        action: "provide-address".to_owned(),
        message: format!(
            "The parcel for order {} came back. Where shall it go, and how fast?",
            arguments["order"].as_str().unwrap_or("?")
        ),
        parameters: json!({"carrier": "Nordpost", "returned_because": "address incomplete"}),
        response_schema: Some(json!({
            "type": "object",
            "required": ["speed", "notify"],
            "properties": {
                "speed": {"title": "Delivery", "enum": ["standard", "express", "pick-up point"], "default": "standard"},
                "address": {"type": "object", "title": "New address", "required": ["street", "city"], "properties": {
                    "street": {"type": "string", "minLength": 3, "maxLength": 80, "title": "Street and number"},
                    "city": {"type": "string", "maxLength": 60, "title": "City"},
                    "postcode": {"type": "string", "maxLength": 10, "title": "Postcode"},
                }},
                "notify": {"type": "boolean", "title": "Write to the customer", "default": true},
                "discount": {"type": "integer", "minimum": 0, "maximum": 20, "title": "Discount", "description": "Percent of the next order."},
            },
        })),
        resume_mode: ResumeMode::ReplayToolCall,
    }
}

/// Adds the tools to a host.
pub(crate) fn with_tools(builder: HostBuilder) -> HostBuilder {
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let order = json!({"order": {"type": "string", "description": "The order's number, such as N-2041."}});
    let text = |name: &str| json!({name: {"type": "string"}});
    let tools = [
        ("find-order", "Finds an order by its number.", object(order.clone(), &["order"]), "orders", 40),
        (
            "refund-payment",
            "Refunds a part of an order's payment. Not idempotent: each call is a refund.",
            object(
                json!({
                    "order": {"type": "string"}, "cents": {"type": "integer", "minimum": 1, "description": "Amount in cents."},
                    "reason": {"type": "string"},
                }),
                &["order", "cents"],
            ),
            "payments",
            70,
        ),
        ("search-docs", "Searches the handbook.", object(text("query"), &["query"]), "knowledge", 30),
        (
            "send-email",
            "Sends an email to a customer.",
            object(
                json!({"to": {"type": "string", "format": "email"}, "subject": {"type": "string"}, "body": {"type": "string"}}),
                &["to", "subject"],
            ),
            "mail",
            60,
        ),
        (
            "check-inventory",
            "Counts the pieces of an article in the warehouse.",
            object(text("sku"), &["sku"]),
            "orders",
            25,
        ),
        ("run-tests", "Runs the tests of a branch.", object(text("branch"), &["branch"]), "release", 160),
        (
            "deploy",
            "Deploys a version to an environment.",
            object(
                json!({"version": {"type": "string"}, "environment": {"enum": ["staging", "production"]}}),
                &["version", "environment"],
            ),
            "release",
            120,
        ),
        (
            "ask-customer",
            "Asks the person at the desk for a new delivery address.",
            object(order, &["order"]),
            "orders",
            15,
        ),
        (
            "write-summary",
            "Lets the editor write a summary.",
            object(text("text"), &["text"]),
            "knowledge",
            10,
        ),
    ];
    tools.into_iter().fold(builder, |builder, (id, description, parameters, category, ms)| {
        builder.tool(DayTool { id, description, parameters, category, ms })
    })
}

/// Returns the permission rules: refunds and deployments are asked about, and one tool is denied.
pub(crate) fn permissions() -> Result<Permissions, Box<dyn std::error::Error>> {
    let large = RuleSpec {
        at: Some("/cents".to_owned()),
        matches: Some("^[0-9]{5,}$".to_owned()),
        ..RuleSpec::of_tool("refund_payment")
    };
    Ok(Permissions::new(DefaultRule::Allow)
        .ask(RuleSpec::of_tool("refund_payment"))?
        .ask(RuleSpec {
            at: Some("/environment".to_owned()),
            glob: Some("production".to_owned()),
            ..RuleSpec::of_tool("deploy")
        })?
        .deny(large)?)
}

/// The refunds of a conversation, in cents.
struct Refunded;

impl StateKey for Refunded {
    const NAME: &'static str = "ledger.refunded";
    const COMMUTES: bool = true;
    const PERSISTENT: bool = true;
    const SCOPE: KeyScope = KeyScope::Thread;
    type Value = u64;
    type Update = u64;

    fn apply(refunded: &mut u64, cents: u64) {
        *refunded += cents;
    }
}

/// Sums up refunds.
pub(crate) struct Ledger;

impl Plugin for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.state::<Refunded>().hooks(Ledger);
    }
}

#[async_trait]
impl Hooks for Ledger {
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let Some(CallEnd::Result(result)) = call.end else { return Ok(Effects::none()) };
        let cents = result.data["cents"].as_u64().filter(|_| result.data["refund"].is_string());
        Ok(cents.map_or_else(Effects::none, |cents| Effects::none().update::<Refunded>(cents)))
    }
}
