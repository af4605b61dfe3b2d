//! The routes of the protocols and of the server itself, as the OpenAPI document describes them.
//! Each protocol defines the bodies of its routes; the document has the part that the server reads
//! and writes.

use super::protocol_schemas::{reference, schemas};
use crate::parts::{Part, Parts};
use crate::problem::ProblemDocument;
use crate::scope::Scope;
use serde_json::{Map, Value, json};
use utoipa::ToSchema as _;

/// The name of the security scheme of keys.
pub(super) const KEY: &str = "key";

const JSON: &str = "application/json";
const A2A_JSON: &str = "application/a2a+json";
const EVENTS: &str = "text/event-stream";
const TEXT: &str = "text/plain";

/// The key that a route needs.
#[derive(Debug, Clone, Copy)]
enum RequiredKey {
    /// None: the route is public.
    None,
    /// Any valid key.
    Any,
    /// A key with this scope.
    Scope(Scope),
}

/// A group of routes with the same tag.
struct Group {
    /// The part of the server; `None` if it cannot be left out.
    part: Option<Part>,
    /// The name of the protocol and the address of its specification.
    specification: Option<(&'static str, &'static str)>,
    /// The schema of its errors as JSON.
    error: Option<&'static str>,
    routes: &'static [Route],
}

/// A route, as the document describes it.
#[derive(Debug, Clone, Copy)]
struct Route {
    method: &'static str,
    path: &'static str,
    key: RequiredKey,
    summary: &'static str,
    answers: &'static [RouteAnswers],
    body: RequestBody,
    /// The schema of its errors, if it is not that of its group.
    error: Option<&'static str>,
}

