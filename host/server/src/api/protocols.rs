//! The routes of the protocols and of the server itself, as the OpenAPI document describes them.
//! Each protocol defines the bodies of its routes.

use super::document::KEY;
use crate::auth::Scope;
use crate::parts::{Part, Parts};
use crate::problem::ProblemDocument;
use serde_json::{Map, Value, json};
use utoipa::ToSchema as _;

const JSON: &str = "application/json";
const A2A_JSON: &str = "application/a2a+json";
const EVENTS: &str = "text/event-stream";
const TEXT: &str = "text/plain";

/// The credential that a route needs.
#[derive(Debug, Clone, Copy)]
enum Credential {
    /// None: the route is public.
    Public,
    /// Any valid key.
    AnyKey,
    /// A key with this scope.
    Key(Scope),
}

/// A group of routes with the same tag.
struct Group {
    /// The part of the server; `None` if it cannot be left out.
    part: Option<Part>,
    /// The name of the protocol and the address of its specification.
    specification: Option<(&'static str, &'static str)>,
    routes: &'static [Route],
}

/// A route: the method, the path, the credential, the summary, the kinds of its answers by status,
/// and whether it takes a body.
struct Route(&'static str, &'static str, Credential, &'static str, &'static [Answers], Body);

/// A status, and the content types of its answers; none if it has no body.
type Answers = (u16, &'static [&'static str]);

/// Whether a route takes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Json,
}

const USE: Credential = Credential::Key(Scope::Use);
const GROUPS: [Group; 6] = [
    Group {
        part: None,
        specification: None,
        routes: &[
            Route(
                "get",
                "/openapi.json",
                Credential::AnyKey,
                "Show this document",
                &[(200, &[JSON])],
                Body::None,
            ),
            Route(
                "get",
                "/healthz",
                Credential::Public,
                "Check whether the process is alive",
                &[(200, &[TEXT])],
                Body::None,
            ),
            Route(
                "get",
                "/readyz",
                Credential::Public,
                "Check whether the store can be used",
                &[(200, &[TEXT]), (503, &[TEXT])],
                Body::None,
            ),
        ],
    },
    Group {
        part: Some(Part::OpenAi),
        specification: Some(("OpenAI's API", "https://platform.openai.com/docs/api-reference")),
        routes: &[
            Route("get", "/v1/models", USE, "List the agents as models", &[(200, &[JSON])], Body::None),
            Route(
                "get",
                "/v1/models/{model}",
                USE,
                "Show one agent as a model",
                &[(200, &[JSON])],
                Body::None,
            ),
            Route(
                "post",
                "/v1/chat/completions",
                USE,
                "Run an agent as a chat completion",
                &[(200, &[JSON, EVENTS])],
                Body::Json,
            ),
            Route(
                "post",
                "/v1/responses",
                USE,
                "Run an agent as a response, or answer requests for approval",
                &[(200, &[JSON, EVENTS])],
                Body::Json,
            ),
            Route(
                "post",
                "/v1/responses/compact",
                USE,
                "Refuse to compact a conversation, which the server keeps",
                &[],
                Body::Json,
            ),
            Route("get", "/v1/responses/{id}", USE, "Show a response", &[(200, &[JSON])], Body::None),
            Route(
                "post",
                "/v1/responses/{id}/cancel",
                USE,
                "Cancel the run of a response",
                &[(200, &[JSON])],
                Body::None,
            ),
            Route(
                "get",
                "/v1/responses/{id}/input_items",
                USE,
                "List the input of a response",
                &[(200, &[JSON])],
                Body::None,
            ),
        ],
    },
    Group {
        part: Some(Part::AiSdk),
        specification: Some(("the AI SDK", "https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol")),
        routes: &[
            Route(
                "post",
                "/ai-sdk/{agent}",
                USE,
                "Answer the last message of a chat, or answer its questions",
                &[(200, &[EVENTS])],
                Body::Json,
            ),
            Route(
                "get",
                "/ai-sdk/{agent}/{chat}/stream",
                USE,
                "Follow the message that is being written",
                &[(200, &[EVENTS]), (204, &[])],
                Body::None,
            ),
            Route(
                "post",
                "/ai-sdk/{agent}/{chat}/stop",
                USE,
                "Cancel the run of a chat",
                &[(204, &[])],
                Body::None,
            ),
        ],
    },
    Group {
        part: Some(Part::AgUi),
        specification: Some(("AG-UI", "https://docs.ag-ui.com")),
        routes: &[Route(
            "post",
            "/ag-ui/{agent}",
            USE,
            "Run an agent, or answer its interrupts",
            &[(200, &[EVENTS])],
            Body::Json,
        )],
    },
    Group {
        part: Some(Part::A2a),
        specification: Some(("A2A 1.0", "https://a2a-protocol.org/latest/specification/")),
        routes: &[
            Route(
                "get",
                "/.well-known/agent-card.json",
                Credential::Public,
                "Show the card of the server",
                &[(200, &[JSON]), (304, &[])],
                Body::None,
            ),
            Route(
                "get",
                "/a2a/{agent}/.well-known/agent-card.json",
                USE,
                "Show the card of an agent",
                &[(200, &[JSON]), (304, &[])],
                Body::None,
            ),
            Route(
                "post",
                "/a2a/{agent}",
                USE,
                "Call a method by JSON-RPC; its errors have the status 200",
                &[(200, &[JSON, EVENTS])],
                Body::Json,
            ),
            Route(
                "post",
                "/a2a/{agent}/message:send",
                USE,
                "Send a message",
                &[(200, &[A2A_JSON])],
                Body::Json,
            ),
            Route(
                "post",
                "/a2a/{agent}/message:stream",
                USE,
                "Send a message and follow its task",
                &[(200, &[EVENTS])],
                Body::Json,
            ),
            Route("get", "/a2a/{agent}/tasks", USE, "List the tasks", &[(200, &[A2A_JSON])], Body::None),
            Route(
                "get",
                "/a2a/{agent}/tasks/{task}",
                USE,
                "Show a task; follow it if `:subscribe` is appended",
                &[(200, &[A2A_JSON, EVENTS])],
                Body::None,
            ),
            Route(
                "post",
                "/a2a/{agent}/tasks/{task}",
                USE,
                "Cancel a task, if `:cancel` is appended, or follow it, if `:subscribe` is",
                &[(200, &[A2A_JSON, EVENTS])],
                Body::None,
            ),
            Route(
                "get",
                "/a2a/{agent}/tasks/{task}/pushNotificationConfigs",
                USE,
                "Refuse push notifications, which are not supported",
                &[],
                Body::None,
            ),
            Route(
                "post",
                "/a2a/{agent}/tasks/{task}/pushNotificationConfigs",
                USE,
                "Refuse push notifications, which are not supported",
                &[],
                Body::Json,
            ),
            Route(
                "get",
                "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}",
                USE,
                "Refuse push notifications, which are not supported",
                &[],
                Body::None,
            ),
            Route(
                "delete",
                "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}",
                USE,
                "Refuse push notifications, which are not supported",
                &[],
                Body::None,
            ),
            Route(
                "get",
                "/a2a/{agent}/extendedAgentCard",
                USE,
                "Refuse an extended card, which no agent has",
                &[],
                Body::None,
            ),
        ],
    },
    Group {
        part: Some(Part::Mcp),
        specification: Some(("the Model Context Protocol", "https://modelcontextprotocol.io/specification")),
        routes: &[
            Route(
                "post",
                "/mcp",
                USE,
                "Send a message of a client",
                &[(200, &[JSON, EVENTS]), (202, &[])],
                Body::Json,
            ),
            Route("get", "/mcp", USE, "Receive the messages of a session", &[(200, &[EVENTS])], Body::None),
            Route("delete", "/mcp", USE, "End a session", &[(204, &[])], Body::None),
        ],
    },
];

