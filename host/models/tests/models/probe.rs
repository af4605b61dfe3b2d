//! Asking a provider for its models.

use crate::KEY;
use crate::server::{Reply, Server};
use serde_json::{Value, json};
use std::time::Duration;
use tollgate_models::{ModelConfig, ModelFault, Probe};

const LIMIT: Duration = Duration::from_secs(5);

async fn probe(provider: &str, url: &str, model: &str) -> Result<Probe, ModelFault> {
    let text = format!(
        "provider = \"{provider}\"\nbase_url = \"{url}\"\napi_key_env = \"KEY\"\nmodel = \"{model}\""
    );
    let config: ModelConfig = toml::from_str(&text).unwrap();
    config.probe(|name| (name == "KEY").then(|| KEY.to_owned()), LIMIT).await.unwrap()
}

async fn found(provider: &str, list: Value, model: &str) -> (Probe, String, String) {
    let server = Server::new(vec![Reply::ok().bytes(list.to_string())]).await;
    let probe = probe(provider, &server.url, model).await.unwrap();
    let seen = &server.seen()[0];
    let key = ["authorization", "x-api-key", "x-goog-api-key"]
        .into_iter()
        .find_map(|name| Some(format!("{name}: {}", seen.headers.get(name)?.to_str().unwrap())));
    (probe, seen.path.clone(), key.unwrap_or_default())
}

#[tokio::test]
async fn each_provider_lists_its_models_in_its_own_way() {
    let data = json!({"data": [{"id": "one"}, {"id": "two-20250929"}]});
    let named = |name: &str| json!({"models": [{"name": name}]});
    for (provider, list, model, path, key) in [
        ("openai", data.clone(), "one", "/v1/models", "authorization: Bearer sk-very-secret"),
        ("anthropic", data, "two-latest", "/v1/models?limit=1000", "x-api-key: sk-very-secret"),
        ("gemini", named("models/g-1"), "g-1", "/v1/models?pageSize=1000", "x-goog-api-key: sk-very-secret"),
        ("ollama", named("qwen3:latest"), "qwen3", "/v1/api/tags", "authorization: Bearer sk-very-secret"),
    ] {
        let (probe, asked, sent) = found(provider, list, model).await;
        assert_eq!(probe, Probe::Ready, "{provider}");
        assert_eq!((asked.as_str(), sent.as_str()), (path, key), "{provider}");
    }
    let (probe, ..) = found("ollama", named("llama:8b"), "qwen3").await;
    assert_eq!(probe, Probe::Lacks(vec!["llama:8b".to_owned()]));
    for odd in [json!([]), json!({"data": 1}), json!("x"), json!({"data": []})] {
        assert_eq!(found("openai", odd, "one").await.0, Probe::Unlisted);
    }
}

#[tokio::test]
async fn a_refusal_names_the_setting_to_correct_and_never_the_key() {
    for (status, words) in
        [(401, "environment variable KEY"), (503, "The provider answered 503"), (403, "answered 403")]
    {
        let server = Server::new(vec![Reply::status(status).bytes(KEY)]).await;
        let fault = probe("openai", &server.url, "one").await.unwrap_err();
        assert!(fault.message().contains(words) && !fault.message().contains(KEY), "{fault}");
    }
    let server = Server::new(vec![Reply::status(404), Reply::status(404)]).await;
    assert_eq!(probe("openai", &server.url, "one").await, Ok(Probe::Unlisted));
    let fault = probe("openai", server.url.trim_end_matches("/v1"), "one").await.unwrap_err();
    assert!(fault.message().contains("`base_url` in [model] may lack its path"), "{fault}");
    let fault = probe("openai", "http://127.0.0.1:1/v1", "one").await.unwrap_err();
    assert!(fault.message().contains("cannot be reached at http://127.0.0.1:1"), "{fault}");
    let recorded: ModelConfig = toml::from_str("provider = \"recorded\"\nfile = \"turns.toml\"").unwrap();
    assert!(recorded.probe(|_| None, LIMIT).await.is_none());
}
