#![allow(clippy::unwrap_used)]

use super::*;

fn config(text: &str) -> ModelConfig {
    toml::from_str(text).unwrap()
}

fn refusal(text: &str) -> String {
    let built = config(text).build(Path::new("."), |name| (name == "GOOD_KEY").then(|| "sk-1".to_owned()));
    built.err().unwrap().to_string()
}

#[cfg(feature = "providers")]
#[test]
fn a_missing_key_is_answered_with_the_line_to_type() {
    assert_eq!(
        refusal("provider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\""),
        "the model `claude-sonnet-4-5` needs an API key, and the environment variable \
         ANTHROPIC_API_KEY is not set; type `export ANTHROPIC_API_KEY=...`, or name another \
         variable: `api_key_env = \"...\"` in [model]"
    );
}

#[cfg(feature = "providers")]
#[test]
fn a_customary_key_is_never_sent_to_another_server() {
    let seen = std::cell::RefCell::new(Vec::new());
    let text = "provider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://localhost:1/v1\"";
    let built = config(text).build(Path::new("."), |name| {
        seen.borrow_mut().push(name.to_owned());
        Some("sk-1".to_owned())
    });
    assert_eq!(built.unwrap().name(), "m");
    assert!(seen.borrow().is_empty());
    assert!(refusal(&text.replace("openai", "gemini")).contains("api_key_env"));
}

#[cfg(feature = "providers")]
#[test]
fn keys_that_have_no_meaning_or_are_out_of_bounds_are_refused() {
    let live = |line: &str| {
        refusal(&format!("provider = \"openai\"\nmodel = \"m\"\napi_key_env = \"GOOD_KEY\"\n{line}"))
    };
    assert!(live("temperature = 3.0").contains("must be between 0 and 2"));
    assert!(live("temperature = nan").contains("must be between 0 and 2"));
    assert!(live("idle_timeout_ms = 0").contains("`idle_timeout_ms` is 0"));
    assert!(live("max_output_tokens = 0").contains("`max_output_tokens` is 0"));
    assert!(live("file = \"x\"").contains("`file` is for"));
    assert!(live("base_url = \"ftp://x\"").contains("neither http"));
    assert!(live("base_url = \"http://me:secret@x/\"").contains("user or password"));
    assert!(!live("base_url = \"http://me:secret@x/\"").contains("secret@"));
    assert!(refusal("provider = \"openai\"").contains("`model` is missing"));
    assert!(refusal("provider = \"recorded\"").contains("file = \"turns.toml\""));
    assert!(
        refusal("provider = \"recorded\"\nfile = \"x\"\ntemperature = 1.0")
            .contains("`temperature` has no meaning")
    );
    assert!(toml::from_str::<ModelConfig>("provider = \"openai\"\nmodle = \"m\"").is_err());
    assert!(toml::from_str::<ModelConfig>("provider = \"openai\"\n[retry]\ntimes = 3").is_err());
}

#[cfg(feature = "providers")]
#[test]
fn a_configuration_never_prints_a_key() {
    let text = "provider = \"openai\"\nmodel = \"m\"\napi_key_env = \"GOOD_KEY\"";
    let live = config(text).live(Provider::Openai, |_| Some("sk-secret".to_owned())).unwrap();
    assert!(!format!("{live:?}").contains("sk-secret"));
}

#[cfg(feature = "providers")]
#[test]
fn a_configuration_made_in_code_is_the_one_that_is_written() {
    let written = config("provider = \"ollama\"\nmodel = \"qwen3:8b\"");
    assert_eq!(ModelConfig::new(ProviderName::Ollama, "qwen3:8b"), written);
    assert_eq!(written.build(Path::new("."), |_| None).unwrap().name(), "qwen3:8b");
}

#[cfg(not(feature = "providers"))]
#[test]
fn a_provider_is_refused_in_a_build_without_clients() {
    for provider in ["openai", "anthropic", "gemini", "ollama"] {
        let refused = refusal(&format!("provider = \"{provider}\"\nmodel = \"m\""));
        assert!(refused.contains("this program was built without clients of model providers"), "{refused}");
    }
    assert!(refusal("provider = \"recorded\"").contains("file = \"turns.toml\""));
}