/// The body of a route's requests.
#[derive(Debug, Clone, Copy)]
enum RequestBody {
    None,
    /// A JSON object of any content, which is not read.
    Unread,
    /// A body of the schema with this name.
    Schema(&'static str),
}

/// A status, and the contents of its answers; none if it has no body.
type RouteAnswers = (u16, &'static [Content]);

/// A content type and the name of a schema; `None` for text and for events, each of which is described by the
/// specification.
type Content = (&'static str, Option<&'static str>);

impl Route {
    /// Describes a route without a body that needs the scope `use`.
    const fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answers: &'static [RouteAnswers],
    ) -> Self {
        let key = RequiredKey::Scope(Scope::Use);
        Self { method, path, key, summary, answers, body: RequestBody::None, error: None }
    }

    const fn with_error(self, schema: &'static str) -> Self {
        Self { error: Some(schema), ..self }
    }

    const fn for_key(self, key: RequiredKey) -> Self {
        Self { key, ..self }
    }
}

const fn get(path: &'static str, summary: &'static str, answers: &'static [RouteAnswers]) -> Route {
    Route::new("get", path, summary, answers)
}

/// Describes a POST request with a body of this schema.
const fn send(
    path: &'static str,
    body: &'static str,
    summary: &'static str,
    answers: &'static [RouteAnswers],
) -> Route {
    Route { body: RequestBody::Schema(body), ..Route::new("post", path, summary, answers) }
}

/// Describes a POST request that is always refused.
const fn refuse(path: &'static str, summary: &'static str) -> Route {
    Route { body: RequestBody::Unread, ..Route::new("post", path, summary, REFUSED) }
}

/// Describes a POST request without a body.
const fn act(path: &'static str, summary: &'static str, answers: &'static [RouteAnswers]) -> Route {
    Route::new("post", path, summary, answers)
}

const STREAM: Content = (EVENTS, None);
const IS_JSON: &[RouteAnswers] = &[(200, &[(JSON, None)])];
const IS_STREAM: &[RouteAnswers] = &[(200, &[STREAM])];
const IS_MODELS: &[RouteAnswers] = &[(200, &[(JSON, Some("ModelList"))])];
const IS_MODEL: &[RouteAnswers] = &[(200, &[(JSON, Some("Model"))])];
const IS_COMPLETION: &[RouteAnswers] = &[(200, &[(JSON, Some("ChatCompletion")), STREAM])];
const IS_RESPONSE: &[RouteAnswers] = &[(200, &[(JSON, Some("Response"))])];
const IS_RESPONSE_OR_STREAM: &[RouteAnswers] = &[(200, &[(JSON, Some("Response")), STREAM])];
const IS_INPUT: &[RouteAnswers] = &[(200, &[(JSON, Some("ResponseInput"))])];
const IS_SENT: &[RouteAnswers] = &[(200, &[(A2A_JSON, Some("A2aSent"))])];
const IS_TASKS: &[RouteAnswers] = &[(200, &[(A2A_JSON, Some("A2aTasks"))])];
const IS_TASK_OR_STREAM: &[RouteAnswers] = &[(200, &[(A2A_JSON, Some("A2aTask")), STREAM])];
const IS_RPC_OR_STREAM: &[RouteAnswers] = &[(200, &[(JSON, Some("A2aAnswer")), STREAM])];
const IS_CARD: &[RouteAnswers] = &[(200, &[(JSON, Some("AgentCard"))]), (304, &[])];
const IS_TEXT: &[RouteAnswers] = &[(200, &[(TEXT, None)])];
const IS_EMPTY: &[RouteAnswers] = &[(204, &[])];
/// The answers of a route that refuses every request.
const REFUSED: &[RouteAnswers] = &[];

const NO_PUSH: &str = "Refuse push notifications, which are not supported";
const PUSH: &str = "/a2a/{agent}/tasks/{task}/pushNotificationConfigs";
const PUSH_ONE: &str = "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}";

const GROUPS: [Group; 6] = [
    Group {
        part: None,
        specification: None,
        error: None,
        routes: &[
            get("/openapi.json", "Show this document", IS_JSON).for_key(RequiredKey::Any),
            get("/healthz", "Check whether the process is alive", IS_TEXT).for_key(RequiredKey::None),
            get(
                "/readyz",
                "Check whether the store can be used",
                &[(200, &[(TEXT, None)]), (503, &[(TEXT, None)])],
            )
            .for_key(RequiredKey::None),
        ],
    },
    Group {
        part: Some(Part::OpenAi),
        specification: Some(("OpenAI's API", "https://platform.openai.com/docs/api-reference")),
        error: Some("OpenAiError"),
        routes: &[
            get("/v1/models", "List the agents as models", IS_MODELS),
            get("/v1/models/{model}", "Show an agent as a model", IS_MODEL),
            send(
                "/v1/chat/completions",
                "ChatCompletionRequest",
                "Run an agent as a chat completion",
                IS_COMPLETION,
            ),
            send(
                "/v1/responses",
                "ResponseRequest",
                "Run an agent as a response, or answer its questions",
                IS_RESPONSE_OR_STREAM,
            ),
            refuse("/v1/responses/compact", "Refuse to compact a conversation"),
            get("/v1/responses/{id}", "Show a response", IS_RESPONSE),
            act("/v1/responses/{id}/cancel", "Cancel the run of a response", IS_RESPONSE),
            get("/v1/responses/{id}/input_items", "List the input of a response", IS_INPUT),
        ],
    },
    Group {
        part: Some(Part::AiSdk),
        specification: Some(("the AI SDK", "https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol")),
        error: None,
        routes: &[
            send(
                "/ai-sdk/{agent}",
                "AiSdkRequest",
                "Answer a chat's last message, or answer its questions",
                IS_STREAM,
            ),
            get(
                "/ai-sdk/{agent}/{chat}/stream",
                "Follow the message that is being written",
                &[(200, &[STREAM]), (204, &[])],
            ),
            act("/ai-sdk/{agent}/{chat}/stop", "Cancel the run of a chat", IS_EMPTY),
        ],
    },
    Group {
        part: Some(Part::AgUi),
        specification: Some(("AG-UI", "https://docs.ag-ui.com")),
        error: Some("AgUiError"),
        routes: &[send("/ag-ui/{agent}", "AgUiInput", "Run an agent, or answer its interrupts", IS_STREAM)],
    },
    Group {
        part: Some(Part::A2a),
        specification: Some(("A2A 1.0", "https://a2a-protocol.org/latest/specification/")),
        error: Some("A2aError"),
        routes: &[
            get("/.well-known/agent-card.json", "Show the card of the server", IS_CARD)
                .for_key(RequiredKey::None),
            get("/a2a/{agent}/.well-known/agent-card.json", "Show the card of an agent", IS_CARD),
            send(
                "/a2a/{agent}",
                "A2aCall",
                "Call a method by JSON-RPC; its errors have status 200",
                IS_RPC_OR_STREAM,
            )
            .with_error("A2aAnswer"),
            send("/a2a/{agent}/message:send", "A2aMessage", "Send a message", IS_SENT),
            send(
                "/a2a/{agent}/message:stream",
                "A2aMessage",
                "Send a message and follow its task",
                IS_STREAM,
            ),
            get("/a2a/{agent}/tasks", "List the tasks", IS_TASKS),
            get("/a2a/{agent}/tasks/{task}", "Show a task, or follow it (`:subscribe`)", IS_TASK_OR_STREAM),
            act(
                "/a2a/{agent}/tasks/{task}",
                "Cancel a task (`:cancel`), or follow it (`:subscribe`)",
                IS_TASK_OR_STREAM,
            ),
            get(PUSH, NO_PUSH, REFUSED),
            refuse(PUSH, NO_PUSH),
            get(PUSH_ONE, NO_PUSH, REFUSED),
            Route::new("delete", PUSH_ONE, NO_PUSH, REFUSED),
            get("/a2a/{agent}/extendedAgentCard", "Refuse an extended card, which no agent has", REFUSED),
        ],
    },
    Group {
        part: Some(Part::Mcp),
        specification: Some(("the Model Context Protocol", "https://modelcontextprotocol.io/specification")),
        error: None,
        routes: &[
            send(
                "/mcp",
                "McpMessage",
                "Send a message of a client",
                &[(200, &[(JSON, Some("McpAnswer")), STREAM]), (202, &[])],
            ),
            get("/mcp", "Receive the messages of a session", IS_STREAM),
            Route::new("delete", "/mcp", "End a session", IS_EMPTY),
        ],
    },
];

/// Adds the routes of the offered parts to a document, with their schemas.
pub(super) fn describe(document: &mut Value, parts: &Parts) {
    for group in GROUPS.iter().filter(|group| group.part.is_none_or(|part| parts.has(part))) {
        for route in group.routes {
            document["paths"][route.path][route.method] = operation(group, route);
        }
        let known = document["components"]["schemas"].as_object_mut();
        if let (Some(known), Some(part)) = (known, group.part) {
            known.extend(schemas(part));
        }
    }
}

fn operation(group: &Group, route: &Route) -> Value {
    let Route { method, path, key, summary, answers, body, error } = *route;
    let tag = group.part.map_or("server", Part::as_str);
    let words: Vec<&str> =
        path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut operation = json!({
        "tags": [tag],
        "summary": summary,
        "operationId": format!("{tag}_{method}_{}", words.join("_")),
        "security": match key {
            RequiredKey::None => json!([{}]),
            RequiredKey::Any => json!([{KEY: []}]),
            RequiredKey::Scope(scope) => json!([{KEY: [scope.as_str()]}]),
        },
        "parameters": path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(parameter).collect::<Value>(),
        "responses": answers.iter().map(|(status, contents)| (status.to_string(), response(contents))).collect::<Map<_, _>>(),
    });
    operation["responses"]["default"] = refusal(error.or(group.error));
    if let Some((name, address)) = group.specification {
        operation["description"] =
            format!("The requests and answers are defined by {name}: <{address}>.").into();
        operation["externalDocs"] =
            json!({"url": address, "description": format!("The specification of {name}")});
        let schema = match body {
            RequestBody::None => None,
            RequestBody::Unread => Some(json!({"type": "object"})),
            RequestBody::Schema(name) => Some(reference(name)),
        };
        if let Some(schema) = schema {
            let described = format!("A request as {name} defines it.");
            let content = json!({JSON: {"schema": schema}});
            operation["requestBody"] =
                json!({"description": described, "content": content, "required": true});
        }
    }
    operation
}

/// Returns a parameter of a path.
fn parameter((name, _): (&str, &str)) -> Value {
    let description = match name {
        "agent" | "model" => "The id of an agent",
        "chat" => "The id of a chat, which is a thread",
        "task" => "The id of a task, which is a run; `:cancel` or `:subscribe` may follow",
        _ => "The id",
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"}})
}

fn response(contents: &[Content]) -> Value {
    let words = if contents.is_empty() { "Done; there is no body" } else { "The answer" };
    let mut response = json!({"description": words});
    if !contents.is_empty() {
        let contents = contents.iter().map(|(kind, schema)| ((*kind).to_owned(), content(*schema)));
        response["content"] = contents.collect::<Map<_, _>>().into();
    }
    response
}

fn content(schema: Option<&str>) -> Value {
    schema.map_or_else(|| json!({}), |name| json!({"schema": reference(name)}))
}

/// Returns the answer to a request that is refused: the error of the protocol, or a problem document.
fn refusal(error: Option<&str>) -> Value {
    json!({
        "description": "The request is refused, with the error of the protocol or a problem document.",
        "content": {JSON: content(error), "application/problem+json": content(Some(ProblemDocument::name().as_ref()))},
    })
}