/// Adds the routes of the offered parts to the paths of a document.
pub(super) fn describe(paths: &mut Map<String, Value>, parts: &Parts) {
    for group in GROUPS.iter().filter(|group| group.part.is_none_or(|part| parts.has(part))) {
        for route in group.routes {
            let Route(method, path, ..) = route;
            paths.entry(*path).or_insert_with(|| json!({}))[*method] = operation(group, route);
        }
    }
}

fn operation(group: &Group, route: &Route) -> Value {
    let Route(method, path, credential, summary, answers, body) = route;
    let tag = group.part.map_or("server", Part::as_str);
    let words: Vec<&str> =
        path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut operation = json!({
        "tags": [tag],
        "summary": summary,
        "operationId": format!("{tag}_{method}_{}", words.join("_")),
        "security": match credential {
            Credential::Public => json!([{}]),
            Credential::AnyKey => json!([{KEY: []}]),
            Credential::Key(scope) => json!([{KEY: [scope.as_str()]}]),
        },
        "parameters": path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(parameter).collect::<Value>(),
        "responses": answers.iter().map(|(status, kinds)| (status.to_string(), response(kinds))).collect::<Map<_, _>>(),
    });
    operation["responses"]["default"] = refusal();
    if let Some((name, address)) = group.specification {
        operation["description"] =
            format!("The requests and answers are defined by {name}: <{address}>.").into();
        operation["externalDocs"] =
            json!({"url": address, "description": format!("The specification of {name}")});
        if *body == Body::Json {
            let described = format!("A request as {name} defines it.");
            let content = json!({JSON: {"schema": {"type": "object"}}});
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
        "task" => "The id of a task, which is a run",
        _ => "The id",
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"}})
}

fn response(kinds: &[&str]) -> Value {
    let mut response =
        json!({"description": if kinds.is_empty() { "Done; there is no body" } else { "The answer" }});
    if !kinds.is_empty() {
        response["content"] =
            kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect::<Map<_, _>>().into();
    }
    response
}

/// Returns the answer to a request that is refused: the error of the protocol, or a problem document.
fn refusal() -> Value {
    let problem = format!("#/components/schemas/{}", ProblemDocument::name());
    json!({
        "description": "The request is refused, with the error of the protocol or a problem document.",
        "content": {JSON: {}, "application/problem+json": {"schema": {"$ref": problem}}},
    })
}
