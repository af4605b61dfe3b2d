//! `tollgate inspect`: shows what a component is and requests, before it is trusted with anything.
//! None of its tools runs; it describes itself in a sealed instance.

use crate::globals::Globals;
use crate::render::powers::{asked_and_lacking, lacking};
use crate::render::provenance;
use crate::session::approve;
use crate::session::offer::load;
use crate::session::origin::Origins;
use crate::terminal::output::{BAD, BOLD, DIM, GOOD};
use crate::terminal::text::{shown, shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tollgate::config::{Config, GrantKind, nearest_file};
use tollgate::grants::{ManifestError, RequestedGrants, parse_manifest, read_manifest};
use tollgate_agent::catalog::{Catalog, Owner, OwnerKind};
use tollgate_agent::descriptor::{ComponentDescriptor, StateAccess, ToolDescriptor};
use tollgate_agent::name;
use tollgate_registry::{FetchOptions, Metadata, PublicKey, Source, fetch, read_key};
use tollgate_sandbox::{Component, Guest, Power, Sandbox};

/// Show what a component is and asks for, without running its tools
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectVerb {
    /// The component: a `.wasm` file, or the source of one as for `add`, which stores nothing
    file: PathBuf,
    /// Recognize a signature of a registry's component by the public key in this file (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate inspect downloads/find-in-files.wasm
  tollgate inspect tools/notes.wasm --json | jq .imports
  tollgate inspect gates/budget.wasm
  tollgate inspect ghcr.io/acme/weather:1.2
  tollgate inspect localhost:5000/weather:1 --key acme.pub

The exit code is 1 if the component would not be served.";

impl InspectVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        if let Err(e) = std::fs::symlink_metadata(&self.file) {
            if let Some(source @ (Source::Registry(_) | Source::Url(_))) = self.source() {
                let key = self.key.as_deref().map(read_key).transpose()?;
                return inspect_remote(&source, key, &Origins::open(globals)?, output).await;
            }
            let near = nearest_file(&self.file)
                .map(|near| name::suggestion(shown_line(&near.display().to_string(), 200)));
            let (file, near) = (self.file.display(), near.unwrap_or_default());
            return Err(Failure::usage(format!("{file} cannot be read: {e}{near}")));
        }
        if self.key.is_some() {
            return Err(Failure::usage(
                "--key belongs to the component of a registry; a file has no signatures",
            ));
        }
        let config = globals.read_config()?;
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        let bytes = sandbox.read(&self.file).await?;
        let metadata = Metadata::of(&bytes);
        let component = match sandbox.load_either(&self.file.display().to_string(), bytes.into()).await? {
            Guest::Tools(component) => component,
            Guest::Gate(gate) => {
                if output.is_json() {
                    output.json(&crate::render::gates::one_as_json(&gate));
                } else {
                    crate::render::gates::show_one(&gate, output);
                }
                return Ok(Exit::Done);
            }
        };
        let seen = ComponentReport::of(&self.file, &component, &config, read_manifest(&self.file), metadata);
        if output.is_json() {
            output.json(&seen.as_json());
        } else {
            seen.show(output);
        }
        Ok(if seen.refusal.is_none() { Exit::Done } else { Exit::Failed })
    }

    fn source(&self) -> Option<Source> {
        self.file.to_str()?.parse().ok()
    }
}

/// Shows a component from a registry or URL, and who signed it.
async fn inspect_remote(
    source: &Source,
    key: Option<PublicKey>,
    origins: &Origins,
    output: &Output,
) -> Result<Exit, Failure> {
    let config = &origins.config;
    let mut keys = config.trust.keys_of(&source.origin());
    keys.extend(key);
    let lock = origins.files.read_lock().unwrap_or_default();
    let recorded = origins.recorded(&lock, &source.origin());
    let wanted = FetchOptions { keys, recorded, ..FetchOptions::default() };
    let fetched = fetch(&origins.client, source, wanted, &config.trust.root()?).await?;
    let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
    let origin = shown_line(&fetched.origin, 200);
    let component = load(&sandbox, &fetched, None).await?;
    let manifest = fetched.asks.as_deref().map(parse_manifest).transpose();
    let metadata = fetched.metadata.clone();
    let seen = ComponentReport::of(Path::new(&origin), &component, config, manifest, metadata);
    let manifest_digest = fetched.artifact.as_ref().map(|artifact| &artifact.digest);
    let signers: Vec<_> = fetched.evidence.proofs.iter().map(|proof| proof.signed.to_string()).collect();
    if output.is_json() {
        let mut value = seen.as_json();
        value["from"] = json!(fetched.origin);
        value["manifest_digest"] = json!(manifest_digest);
        value["signed_by"] = json!(signers);
        value["faults"] = json!(provenance::faults(&fetched.evidence));
        value["licence"] = json!(fetched.licence());
        output.json(&value);
    } else {
        seen.show(output);
        output.line(&format!("\n{BOLD}origin{BOLD:#} {origin}"));
        manifest_digest.iter().for_each(|digest| output.line(&format!("  manifest  {digest}")));
        fetched
            .licence()
            .iter()
            .for_each(|licence| output.line(&format!("  licence   {}", shown_line(licence, 200))));
        signers.iter().for_each(|signer| {
            output.line(&format!("  signed    {GOOD}{}{GOOD:#}", shown_line(signer, 400)))
        });
        for line in provenance::ignored(&fetched.evidence) {
            output.line(&format!("  {DIM}{line}{DIM:#}"));
        }
        if signers.is_empty() {
            output.line("  signed    no");
        }
    }
    Ok(if seen.refusal.is_none() { Exit::Done } else { Exit::Failed })
}

