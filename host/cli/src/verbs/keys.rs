//! `tollgate keys`: the keys of the HTTP server.

use crate::globals::Globals;
use crate::session::data::{data_dir, open_store};
use crate::terminal::table::{Column, Table};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program};
use crate::verbs::audit::since_ms;
use crate::verbs::runs::local_time;
use clap::{Args, Subcommand};
use std::time::Duration;
use tollgate::config::read_period;
use tollgate::store::AuditRecord;
use tollgate_server::access::{KeyRequest, KeySummary, check_name};
use tollgate_server::{AccessDatabase, Principal, Scope, access_audit};

/// Make, list and revoke the keys of `tollgate serve`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeysVerb {
    #[command(subcommand)]
    verb: Option<KeysSubcommand>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate keys add ada --scope use,decide
  tollgate keys add ci --scope use --tool 'find_*' --expires 90d
  tollgate keys                                      list the keys
  tollgate keys revoke 4fQ8sTq0Zb

Scopes:
  use         call tools, start runs, see and cancel own runs
  decide      answer questions of own runs
  decide_any  see and answer every question
  read        see everybody's runs, audit and usage
  operate     cancel and recover others' runs, enable tools, make answers permanent in the console,
              list keys, end sessions
  metrics     read /metrics";

#[derive(Debug, Subcommand)]
enum KeysSubcommand {
    /// Make a key and print it once
    #[command(after_help = "Example:\n  tollgate keys add ada --scope use,decide")]
    Add(AddKey),
    /// List the keys, without their secrets
    #[command(after_help = "Example:\n  tollgate keys list --json")]
    List,
    /// Revoke a key at once, and end its sessions
    #[command(after_help = "Example:\n  tollgate keys revoke 4fQ8sTq0Zb")]
    Revoke {
        /// The key's id, as `tollgate keys` lists it
        id: String,
    },
}

#[derive(Debug, Args)]
struct AddKey {
    /// The principal: who uses the key. Threads and runs belong to this name; several keys may
    /// share it
    name: String,
    /// Allow these: use, decide, decide_any, read, operate, metrics
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',', default_value = "use")]
    scopes: Vec<Scope>,
    /// Allow only these agents; `*` stands for any characters
    #[arg(long = "agent", value_name = "PATTERN")]
    agents: Vec<String>,
    /// Allow only direct calls of these tools; `*` stands for any characters
    #[arg(long = "tool", value_name = "PATTERN")]
    tools: Vec<String>,
    /// Let the key expire after this time, such as 12h or 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = read_period)]
    expires: Option<Duration>,
}

impl KeysVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let access = open(globals)?;
        match self.verb {
            Some(KeysSubcommand::Add(add)) => {
                let made = add.run(&access, output)?;
                record_audit(globals, access_audit::key_made(&made), output).await;
                Ok(Exit::Done)
            }
            Some(KeysSubcommand::Revoke { id }) => {
                let exit = revoke(&access, &id, output)?;
                record_audit(globals, access_audit::key_revoked(&id), output).await;
                Ok(exit)
            }
            None | Some(KeysSubcommand::List) => list(&access, output),
        }
    }
}

/// Opens the keys of the data directory.
pub(crate) fn open(globals: &Globals) -> Result<AccessDatabase, Failure> {
    AccessDatabase::open(&data_dir(globals)?).map_err(|e| Failure::failed(e.to_string()))
}

/// Adds a record to the audit. Access is changed even if the store cannot be written, since a key
/// that leaked has to be revoked.
pub(crate) async fn record_audit(globals: &Globals, record: AuditRecord, output: &Output) {
    let noted = match open_store(globals) {
        Ok(store) => match store.record_audit(vec![record]).await {
            Ok(()) => store.close().await.map_err(Failure::from),
            Err(why) => Err(why.into()),
        },
        Err(why) => Err(why),
    };
    if let Err(why) = noted {
        output.warn(&format!("the audit does not show this change: {why}"));
    }
}

impl AddKey {
    /// Makes the key and prints it. Returns it without its secret.
    fn run(self, access: &AccessDatabase, output: &Output) -> Result<KeySummary, Failure> {
        check_name(&self.name).map_err(|e| Failure::usage(e.to_string()))?;
        let now = since_ms(Duration::ZERO);
        let millis = |period: Duration| u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        let request = KeyRequest {
            principal: Principal {
                agents: self.agents,
                tools: self.tools,
                ..Principal::new(self.name, self.scopes)
            },
            expires_at_ms: self.expires.map(|period| now.saturating_add(millis(period)).min(i64::MAX as u64)),
        };
        let (id, key) = access.add_key(&request).map_err(|e| Failure::failed(e.to_string()))?;
        if output.is_json() {
            output.json(&serde_json::json!({"id": id, "name": request.principal.name, "key": key}));
        } else {
            output.line(&key);
            output.say(&format!(
                "the key {id} is not shown again; clients send `Authorization: Bearer KEY`; `{} keys revoke {id}` revokes it",
                program()
            ));
        }
        let keys = access.keys().map_err(|e| Failure::failed(e.to_string()))?;
        let made = keys.into_iter().find(|key| key.id == id);
        made.ok_or_else(|| Failure::failed(format!("the key {id} is gone; make another")))
    }
}

fn revoke(access: &AccessDatabase, id: &str, output: &Output) -> Result<Exit, Failure> {
    let revoked = access.revoke_key(id).map_err(|e| Failure::failed(e.to_string()))?;
    if !revoked {
        let shown = shown_line(id, 40);
        return Err(Failure::usage(format!(
            "there is no key {shown} in force; `{} keys` lists them",
            program()
        )));
    }
    if output.is_json() {
        output.json(&serde_json::json!({"id": id, "revoked": true}));
    } else {
        output.say(&format!("the key {id} is revoked, and its sessions have ended"));
    }
    Ok(Exit::Done)
}

fn list(access: &AccessDatabase, output: &Output) -> Result<Exit, Failure> {
    let keys = access.keys().map_err(|e| Failure::failed(e.to_string()))?;
    if output.is_json() {
        output.json(&keys);
    } else if keys.is_empty() {
        output.say(&format!("no keys; make one: {} keys add NAME --scope use,decide", program()));
    } else {
        let mut rows = Table::new(&[
            Column::whole("ID", 0),
            Column::whole("NAME", 0),
            Column::text("SCOPES", 2),
            Column::text("AGENTS", 5),
            Column::text("TOOLS", 5),
            Column::whole("MADE", 4),
            Column::whole("LAST USED", 3),
            Column::whole("STATE", 1),
        ]);
        for key in &keys {
            rows.row([
                key.id.clone(),
                shown_line(&key.name, 32),
                key.scopes.join(", "),
                patterns(&key.agents),
                patterns(&key.tools),
                local_time(key.created_at_ms),
                key.used_at_ms.map(local_time).unwrap_or_default(),
                state(key),
            ]);
        }
        output.line(&rows.text());
    }
    Ok(Exit::Done)
}

fn patterns(patterns: &[String]) -> String {
    if patterns.is_empty() { "all".to_owned() } else { shown_line(&patterns.join(", "), 40) }
}

fn state(key: &KeySummary) -> String {
    match (key.revoked_at_ms, key.expires_at_ms) {
        (Some(at), _) => format!("revoked {}", local_time(at)),
        (None, Some(at)) if at <= since_ms(Duration::ZERO) => format!("expired {}", local_time(at)),
        (None, Some(at)) => format!("until {}", local_time(at)),
        (None, None) => "in force".to_owned(),
    }
}
