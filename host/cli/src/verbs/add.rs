//! `tollgate add`: installs a component from a registry, a URL or a file, with proof of its origin.

use crate::globals::Globals;
use crate::session::offer::{Consent, NamedOrigin, Offer};
use crate::session::origin::{Origins, RefusedComponent, check_exists, note_refusal};
use crate::terminal::output::GOOD;
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use tollgate_registry::{
    Digest, Entry, ExpectedSigner, FetchOptions, Github, Lock, Reference, Source, fetch, read_bundle,
    read_key,
};

/// Install a component and record where it came from and who signed it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddVerb {
    /// The component: a reference of a registry, an https URL, or a file
    source: String,
    /// Name its file NAME.wasm
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Require a signature by the public key in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "github")]
    key: Option<PathBuf>,
    /// Require a signature by a workflow of this GitHub repository
    #[arg(long, value_name = "OWNER/REPOSITORY")]
    github: Option<String>,
    /// Use the signature in this file, in addition to those of the registry
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Require this digest of the manifest, or of the component if it does not come from a registry
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Accept an unsigned component whose digest is given, if the policy asks about it
    #[arg(long, requires = "digest")]
    allow_unsigned: bool,
    /// Confirm without a question, if the bytes are signed or pinned and the component asks for
    /// nothing
    #[arg(long, short)]
    yes: bool,
}

const EXAMPLES: &str = "\
Examples:
  tollgate add ghcr.io/acme/weather:1.2
  tollgate add ghcr.io/acme/weather:1.2 --github acme/tools
  tollgate add localhost:5000/weather:1 --key acme.pub --yes
  tollgate add https://tools.example.com/weather.wasm --digest sha256:9f86d0...
  tollgate add ./weather.wasm --bundle weather.sigstore.json --key acme.pub

The exit code is 3 if a person has to decide and there is no terminal.";

impl AddVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let mut fetched = None;
        let added = self.add(globals, output, &mut fetched).await;
        if let Err(why) = &added
            && (why.exit() == Exit::Usage || fetched.is_some())
        {
            let digest = fetched.as_ref().or(self.digest.as_ref());
            let refused = RefusedComponent { origin: &self.source, id: None, digest };
            note_refusal(globals, refused, &why.to_string()).await;
        }
        added
    }

    /// `digest` becomes that of the component that is fetched.
    async fn add(
        &self,
        globals: &Globals,
        output: &Output,
        digest: &mut Option<Digest>,
    ) -> Result<Exit, Failure> {
        let source: Source = self.source.parse()?;
        check_exists(&source)?;
        let origins = Origins::open(globals)?;
        let lock = origins.files.read_lock()?;
        let before = self.recorded(&source, &lock);
        if let Some(entry) = before
            && origins.is_up_to_date(&self.pinned(&source), entry).await?
        {
            return Ok(said_to_be_installed(entry, output));
        }
        let signer = self.signer()?;
        let trust = &origins.config.trust;
        let mut keys = trust.keys_of(&source.origin());
        keys.extend(signer.as_ref().and_then(ExpectedSigner::key).cloned());
        let bundle = self.bundle.as_deref().map(read_bundle).transpose()?;
        let recorded = origins.recorded(&lock, &source.origin());
        let wanted = FetchOptions { digest: self.digest.clone(), bundle, keys, recorded };
        let fetched = fetch(&origins.client, &source, wanted, &trust.root()?).await?;
        *digest = Some(fetched.digest.clone());
        if let Some(entry) = before
            && origins.is_same(&fetched, entry).await
        {
            return Ok(said_to_be_installed(entry, output));
        }
        let named = NamedOrigin { signer: signer.as_ref(), file: self.name.as_deref() };
        let offer = Offer::new(fetched, &origins, &lock, named).await?;
        if offer.is_settled() && origins.is_sound(&offer.entry).await {
            return Ok(said_to_be_installed(&offer.entry, output));
        }
        let consent = Consent {
            yes: self.yes,
            pinned: self.digest.is_some(),
            unsigned: self.allow_unsigned,
            older: self.digest.is_some(),
        };
        if !output.is_json() {
            offer.show(output);
        }
        let accepted = offer.decide(consent, output)?;
        if accepted {
            offer.install(&origins, globals).await?;
        }
        if output.is_json() {
            output.json(&offer.as_json());
        } else if accepted {
            let (id, file) = (&offer.entry.id, &offer.entry.file);
            output.line(&format!("{GOOD}installed{GOOD:#} {id} as {file}"));
            if offer.asks_something() {
                output.say(&format!("grant what it asks for: {} grant {id} --asked", program()));
            }
        } else {
            output.say("nothing was installed");
        }
        Ok(Exit::Done)
    }

    /// Returns the entry of a component from this source; `None` if there is none, or an option says more
    /// about it.
    fn recorded<'a>(&self, source: &Source, lock: &'a Lock) -> Option<&'a Entry> {
        let says_more =
            self.name.is_some() || self.key.is_some() || self.github.is_some() || self.bundle.is_some();
        let origin = source.origin();
        // Another tag is followed from now on, even if it leads to the same version.
        let is_followed = |entry: &&Entry| match source {
            Source::Registry(Reference { tag: Some(tag), .. }) => entry.tag.as_ref() == Some(tag),
            _ => true,
        };
        let found = lock.entries().find(|entry| entry.from == origin).filter(is_followed);
        found.filter(|_| !says_more)
    }

    /// Returns the source with the digest that was asked for.
    fn pinned(&self, source: &Source) -> Source {
        match (&self.digest, source) {
            (Some(digest), Source::Registry(reference)) => Source::Registry(reference.at(digest.clone())),
            _ => source.clone(),
        }
    }

    fn signer(&self) -> Result<Option<ExpectedSigner>, Failure> {
        if let Some(file) = &self.key {
            return Ok(Some(ExpectedSigner::Key { key: read_key(file)?, log: false }));
        }
        let Some(repository) = &self.github else { return Ok(None) };
        Ok(Some(ExpectedSigner::Github(Github::any_workflow_of(repository)?)))
    }
}

/// Says that this very version is in place.
fn said_to_be_installed(entry: &Entry, output: &Output) -> Exit {
    match output.is_json() {
        true => output.json(&json!({ "id": entry.id, "changed": false, "entry": entry })),
        false => output.line(&format!("{GOOD}installed already{GOOD:#} {} as {}", entry.id, entry.file)),
    }
    Exit::Done
}
