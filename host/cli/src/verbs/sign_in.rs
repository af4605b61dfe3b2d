//! `tollgate sign-in`: a link with which a person signs in to the console.

use crate::globals::Globals;
use crate::session::data::data_dir;
use crate::session::served_address;
use crate::terminal::{Exit, Failure, Output, program};
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
    /// The address of the server [default: that of the running server of this data directory, or `listen`
    /// in [serve]]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

const OTHER_ADDRESS: &str =
    "if the server has another address, name it with --url, or type the part after `#` at its page /sign-in";

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
        let (base, advice) = match (self.url, served_address::find(&data_dir(globals)?)) {
            (Some(url), _) => (url, String::new()),
            (None, Some(address)) => (format!("http://{address}"), format!("; {OTHER_ADDRESS}")),
            (None, None) => {
                let start =
                    format!("no server of this data directory was found; if none runs: {} serve", program());
                (format!("http://{}", config.serve.listen), format!("; {OTHER_ADDRESS}; {start}"))
            }
        };
        let link = format!("{}/sign-in#{code}", base.trim_end_matches('/'));
        if output.is_json() {
            output.json(&serde_json::json!({"link": link, "code": code, "name": principal.name}));
        } else {
            output.line(&link);
            output.say(&format!("the link works once, for 5 minutes{advice}"));
        }
        record_audit(globals, access_audit::link_made(&principal.name), output).await;
        Ok(Exit::Done)
    }
}
