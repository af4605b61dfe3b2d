//! `tollgate update`: finds newer versions of installed components, and shows their changes.

use crate::globals::Globals;
use crate::session::offer::{Consent, NamedOrigin, Offer};
use crate::session::origin::{Origins, RefusedComponent, note_refusal};
use crate::terminal::output::{BAD, GOOD};
use crate::terminal::text::{shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use tollgate_registry::{Digest, Entry, FetchOptions, Lock, Reference, Source, fetch, read_bundle};

/// Look for newer versions of installed components, and show what they change
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpdateVerb {
    /// The components' ids; without any, all components
    ids: Vec<String>,
    /// Change nothing, and exit with 1 if there is a difference
    #[arg(long)]
    check: bool,
    /// Take this tag or digest, which may be older
    #[arg(long, value_name = "TAG|DIGEST")]
    to: Option<String>,
    /// Use the signature in this file, in addition to those of the registry
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Confirm without a question if the same signer made the version and it asks for nothing more
    #[arg(long, short)]
    yes: bool,
}

const EXAMPLES: &str = "\
Examples:
  tollgate update
  tollgate update weather --to 1.3
  tollgate update --check --json        for a bot

The exit code is 3 if a person has to decide and there is no terminal.";

impl UpdateVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let origins = Origins::open(globals)?;
        let lock = origins.files.read_lock()?;
        if let Some(unknown) = self.ids.iter().find(|id| lock.of(id).is_none()) {
            let id = shown_line(unknown, 64);
            return Err(Failure::usage(format!(
                "the lock file records no component {id}; see: {} verify",
                program()
            )));
        }
        if (self.to.is_some() || self.bundle.is_some()) && self.ids.len() != 1 {
            let option = if self.to.is_some() { "--to" } else { "--bundle" };
            return Err(Failure::usage(format!(
                "{option} belongs to one component; name it: tollgate update ID {option} ..."
            )));
        }
        if !output.is_json() && lock.entries().next().is_none() {
            output.say(crate::verbs::verify::NOTHING_INSTALLED);
        }
        let wanted = |entry: &&Entry| self.ids.is_empty() || self.ids.contains(&entry.id);
        let (mut seen, mut exit, mut differs) = (Vec::new(), Exit::Done, false);
        for entry in lock.entries().filter(wanted) {
            let mut fetched = None;
            match self.one(entry, &lock, &origins, (globals, output), &mut fetched).await {
                Ok(one) => {
                    differs |= one["changed"] == true;
                    seen.push(one);
                }
                Err(why) => {
                    if why.exit() == Exit::Usage || fetched.is_some() {
                        let (id, digest) = (Some(entry.id.as_str()), fetched.as_ref());
                        let refused = RefusedComponent { origin: &entry.from, id, digest };
                        note_refusal(globals, refused, &why.to_string()).await;
                    }
                    output.say(&format!(
                        "{BAD}failed{BAD:#} {}: {}",
                        entry.id,
                        shown_marked(&why.to_string())
                    ));
                    seen.push(json!({ "id": entry.id, "code": why.code(), "message": why.to_string() }));
                    exit = why.exit();
                }
            }
        }
        if output.is_json() {
            output.json(&json!({ "components": seen }));
        }
        Ok(if self.check && exit == Exit::Done && differs { Exit::Failed } else { exit })
    }

    async fn one(
        &self,
        entry: &Entry,
        lock: &Lock,
        origins: &Origins,
        (globals, output): (&Globals, &Output),
        digest: &mut Option<Digest>,
    ) -> Result<Value, Failure> {
        let source = match self.source(entry)? {
            Ok(source) => source,
            Err(why) => {
                output.say(&format!("{} stays as it is: {why}", entry.id));
                return Ok(json!({ "id": entry.id, "changed": false, "why": why }));
            }
        };
        if origins.is_up_to_date(&source, entry).await? {
            output.say(&format!("{GOOD}up to date{GOOD:#} {}", entry.id));
            return Ok(json!({ "id": entry.id, "changed": false, "entry": entry }));
        }
        let trust = &origins.config.trust;
        let kept = origins.files.evidence(entry)?;
        let recorded = kept.map(|kept| (entry.clone(), kept)).into_iter().collect();
        let bundle = self.bundle.as_deref().map(read_bundle).transpose()?;
        let wanted = FetchOptions { keys: trust.keys_of(&entry.from), bundle, recorded, digest: None };
        let mut fetched = fetch(&origins.client, &source, wanted, &trust.root()?).await?;
        if self.bundle.is_none() && origins.is_same(&fetched, entry).await {
            output.say(&format!("{GOOD}up to date{GOOD:#} {}", entry.id));
            return Ok(json!({ "id": entry.id, "changed": false, "entry": entry }));
        }
        *digest = Some(fetched.digest.clone());
        // A digest does not determine the tag to follow from now on.
        fetched.tag = fetched.tag.or_else(|| entry.tag.clone());
        let offer = Offer::new(fetched, origins, lock, NamedOrigin { signer: None, file: None }).await?;
        if offer.entry.id != entry.id {
            return Err(Failure::usage(format!(
                "{} is the component {} now; to take it, add it: {} add {}",
                entry.from,
                offer.entry.id,
                program(),
                entry.from
            )));
        }
        if !offer.is_new() && !offer.is_open() {
            output.say(&format!("{GOOD}up to date{GOOD:#} {}", entry.id));
            return Ok(offer.as_json());
        }
        if !output.is_json() {
            offer.show(output);
        }
        let consent = Consent { yes: self.yes, older: self.to.is_some(), ..Consent::default() };
        if !self.check {
            if offer.decide(consent, output)? {
                offer.install(origins, globals).await?;
                output.say(&format!("{GOOD}updated{GOOD:#} {}", entry.id));
            } else {
                output.say(&format!("{} stays as it is", entry.id));
            }
        }
        Ok(offer.as_json())
    }

    /// Returns the source of a newer version, or why there is none.
    fn source(&self, entry: &Entry) -> Result<Result<Source, String>, Failure> {
        if entry.from.starts_with("file:") {
            let add = format!("{} add ./{}", program(), shown_line(&entry.source(), 200));
            return Ok(Err(format!("it came from a local file; to take a newer one: {add}")));
        }
        if entry.manifest.is_none() {
            return Ok(Ok(entry.from.parse()?));
        }
        let reference: Reference = entry.from.parse()?;
        let reference = match (&self.to, &entry.tag) {
            (Some(to), _) if to.contains(':') => {
                Reference { tag: None, ..reference.at(to.parse::<Digest>()?) }
            }
            (Some(to), _) => reference.with_tag(to)?,
            (None, Some(tag)) => reference.with_tag(tag)?,
            // It was added by its digest, and is never updated.
            (None, None) => {
                let update = format!("{} update {} --to TAG", program(), entry.id);
                return Ok(Err(format!("it was added by its digest; to follow a tag: {update}")));
            }
        };
        Ok(Ok(Source::Registry(reference)))
    }
}
