//! `tollgate verify`: checks files and signatures against the lock file again, offline.

use crate::globals::Globals;
use crate::session::origin::{Checks, exit_of, note_failed};
use crate::terminal::output::{BAD, GOOD};
use crate::terminal::remedy::of_registry;
use crate::terminal::text::{shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use serde_json::json;
use tollgate::registry;
use tollgate_registry::{Code, Entry, Error, Files, Placement, SignerEvidence};

/// Check installed components and their signatures again, offline
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyVerb {
    /// The components' ids; without any, all components
    ids: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate verify
  tollgate verify weather --json

The exit code is 1 if something is not as it was recorded, and 2 if a signature or the policy refuses it.";

/// The message of commands about installed components if there are none.
pub(crate) const NOTHING_INSTALLED: &str =
    "nothing is installed from a registry, a URL or a file; `tollgate add` installs a component";

impl VerifyVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let files = registry::files(&config);
        let lock = files.read_lock()?;
        if let Some(unknown) = self.ids.iter().find(|id| lock.of(id).is_none()) {
            let id = shown_line(unknown, 64);
            return Err(Failure::usage(format!(
                "the lock file records no component {id}; see: {} verify",
                program()
            )));
        }
        if !output.is_json() && lock.entries().next().is_none() {
            output.say(NOTHING_INSTALLED);
        }
        let wanted = |entry: &&Entry| self.ids.is_empty() || self.ids.contains(&entry.id);
        let checks = Checks::new(&files, &config)?;
        let mut checked = Vec::new();
        for entry in lock.entries().filter(wanted) {
            let result = check(entry, &files, &checks).await;
            if let Err(why) = &result {
                note_failed(globals, &files, entry, why).await;
            }
            if !output.is_json() {
                show(entry, &result, output);
            }
            checked.push((entry, result));
        }
        let has_certificate = |(entry, _): &(&Entry, _)| {
            entry.signed.as_ref().is_some_and(|signed| !matches!(signed, SignerEvidence::Key { .. }))
        };
        if checked.iter().any(has_certificate) && config.trust.root()?.is_old(jiff::Timestamp::now()) {
            output.warn(
                "the trusted root is more than a year old, and newer signatures may not verify; update tollgate, \
                 or name a newer one with `root` in [trust]",
            );
        }
        if output.is_json() {
            let one = |(entry, result): &(&Entry, Result<(), Error>)| {
                let fault = result.as_ref().err();
                json!({
                    "entry": entry,
                    "ok": fault.is_none(),
                    "code": fault.map(|fault| fault.code.as_str()),
                    "message": fault.map(of_registry),
                })
            };
            output.json(&json!({ "components": checked.iter().map(one).collect::<Vec<_>>() }));
        }
        Ok(exit_of(checked.iter().filter_map(|(_, result)| Some(result.as_ref().err()?.code))))
    }
}

async fn check(entry: &Entry, files: &Files, checks: &Checks<'_>) -> Result<(), Error> {
    let what = match files.placement(entry)? {
        Placement::InPlace => {
            let kept = checks.signature(entry).await?;
            return checks.statements(entry, kept.as_ref()).await;
        }
        Placement::Missing => "it or its manifest is missing",
        Placement::Differs => "it or its manifest differs from the recorded one",
    };
    Err(Error::new(Code::LockMismatch, format!("{}: {what}; restore it: tollgate sync", entry.file)))
}

fn show(entry: &Entry, result: &Result<(), Error>, output: &Output) {
    let id = &entry.id;
    match result {
        Ok(()) => {
            let signer = entry.signed.as_ref().map_or_else(
                || "not signed, accepted by a person".to_owned(),
                |signed| format!("signed by {signed}"),
            );
            let from = shown_line(&entry.from, 300);
            output.line(&format!("{GOOD}ok{GOOD:#} {id} from {from}: {}", shown_line(&signer, 400)));
        }
        Err(why) => output.line(&format!("{BAD}failed{BAD:#} {id}: {}", shown_marked(&of_registry(why)))),
    }
}