/// Everything that `inspect` shows about a component.
struct ComponentReport<'a> {
    file: &'a Path,
    component: &'a Component,
    descriptor: &'a ComponentDescriptor,
    config: &'a Config,
    /// The requests of its manifest, if it has one.
    asks: Option<RequestedGrants>,
    /// The reason why its own description would keep it from being served, even alone.
    refusal: Option<String>,
    /// Its statements about itself.
    metadata: Metadata,
}

impl<'a> ComponentReport<'a> {
    fn of(
        file: &'a Path,
        component: &'a Component,
        config: &'a Config,
        manifest: Result<Option<RequestedGrants>, ManifestError>,
        metadata: Metadata,
    ) -> Self {
        let descriptor = component.descriptor();
        let owner = Owner {
            id: descriptor.id.clone().into(),
            kind: OwnerKind::Component,
            origin: file.display().to_string(),
            version: component.digest().into(),
        };
        let grants = config.grants_of(&descriptor.id);
        let added = Catalog::default().add(owner, descriptor.clone(), &grants.catalog());
        let refused = manifest.as_ref().err().map(ToString::to_string);
        let refusal = added.err().map(|e| e.to_string()).or(refused);
        Self { file, component, descriptor, config, asks: manifest.ok().flatten(), refusal, metadata }
    }

    fn show(&self, output: &Output) {
        let id = shown_line(&self.descriptor.id, 64);
        let version = shown_line(&self.descriptor.version, 64);
        let plain = if self.component.left_out().is_some() { " (plain component)" } else { "" };
        output.line(&format!("{BOLD}{id}{BOLD:#} {version}{plain}"));
        output.line(&format!("  file    {}", shown_line(&self.file.display().to_string(), 200)));
        output.line(&format!("  digest  sha256:{}", self.component.digest()));
        output.line(&format!("\n{BOLD}stated by the component{BOLD:#}"));
        let licence = self.metadata.licence.as_deref().unwrap_or("not stated");
        output.line(&format!("  licence   {}", shown_line(licence, 200)));
        for line in provenance::lines(&self.metadata) {
            output.line(&format!("  {line}"));
        }
        for tool in &self.descriptor.tools {
            show_tool(tool, output);
        }
        for left in self.component.left_out().unwrap_or_default() {
            let function = shown_line(&left.function, 200);
            output.line(&format!("\n{BOLD}left out{BOLD:#} {function}\n  {}", shown_marked(&left.reason)));
        }
        for key in &self.descriptor.state {
            output.line(&format!("\n{BOLD}state{BOLD:#} {}", state_in_words(key)));
        }
        self.show_imports(output);
        match &self.refusal {
            Some(reason) => {
                output.line(&format!("\n{BAD}It would not be served:{BAD:#} {}", shown_marked(reason)))
            }
            None => self.show_grants(output),
        }
    }

    fn show_imports(&self, output: &Output) {
        output.line(&format!("\n{BOLD}imports{BOLD:#}"));
        for import in self.component.imports() {
            let power = import
                .power
                .map(|power| match power {
                    Power::Sockets => "  never granted".to_owned(),
                    power => format!("  needs the grant `{}`", power.as_str()),
                })
                .unwrap_or_default();
            output.line(&format!("  {}{power}", shown_line(&import.interface, 120)));
        }
        if self.component.imports().is_empty() {
            output.line("  nothing");
        }
    }

    /// Shows the requests of its manifest, and the lines that grant those it lacks.
    fn show_asks(&self, asks: &RequestedGrants, output: &Output) {
        output.line(&format!("\n{BOLD}asks to{BOLD:#}"));
        for what in asks.each() {
            output.line(&format!("  {}", shown_line(&what, 300)));
        }
        if asks.is_empty() {
            output.line("  do nothing but compute");
        }
        if let Some(why) = &asks.why {
            output.line(&format!("  {DIM}in its own words: \"{}\"{DIM:#}", shown_line(why, 500)));
        }
        let id = &self.descriptor.id;
        approve::say_lacking(id, &asks.lacking(&self.config.grants_of(id)), output);
    }

