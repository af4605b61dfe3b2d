//! The two bindings of the protocol: how a card names them, where a method's request goes, and
//! where its answer has the result.

use super::error::RemoteError;
use super::task::MAX_ID_BYTES;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

/// How requests and answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    HttpJson,
}

/// The address of an agent and how to speak to it, as its card says.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    url: Url,
    binding: Binding,
    /// The tenant that each request names.
    tenant: Option<String>,
    pub(super) streams: bool,
}

/// A method, with its parameters or with the id of its task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Method<'a> {
    SendMessage(&'a Value),
    SendStreamingMessage(&'a Value),
    GetTask(&'a str),
    SubscribeToTask(&'a str),
    CancelTask(&'a str),
}

/// An address in a card.
struct Interface<'a> {
    url: &'a str,
    tenant: &'a str,
    binding: &'a str,
    version: &'a str,
}

impl Endpoint {
    /// Returns the endpoint of a card: JSON-RPC if the card offers it, else HTTP+JSON. It must be on
    /// the configured host: a card is no reason to send a token, or anything else, to another one.
    pub(super) fn of(card: &Value, configured: &Url) -> Result<Self, RemoteError> {
        let interfaces = interfaces(card);
        let by = |binding, name| {
            let fits = |interface: &&Interface<'_>| interface.binding == name && interface.is_1();
            interfaces.iter().find(fits).map(|interface| (binding, interface))
        };
        let Some((binding, interface)) =
            by(Binding::JsonRpc, "JSONRPC").or_else(|| by(Binding::HttpJson, "HTTP+JSON"))
        else {
            let mut offered: Vec<String> = interfaces.iter().map(Interface::shown).collect();
            offered.dedup();
            let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
            let why = "its card has no interface for A2A 1.0 by JSONRPC or HTTP+JSON";
            return Err(RemoteError::malformed(format!("{why}; it offers {offered}")));
        };
        let named = interface.url;
        let url = configured.join(named).map_err(|why| {
            RemoteError::malformed(format!("its card names an address that is not a URL: {why}"))
        })?;
        if url.origin() != configured.origin() || !url.username().is_empty() || url.password().is_some() {
            let why = format!("its card names the address {named}, which is not on the configured host");
            return Err(RemoteError::malformed(why));
        }
        if interface.tenant.len() > MAX_ID_BYTES {
            let why = format!("its card names a tenant of more than {MAX_ID_BYTES} bytes");
            return Err(RemoteError::malformed(why));
        }
        let tenant = Some(interface.tenant.to_owned()).filter(|tenant| !tenant.is_empty());
        Ok(Self { url, binding, tenant, streams: card["capabilities"]["streaming"] == true })
    }

    /// Returns the request of a method, without the headers that all requests have.
    pub(super) fn request(&self, http: &Client, method: Method<'_>) -> Result<RequestBuilder, RemoteError> {
        let (url, body) = match self.binding {
            Binding::JsonRpc => {
                let (name, mut params) = method.rpc();
                if let Some(tenant) = &self.tenant {
                    params["tenant"] = json!(tenant);
                }
                let call = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": params});
                (self.url.clone(), call.to_string())
            }
            Binding::HttpJson => match method {
                Method::GetTask(id) => {
                    let mut url = self.below(&format!("tasks/{}", segment(id)?))?;
                    url.query_pairs_mut().append_pair("historyLength", "0");
                    return Ok(http.get(url));
                }
                Method::SendMessage(params) => (self.below("message:send")?, params.to_string()),
                Method::SendStreamingMessage(params) => (self.below("message:stream")?, params.to_string()),
                Method::SubscribeToTask(id) => {
                    (self.below(&format!("tasks/{}:subscribe", segment(id)?))?, "{}".to_owned())
                }
                Method::CancelTask(id) => {
                    (self.below(&format!("tasks/{}:cancel", segment(id)?))?, "{}".to_owned())
                }
            },
        };
        Ok(http.post(url).header(CONTENT_TYPE, "application/json").body(body))
    }

    /// Returns the result in an answer that is not an error.
    pub(super) fn result(&self, mut answer: Value) -> Result<Value, RemoteError> {
        let result = match self.binding {
            Binding::JsonRpc => answer.get_mut("result").map(Value::take),
            Binding::HttpJson => Some(answer),
        };
        result.filter(Value::is_object).ok_or_else(|| RemoteError::malformed("its answer has no result"))
    }

    /// Returns the address of a path below the endpoint and its tenant.
    fn below(&self, path: &str) -> Result<Url, RemoteError> {
        let mut base = self.url.path().trim_end_matches('/').to_owned();
        if let Some(tenant) = &self.tenant {
            base = format!("{base}/{}", segment(tenant)?);
        }
        let mut url = self.url.clone();
        url.set_path(&format!("{base}/{path}"));
        Ok(url)
    }
}

impl Method<'_> {
    /// Returns the name and the parameters for JSON-RPC.
    fn rpc(self) -> (&'static str, Value) {
        match self {
            Self::SendMessage(params) => ("SendMessage", params.clone()),
            Self::SendStreamingMessage(params) => ("SendStreamingMessage", params.clone()),
            Self::GetTask(id) => ("GetTask", json!({"id": id, "historyLength": 0})),
            Self::SubscribeToTask(id) => ("SubscribeToTask", json!({"id": id})),
            Self::CancelTask(id) => ("CancelTask", json!({"id": id})),
        }
    }
}

impl Interface<'_> {
    fn is_1(&self) -> bool {
        self.version == "1" || self.version.starts_with("1.")
    }

    fn shown(&self) -> String {
        match self.version {
            "" => format!("{} of an unnamed version", self.binding),
            version => format!("{} of A2A {version}", self.binding),
        }
    }
}

/// Returns the interfaces of a card, the preferred one first.
fn interfaces(card: &Value) -> Vec<Interface<'_>> {
    let list = |name| card[name].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let interfaces: Vec<_> = list("supportedInterfaces")
        .map(|interface| Interface {
            url: text(&interface["url"]),
            tenant: text(&interface["tenant"]),
            binding: text(&interface["protocolBinding"]),
            version: text(&interface["protocolVersion"]),
        })
        .collect();
    if !interfaces.is_empty() {
        return interfaces;
    }
    // Cards of earlier versions have one version, and name the first address apart from the others.
    let version = text(&card["protocolVersion"]);
    let binding = card["preferredTransport"].as_str().unwrap_or("JSONRPC");
    let first = card["url"].as_str().map(|url| Interface { url, tenant: "", binding, version });
    let others = list("additionalInterfaces").map(|interface| Interface {
        url: text(&interface["url"]),
        tenant: "",
        binding: text(&interface["transport"]),
        version,
    });
    first.into_iter().chain(others).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns an id as one segment of a path.
fn segment(id: &str) -> Result<String, RemoteError> {
    if matches!(id, "." | "..") {
        return Err(RemoteError::malformed(format!("its id {id} cannot be a segment of a path")));
    }
    let mut segment = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn interface(url: &str, binding: &str, version: &str) -> Value {
        json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
    }

    fn endpoint(card: &Value) -> Result<Endpoint, String> {
        let configured = Url::parse("https://agents.example.com/a2a/one").unwrap();
        Endpoint::of(card, &configured).map_err(|why| why.to_string())
    }

    fn of(interfaces: &[Value]) -> Result<Endpoint, String> {
        endpoint(&json!({"supportedInterfaces": interfaces, "capabilities": {"streaming": true}}))
    }

    #[test]
    fn a_card_names_an_address_on_the_configured_host_only() {
        for binding in ["JSONRPC", "HTTP+JSON"] {
            let at = |url: &str| of(&[interface(url, binding, "1.0")]);
            assert_eq!(at("https://agents.example.com/rpc").unwrap().url.path(), "/rpc");
            assert!(at("/rpc").unwrap().streams);
            for elsewhere in [
                "https://other.example.com/rpc",
                "http://agents.example.com/rpc",
                "https://agents.example.com:8443/rpc",
                "https://a:b@agents.example.com/rpc",
                "file:///etc/passwd",
                "//169.254.169.254/latest",
            ] {
                assert!(at(elsewhere).is_err(), "{elsewhere}");
            }
        }
    }

    #[test]
    fn json_rpc_is_preferred() {
        let grpc = interface("/grpc", "GRPC", "1.0");
        let http = interface("/http", "HTTP+JSON", "1.0");
        let rpc = interface("/rpc", "JSONRPC", "1.1");
        let chosen = of(&[grpc.clone(), http.clone(), rpc]).unwrap();
        assert_eq!((chosen.binding, chosen.url.path()), (Binding::JsonRpc, "/rpc"));
        let chosen = of(&[grpc, interface("/rpc", "JSONRPC", "0.3"), http]).unwrap();
        assert_eq!((chosen.binding, chosen.url.path()), (Binding::HttpJson, "/http"));
        let chosen = endpoint(&json!({
            "url": "/grpc", "preferredTransport": "GRPC", "protocolVersion": "1.0",
            "additionalInterfaces": [{"url": "/http", "transport": "HTTP+JSON"}],
        }));
        let chosen = chosen.unwrap();
        assert_eq!((chosen.binding, chosen.url.path(), chosen.streams), (Binding::HttpJson, "/http", false));
    }

    #[test]
    fn a_card_without_a_usable_interface_is_refused_with_what_it_offers() {
        let old = json!({
            "url": "/", "protocolVersion": "0.3.0", "additionalInterfaces": [
                {"url": "/", "transport": "JSONRPC"}, {"url": "/http", "transport": "HTTP+JSON"}],
        });
        for (card, offered) in [
            (json!({"supportedInterfaces": [interface("/", "GRPC", "1.0")]}), "it offers GRPC of A2A 1.0"),
            (old, "it offers JSONRPC of A2A 0.3.0, HTTP+JSON of A2A 0.3.0"),
            (json!({"url": "/"}), "it offers JSONRPC of an unnamed version"),
            (json!([]), "it offers nothing"),
            (json!({"supportedInterfaces": "JSONRPC"}), "it offers nothing"),
        ] {
            let error = endpoint(&card).unwrap_err();
            assert!(error.contains("A2A 1.0 by JSONRPC or HTTP+JSON") && error.ends_with(offered), "{error}");
        }
        let long = of(&[interface("/", &"\u{1b}x".repeat(10_000), "1.0")]).unwrap_err();
        assert!(long.len() < 600 && !long.contains('\u{1b}'), "{long}");
    }

    fn client(endpoint: &Endpoint) -> Client {
        crate::models::http_client(&endpoint.url, std::time::Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn http_paths_hold_any_id() {
        let endpoint = of(&[interface("/a2a/one/?key=1", "HTTP+JSON", "1.0")]).unwrap();
        let http = client(&endpoint);
        let address = |method: Method<'_>| {
            let request = endpoint.request(&http, method).unwrap().build().unwrap();
            let (method, url) = (request.method().clone(), request.url());
            format!("{method} {}?{}", url.path(), url.query().unwrap_or_default())
        };
        assert_eq!(address(Method::SendMessage(&json!({}))), "POST /a2a/one/message:send?key=1");
        assert_eq!(address(Method::GetTask("t-1")), "GET /a2a/one/tasks/t-1?key=1&historyLength=0");
        assert_eq!(
            address(Method::CancelTask("../x?y#z:é")),
            "POST /a2a/one/tasks/..%2Fx%3Fy%23z%3A%C3%A9:cancel?key=1"
        );
        assert_eq!(address(Method::SubscribeToTask("...")), "POST /a2a/one/tasks/...:subscribe?key=1");
        assert_eq!(
            address(Method::GetTask("%2e%2e\t")),
            "GET /a2a/one/tasks/%252e%252e%09?key=1&historyLength=0"
        );
        assert!(endpoint.request(&http, Method::GetTask("..")).is_err());
    }

    #[test]
    fn every_request_names_the_tenant_of_the_card() {
        let message = json!({"message": {}});
        let methods = [
            Method::SendMessage(&message),
            Method::SendStreamingMessage(&message),
            Method::GetTask("t"),
            Method::SubscribeToTask("t"),
            Method::CancelTask("t"),
        ];
        for (binding, named) in [("JSONRPC", r#""tenant":"a b""#), ("HTTP+JSON", "/one/a%20b/")] {
            let mut interface = interface("/one", binding, "1.0");
            interface["tenant"] = json!("a b");
            let endpoint = of(&[interface]).unwrap();
            let http = client(&endpoint);
            for method in methods {
                let request = endpoint.request(&http, method).unwrap().build().unwrap();
                let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
                let sent = format!("{} {}", request.url(), String::from_utf8_lossy(body));
                assert!(sent.contains(named), "{sent}");
            }
        }
        for (tenant, why) in
            [("t".repeat(300), "a tenant of more than"), ("..".to_owned(), "a segment of a path")]
        {
            let mut interface = interface("/one", "HTTP+JSON", "1.0");
            interface["tenant"] = json!(tenant);
            let request = of(&[interface]).and_then(|endpoint| {
                endpoint.request(&client(&endpoint), Method::GetTask("t")).map_err(|why| why.to_string())
            });
            assert!(request.unwrap_err().contains(why), "{why}");
        }
    }
}
