//! Measures a round trip of OpenAI's chat completions beside the native API's:
//! `scripts/bench protocols`.

use crate::client::Client;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::{Agent, FnTool, Host, Model, async_trait};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};

const ROUNDS: usize = 300;

/// Calls the tool `echo` once, without delay.
struct Quick;

#[async_trait]
impl Model for Quick {
    fn name(&self) -> &str {
        "quick"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let mut message = AssistantMessage::default();
        match request.messages.last() {
            Some(Message::Answer(_)) => {
                deltas(Delta::Text("It is done.".to_owned()));
                message.text = "It is done.".to_owned();
            }
            _ => {
                let arguments = json!({"text": "hello"}).to_string();
                let call = ModelCall { name: "echo".to_owned(), arguments, ..ModelCall::default() };
                message.calls = Arc::new(vec![call]);
            }
        }
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn round_trips() {
    let echo = FnTool::new("echo", "echo", "Echoes.", |arguments: Value, _| async move { arguments });
    let host = Host::builder().tool(echo).agent(Agent::new("assistant", Quick).with_tools(["*"]));
    let client = Client::serving(host.build().unwrap()).await;
    let chat = |stream: bool| json!({"model": "assistant", "stream": stream, "messages": [{"role": "user", "content": "Go."}]});
    let native = json!({"agent": "assistant", "input": "Go."});
    let send = async |path: &str, body: &Value, stream: bool| {
        let request = client.request(Method::POST, path).json(body);
        let request = if stream { request.header("Accept", "text/event-stream") } else { request };
        let began = Instant::now();
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains("It is done."), "{text}");
        began.elapsed()
    };
    println!("| one turn with one call | native | openai | ratio |\n|---|---:|---:|---:|");
    for (name, stream) in [("answered whole", false), ("streamed", true)] {
        let (mut ours, mut openai) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 20 {
            let one = send("/api/v1/runs", &native, stream).await;
            let other = send("/v1/chat/completions", &chat(stream), stream).await;
            if round >= 20 {
                ours.push(one);
                openai.push(other);
            }
        }
        let (ours, openai) = (median(&mut ours), median(&mut openai));
        println!("| {name} | {ours:.0} us | {openai:.0} us | {:.2} |", openai / ours);
    }
}