    fn show_grants(&self, output: &Output) {
        if let Some(asks) = &self.asks {
            return self.show_asks(asks, output);
        }
        let lines = self.lines_to_grant();
        if lines.is_empty() {
            output.line(&format!("\n{GOOD}It has everything that it asks for.{GOOD:#}"));
            return;
        }
        output.line(&format!(
            "\nIt runs without these, but its attempts to use them fail. To grant them, in {}:",
            self.config.name()
        ));
        output.line(&format!("\n  [grants.{}]", self.descriptor.id));
        for line in lines {
            output.line(&format!("  {line}"));
        }
        output.say(&format!("\n{DIM}Toolchains import what their tools may never use; grant what the tool's purpose needs.{DIM:#}"));
    }

    /// Returns the configuration lines that grant what it lacks.
    fn lines_to_grant(&self) -> Vec<String> {
        let grants = self.config.grants_of(&self.descriptor.id);
        let mut lines = Vec::new();
        if lacking(self.component.imports(), &grants).contains(&"files") {
            lines.push("files = [{ host = \"docs\", guest = \"/docs\", access = \"read\" }]".to_owned());
        }
        if lacking(self.component.imports(), &grants).contains(&"http") {
            lines.push("http = [\"https://api.example.com/\"]".to_owned());
        }
        if lacking(self.component.imports(), &grants).contains(&"settings") {
            lines.push("settings = { name = \"value\" }".to_owned());
        }
        let prefix = format!("{}.", self.descriptor.id);
        let foreign = |wants: fn(&StateAccess) -> bool, has: &dyn Fn(&str) -> bool| -> Vec<String> {
            let keys = self.descriptor.state.iter().filter(|key| wants(key) && !key.key.starts_with(&prefix));
            keys.filter(|key| !has(&key.key))
                .map(|key| format!("\"{}\"", shown_line(&key.key, 140)))
                .collect()
        };
        let reads = foreign(|key| key.read, &|key| grants.has(GrantKind::StateRead, key));
        let writes = foreign(|key| key.write, &|key| grants.has(GrantKind::StateWrite, key));
        if !reads.is_empty() || !writes.is_empty() {
            lines.push(format!(
                "state = {{ read = [{}], write = [{}] }}",
                reads.join(", "),
                writes.join(", ")
            ));
        }
        lines
    }

    fn as_json(&self) -> Value {
        let grants = self.config.grants_of(&self.descriptor.id);
        json!({
            "file": self.file,
            "digest": self.component.digest(),
            "id": self.descriptor.id,
            "version": self.descriptor.version,
            "tools": self.descriptor.tools,
            "state": self.descriptor.state,
            "imports": self.component.imports(),
            "plain": self.component.left_out().is_some(),
            "left_out": self.component.left_out().unwrap_or_default(),
            "lacking": lacking(self.component.imports(), &grants),
            "asks": self.asks,
            "asked_and_lacking": asked_and_lacking(self.asks.as_ref(), &grants),
            "to_grant": self.lines_to_grant(),
            "refused": self.refusal,
            "metadata": self.metadata,
        })
    }
}

fn show_tool(tool: &ToolDescriptor, output: &Output) {
    output.line(&format!("\n{BOLD}tool{BOLD:#} {}", shown_line(&tool.name, 64)));
    for line in shown(&tool.description).lines() {
        output.line(&format!("  {line}"));
    }
    let required: Vec<&str> = tool
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let kind = schema.get("type").map_or("value".to_owned(), |kind| kind.to_string().replace('"', ""));
        let needed = if required.contains(&name.as_str()) { ", required" } else { "" };
        let words = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        output.line(&format!(
            "    {} ({}{needed}) {}",
            shown_line(name, 64),
            shown_line(&kind, 40),
            shown_line(words, 200)
        ));
    }
}

fn state_in_words(key: &StateAccess) -> String {
    let access = match (key.read, key.write) {
        (true, true) => "reads and writes",
        (true, false) => "reads",
        (false, true) => "writes",
        (false, false) => "names",
    };
    let brings = match &key.defines {
        Some(own) => format!(
            ", its own: reducer {}, scope {:?}, {}",
            own.reducer.as_str(),
            own.scope,
            if own.persistent { "persistent" } else { "not persistent" }
        ),
        None => String::new(),
    };
    format!(
        "{access} {}{}",
        shown_line(&key.key, 140),
        brings.replace("Run", "run").replace("Thread", "thread")
    )
}
