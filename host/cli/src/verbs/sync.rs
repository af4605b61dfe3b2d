//! `tollgate sync`: makes the tools directory match the lock file.

use crate::globals::Globals;
use crate::session::origin::{Checks, Origins, exit_of, note_failed};
use crate::terminal::output::{BAD, GOOD};
use crate::terminal::remedy::of_registry;
use crate::terminal::text::shown_marked;
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::verify::NOTHING_INSTALLED;
use clap::Args;
use serde_json::json;
use tollgate_registry::{Code, Entry, Error, FetchOptions, LockMode, Placement, Source, fetch};

/// Make the tools directory match the lock file, as on a new machine
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SyncVerb {
    /// Change nothing, and fail if something is missing or differs
    #[arg(long)]
    locked: bool,
}

const EXAMPLES: &str = "\
Examples:
  tollgate sync
  tollgate sync --locked        in CI

The exit code is 1 if a component cannot be restored, or with --locked if one is missing or differs, and 2 if a
signature or the policy refuses one.";

impl SyncVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let origins = Origins::open(globals)?;
        let lock = origins.files.read_lock()?;
        if !output.is_json() && lock.entries().next().is_none() {
            output.say(NOTHING_INSTALLED);
        }
        let checks = Checks::new(&origins.files, &origins.config)?;
        let mut done = Vec::new();
        for entry in lock.entries() {
            let outcome = self.one(entry, &origins, &checks).await;
            if let Err(why) = &outcome {
                note_failed(globals, &origins.files, entry, why).await;
            }
            if !output.is_json() {
                match &outcome {
                    Ok(what) => output.line(&format!("{GOOD}{what}{GOOD:#} {}", entry.id)),
                    Err(why) => output.line(&format!(
                        "{BAD}failed{BAD:#} {}: {}",
                        entry.id,
                        shown_marked(&of_registry(why))
                    )),
                }
            }
            done.push((entry.id.clone(), outcome));
        }
        if !self.locked {
            origins.files.tidy()?;
        }
        let unlisted = self.unlisted(&origins, &lock)?;
        for file in &unlisted {
            output.say(&format!("{file} is not in the lock file"));
        }
        let is_strict = self.locked && origins.config.locked == LockMode::All;
        let mut codes: Vec<_> =
            done.iter().filter_map(|(_, outcome)| Some(outcome.as_ref().err()?.code)).collect();
        codes.extend((is_strict && !unlisted.is_empty()).then_some(Code::LockMismatch));
        if output.is_json() {
            let one = |(id, outcome): &(String, Result<&str, Error>)| match outcome {
                Ok(what) => json!({ "id": id, "outcome": what }),
                Err(why) => json!({ "id": id, "code": why.code.as_str(), "message": of_registry(why) }),
            };
            output.json(
                &json!({ "components": done.iter().map(one).collect::<Vec<_>>(), "unlisted": unlisted }),
            );
        }
        Ok(exit_of(codes))
    }

    async fn one(
        &self,
        entry: &Entry,
        origins: &Origins,
        checks: &Checks<'_>,
    ) -> Result<&'static str, Error> {
        let kept = checks.signature(entry).await?;
        let done = self.put_in_place(entry, origins).await?;
        checks.statements(entry, kept.as_ref()).await.map(|()| done)
    }

    async fn put_in_place(&self, entry: &Entry, origins: &Origins) -> Result<&'static str, Error> {
        let (files, trust) = (&origins.files, &origins.config.trust);
        let placement = files.placement(entry)?;
        if placement == Placement::InPlace {
            return Ok("in place");
        }
        if self.locked {
            let what = if placement == Placement::Missing { "is missing" } else { "differs" };
            return Err(Error::new(
                Code::LockMismatch,
                format!("{} {what}; restore it: tollgate sync", entry.file),
            ));
        }
        if files.complete(entry)? {
            return Ok("completed");
        }
        let source = source_of(entry)?;
        let fetched = fetch(&origins.client, &source, FetchOptions::default(), &trust.root()?).await?;
        files.restore(entry, &fetched.wasm, fetched.asks.as_deref())?;
        Ok("restored")
    }

    /// Returns the components in the tools directory that the lock file does not record.
    fn unlisted(&self, origins: &Origins, lock: &tollgate_registry::Lock) -> Result<Vec<String>, Failure> {
        let Ok(entries) = std::fs::read_dir(&origins.files.tools) else { return Ok(Vec::new()) };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_component = |name: &String| name.ends_with(".wasm") && !name.starts_with('.');
        let mut unlisted: Vec<_> =
            names.filter(is_component).filter(|name| lock.of_file(name).is_none()).collect();
        unlisted.sort();
        Ok(unlisted)
    }
}

/// Returns the source of exactly the bytes of an entry.
fn source_of(entry: &Entry) -> Result<Source, Error> {
    if entry.from.starts_with("file:") {
        let (id, file) = (&entry.id, entry.source());
        let what =
            format!("{id} came from a local file and cannot be fetched; add it again: tollgate add ./{file}");
        return Err(Error::new(Code::NotFound, what));
    }
    entry.source().parse()
}
