//! The model of an agent that is to run: the one that the command line names, or the configured one.

use crate::terminal::Failure;
use crate::terminal::text::shown_line;
use std::path::Path;
use std::sync::Arc;
use tollgate::config::Config;
use tollgate::models::{Model, ModelConfig, ProviderName};
use tollgate_agent::name;

/// The providers of models, as `[model]` and `--model` name them.
const PROVIDERS: [&str; 5] = ["openai", "anthropic", "gemini", "ollama", "recorded"];

/// Returns the model with which the configuration runs this agent.
///
/// # Errors
/// No model is configured, or it cannot be created.
pub(crate) fn configured_model(agent_id: &str, config: &Config) -> Result<Arc<dyn Model>, Failure> {
    chosen_model(None, agent_id, config)
}

/// Returns the model of an agent that is to run; `None` if it is composed of other agents, which have
/// models of their own. `named` is the value of `--model`.
///
/// # Errors
/// The agent, or one of those that it is composed of, has no model that can be created.
pub(crate) fn model_to_run(
    named: Option<&str>,
    agent_id: &str,
    config: &Config,
) -> Result<Option<Arc<dyn Model>>, Failure> {
    let made_of = |id: &str| config.agents.get(id).and_then(|agent| agent.made_of.as_ref());
    let Some(composition) = made_of(agent_id) else {
        return chosen_model(named, agent_id, config).map(Some);
    };
    for part in composition.agents().iter().filter(|part| made_of(part).is_none()) {
        configured_model(part, config).map_err(|why| {
            Failure::usage(format!("the agent {part}, a part of {agent_id}, cannot run: {why}"))
        })?;
    }
    Ok(None)
}

/// Returns the model that the option names, or the configured one of this agent.
///
/// # Errors
/// No model is configured, or it cannot be created.
fn chosen_model(named: Option<&str>, agent_id: &str, config: &Config) -> Result<Arc<dyn Model>, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    if let Some(remote) = config.agents.get(agent_id).and_then(|agent| agent.remote.as_ref()) {
        if named.is_some() {
            let why = format!("the agent {agent_id} runs on another server; leave out --model");
            return Err(Failure::usage(why));
        }
        return match remote.connect(env) {
            Ok(remote) => Ok(Arc::new(remote)),
            Err(why) => Err(Failure::usage(format!("the agent {agent_id} cannot be reached: {why}"))),
        };
    }
    let configured = config.model_of(agent_id);
    let built = match named {
        None => configured.ok_or_else(|| no_model(config))?.build(&config.base_dir, env),
        Some(named) => named_model(named, configured)?.build(Path::new("."), env),
    };
    built.map_err(|e| Failure::usage(e.to_string()))
}

fn no_model(config: &Config) -> Failure {
    Failure::usage(format!(
        "no model is configured. Add to {}:\n\n  [model]\n  provider = \"openai\"   # or {}\n  model = \"gpt-5-mini\"\n\nor name one: --model ollama/qwen3",
        config.name(),
        PROVIDERS[1..].join(", ")
    ))
}

/// Parses `PROVIDER/NAME`, or the name of another model of the configured provider.
fn named_model(named: &str, configured: Option<&ModelConfig>) -> Result<ModelConfig, Failure> {
    let with_provider = named.split_once('/').and_then(|(provider, name)| {
        let key = if provider == "recorded" { "file" } else { "model" };
        let table = toml::Table::from_iter([
            ("provider".to_owned(), toml::Value::from(provider)),
            (key.to_owned(), toml::Value::from(name)),
        ]);
        table.try_into::<ModelConfig>().ok()
    });
    if with_provider.is_none()
        && let Some(near) = misspelt_provider(named)
    {
        let named = shown_line(named, 80);
        let hint = name::suggestion(format_args!("--model {near}"));
        return Err(Failure::usage(format!("unknown provider of the model `{named}`{hint}")));
    }
    // Recorded turns have no other models.
    let configured = configured.filter(|model| !matches!(model.provider, ProviderName::Recorded));
    match (with_provider, configured) {
        (Some(model), _) => Ok(model),
        (None, Some(configured)) => Ok(ModelConfig { model: Some(named.to_owned()), ..configured.clone() }),
        (None, None) => Err(Failure::usage(format!(
            "no provider for the model `{}`; write PROVIDER/NAME, such as --model openai/gpt-5-mini; providers are {}",
            shown_line(named, 80),
            PROVIDERS.join(", ")
        ))),
    }
}

/// Returns the value of `--model` with the provider that was probably meant; `None` if no provider is
/// similar. Such a prefix belongs to the name of the model, as `meta-llama/` does.
fn misspelt_provider(named: &str) -> Option<String> {
    let (typed, model) = named.split_once('/')?;
    let near = name::nearest(typed, PROVIDERS.into_iter());
    let near = near.into_iter().find(|provider| provider.len().abs_diff(typed.len()) <= 2)?;
    Some(format!("{near}/{}", shown_line(model, 80)))
}
