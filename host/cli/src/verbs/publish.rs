//! `tollgate publish`: publishes a component to a registry, with its signature.

use crate::globals::Globals;
use crate::session::origin::check_exists;
use crate::terminal::output::GOOD;
use crate::terminal::text::{shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output};
use clap::{ArgGroup, Args};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tollgate::grants::parse_manifest;
use tollgate::registry;
use tollgate_registry::{
    Code, FetchOptions, Interfaces, Metadata, NewArtifact, Reference, SigningKey, Source, check_bundle,
    fetch, is_signed, read_bundle,
};
use tollgate_sandbox::{Guest, Sandbox};

/// Publish a component to a registry, with its signature
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("signature").required(true).args(["key", "bundle", "unsigned"]))]
pub(crate) struct PublishVerb {
    /// The place in the registry, with a tag
    destination: Reference,
    /// The component, a `.wasm` file; NAME.toml beside it lists its requests [default: NAME.wasm in the tools
    /// directory, where NAME is the last part of the destination]
    file: Option<PathBuf>,
    /// Sign with the private key in this file (PEM, as `openssl genpkey` writes it)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Attach the signature in this file, which another program made
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Publish without a signature
    #[arg(long)]
    unsigned: bool,
    /// Move the tag if it exists
    #[arg(long)]
    replace: bool,
    /// Print the digest and publish nothing
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out signing.key
  tollgate publish localhost:5000/weather:1 --key signing.key
  tollgate publish localhost:5000/weather:1 tools/weather.wasm --key signing.key
  tollgate publish ghcr.io/acme/weather:1.2 weather.wasm --unsigned --json | jq -r .digest";

impl PublishVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let client = registry::client(&config, registry::docker_config(), None)?;
        let file = self.file(&config.tools_dir);
        let source = Source::File(file.clone());
        check_exists(&source)?;
        let trust = &config.trust;
        let fetched = fetch(&client, &source, FetchOptions::default(), &trust.root()?).await?;
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        let name = shown_line(&file.display().to_string(), 200);
        // A file of another kind gets the code that a registry's artifact of another kind gets.
        Interfaces::of(&fetched.wasm)?;
        let refused = |why: String| Failure::usage(why).with_code(Code::ComponentRefused.as_str());
        let component = match sandbox.load_either(&name, fetched.wasm.clone()).await {
            Ok(Guest::Tools(component)) => component,
            Ok(Guest::Gate(_)) => {
                return Err(refused(format!("{name} is a gate, which cannot be added from a registry yet")));
            }
            Err(why) => return Err(refused(shown_marked(&why.to_string()))),
        };
        if let Some(Err(why)) = fetched.asks.as_deref().map(parse_manifest) {
            return Err(refused(format!("the manifest beside {name} is refused: {why}")));
        }
        let descriptor = component.descriptor();
        let annotations = annotations(&descriptor.id, &descriptor.version, &fetched.metadata);
        let asks = fetched.asks.as_deref();
        let artifact = NewArtifact::new(fetched.wasm.clone(), asks, &annotations, &created()?)?;
        let (digest, key) = (artifact.digest(), self.signing_key()?);
        if let Some(other) = self.destination.digest.as_ref().filter(|other| **other != digest) {
            let what = format!(
                "{name} would be published as {digest}, and the destination names {other}; leave that out"
            );
            return Err(Failure::usage(what).with_code(Code::DigestMismatch.as_str()));
        }
        let bundle = match (&self.bundle, &key) {
            (Some(file), _) => {
                let bundle = read_bundle(file)?;
                check_bundle(&bundle, &artifact, trust).await?;
                Some(bundle)
            }
            (None, Some(key)) => Some(key.sign(&self.destination.origin(), &digest)?),
            (None, None) => None,
        };
        let mut uploaded = 0;
        if !self.dry_run {
            let mut session = client.session(self.destination.clone());
            // Another signature by the same key would add nothing.
            let is_there = match &key {
                Some(key) => is_signed(&mut session, &artifact, key.public()).await?,
                None => false,
            };
            let new = bundle.as_deref().filter(|_| !is_there);
            uploaded = session.publish(&artifact, new, self.replace).await?.uploaded;
        }
        let place = self.destination.at(digest.clone());
        if output.is_json() {
            output.json(&json!({
                "reference": place.to_string(),
                "digest": digest,
                "uploaded_blobs": uploaded,
                "signed": bundle.is_some(),
                "dry_run": self.dry_run,
            }));
        } else {
            let done = if self.dry_run { "would publish" } else { "published" };
            output.line(&format!("{GOOD}{done}{GOOD:#} {place}"));
        }
        Ok(Exit::Done)
    }

    /// Returns the file to publish.
    fn file(&self, tools: &Path) -> PathBuf {
        let last = self.destination.repository.rsplit('/').next().unwrap_or_default();
        self.file.clone().unwrap_or_else(|| tools.join(format!("{last}.wasm")))
    }

    fn signing_key(&self) -> Result<Option<SigningKey>, Failure> {
        let Some(file) = &self.key else { return Ok(None) };
        let unreadable = |e| Failure::usage(format!("{} cannot be read: {e}", file.display()));
        Ok(Some(SigningKey::from_pem(&std::fs::read_to_string(file).map_err(unreadable)?)?))
    }
}

/// Returns the annotations of the manifest: the component's statements about itself.
fn annotations(id: &str, version: &str, stated: &Metadata) -> BTreeMap<String, String> {
    let named = [
        ("title", Some(id)),
        ("version", Some(version)),
        ("licenses", stated.licence.as_deref()),
        ("source", stated.source.as_deref()),
        ("url", stated.homepage.as_deref()),
        ("authors", stated.authors.as_deref()),
        ("description", stated.description.as_deref()),
        ("revision", stated.revision.as_deref()),
    ];
    let stated = named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned())));
    stated.collect()
}

/// Returns the time of the build, so that the same input always has the same digest.
fn created() -> Result<String, Failure> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else { return Ok("1970-01-01T00:00:00Z".to_owned()) };
    let time = text.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let time = time.ok_or_else(|| Failure::usage("SOURCE_DATE_EPOCH is not a number of seconds"))?;
    Ok(time.to_string())
}
