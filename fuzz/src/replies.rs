//! Fuzzes replies of model providers. The first byte selects the provider and the content type;
//! the rest is the body, sent by a server on this machine. The same text is also searched for
//! calls that are written as text.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate::models::{Model, ModelConfig};
use tollgate_agent::message::{AssistantMessage, Finish, Message, ModelReply, ModelRequest, TokenUsage};
use tollgate_agent::text_calls;

const PROVIDERS: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];
const STATUSES: [&str; 4] = ["200 OK", "200 OK", "429 Too Many Requests", "400 Bad Request"];

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, body)) = bytes.split_first() else { return };
    if let Ok(text) = std::str::from_utf8(body) {
        read_as_text(text);
    }
    let asked = asked();
    let provider = usize::from(*choice) % PROVIDERS.len();
    let status = STATUSES[usize::from(*choice) / PROVIDERS.len() % STATUSES.len()];
    let kind = if provider == 3 { "application/x-ndjson" } else { "text/event-stream" };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    *asked.answer.lock().unwrap_or_else(PoisonError::into_inner) = [head.as_bytes(), body].concat();
    let request = ModelRequest {
        messages: Arc::new(vec![Message::User("Hello".to_owned())]),
        ..ModelRequest::default()
    };
    let reply = crate::runtime().block_on(asked.models[provider].reply(request, &mut |_| ()));
    match reply {
        // Every byte of a reply adds at most a few bytes to the parsed reply.
        Ok(reply) => assert!(size(&reply) <= 64 * (body.len() + 64), "{} bytes", size(&reply)),
        Err(fault) => assert!(fault.message().len() <= 8 << 10, "words of {} bytes", fault.message().len()),
    }
}

fn read_as_text(text: &str) {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    let reply = ModelReply {
        message,
        finish: Finish::Stop,
        usage: TokenUsage::default(),
        model: None,
        correction: None,
    };
    let read = text_calls::read(reply);
    assert!(size(&read) <= 4 * (text.len() + 256), "{} bytes of {}", size(&read), text.len());
    if read.message.calls.is_empty() && read.correction.is_none() {
        assert_eq!(read.message.text, text.trim(), "text without calls is changed");
    }
}

fn size(reply: &ModelReply) -> usize {
    let calls: usize =
        reply.message.calls.iter().map(|call| call.name.len() + call.arguments.len() + 1).sum();
    reply.message.text.len() + reply.message.reasoning.as_ref().map_or(0, String::len) + calls
}

/// The models, and the reply that all of them receive.
struct AskedModels {
    models: Vec<Arc<dyn Model>>,
    answer: Arc<Mutex<Vec<u8>>>,
}

fn asked() -> &'static AskedModels {
    static ASKED: OnceLock<AskedModels> = OnceLock::new();
    ASKED.get_or_init(|| {
        let listener = crate::runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        crate::runtime().spawn(serve(listener, Arc::clone(&answer)));
        let model = |provider| {
            let text = format!(
                "provider = \"{provider}\"\nmodel = \"fuzzed\"\nbase_url = \"{url}\"\napi_key_env = \"KEY\"\n[retry]\nmax_attempts = 1"
            );
            let config: ModelConfig = toml::from_str(&text).unwrap();
            config.build(std::path::Path::new("."), |_| Some("key".to_owned())).unwrap()
        };
        AskedModels { models: PROVIDERS.into_iter().map(model).collect(), answer }
    })
}

async fn serve(listener: TcpListener, answer: Arc<Mutex<Vec<u8>>>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(converse(client, Arc::clone(&answer)));
    }
}

/// Answers one request after another, so that connections are kept alive.
async fn converse(mut client: TcpStream, answer: Arc<Mutex<Vec<u8>>>) -> Option<()> {
    let mut heard = Vec::new();
    loop {
        while let Some(length) = unheard(&heard) {
            if length > 0 && client.read_buf(&mut heard).await.ok()? == 0 {
                return None;
            }
        }
        heard.clear();
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.write_all(&answer).await.ok()?;
    }
}

/// Returns how many bytes of a request are still missing, at least; `None` if it is complete.
fn unheard(heard: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(heard).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Some(1) };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    Some(length.saturating_sub(body.len())).filter(|left| *left > 0)
}
