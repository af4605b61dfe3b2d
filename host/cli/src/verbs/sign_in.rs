//! `tollgate sign-in`: a link with which a person signs in to the console.

use crate::globals::Globals;
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::keys::{open, record_audit};
use crate::verbs::serve::operator;
use clap::Args;
use tollgate_server::access::check_name;
use tollgate_server::{Principal, Scope, access_audit};

/// Print a link that signs a person in to the console of `tollgate serve`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SignInVerb {
    /// Sign in as this principal [default: operator]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Allow these: use, decide, decide_any, read, operate, metrics [default: all but metrics]
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',')]
    scopes: Vec<Scope>,
    /// The address of the server [default: `listen` in [serve]]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate sign-in
  tollgate sign-in --as ada --scope decide_any,read
  tollgate sign-in --url https://agents.example

The link works once, for 5 minutes. The session ends after 12 hours without use, or 30 days.";

impl SignInVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let mut principal = operator();
        if let Some(name) = self.name {
            check_name(&name).map_err(|e| Failure::usage(e.to_string()))?;
            principal.name = name;
        }
        if !self.scopes.is_empty() {
            principal = Principal { scopes: self.scopes.into_iter().collect(), ..principal };
        }
        let code = open(globals)?.add_code(&principal).map_err(|e| Failure::failed(e.to_string()))?;
        let base = self.url.unwrap_or_else(|| format!("http://{}", config.serve.listen));
        let link = format!("{}/sign-in#{code}", base.trim_end_matches('/'));
        if output.is_json() {
            output.json(&serde_json::json!({"link": link, "code": code, "name": principal.name}));
        } else {
            output.line(&link);
            output.say(
                "the link works once, for 5 minutes; if the server has another address, name it with --url, or type \
                 the code at its page /sign-in",
            );
        }
        record_audit(globals, access_audit::link_made(&principal.name), output).await;
        Ok(Exit::Done)
    }
}
