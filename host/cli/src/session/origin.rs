//! The origins of components: code shared by the commands for the lock file and registries.

use crate::globals::Globals;
use crate::session::data::open_store;
use crate::terminal::remedy::of_registry;
use crate::terminal::{Exit, Failure};
use tollgate::config::Config;
use tollgate::grants::Approvals;
use tollgate::registry;
use tollgate::store::{AuditKind, AuditRecord};
use tollgate_agent::surface::Surface;
use tollgate_registry::{
    Client, Code, Digest, Entry, Error, FetchedComponent, Files, KeptEvidence, Lock, Placement, Source,
    check_statements, is_current, recheck,
};
use tollgate_sandbox::{Component, Guest, Power, Sandbox};

/// The files of a configuration, and its client for registries.
pub(crate) struct Origins {
    pub(crate) config: Config,
    pub(crate) files: Files,
    pub(crate) client: Client,
}

impl Origins {
    pub(crate) fn open(globals: &Globals) -> Result<Self, Failure> {
        let config = globals.read_config()?;
        let client = registry::client(&config, registry::docker_config(), None)?;
        Ok(Self { files: registry::files(&config), client, config })
    }
}

impl Origins {
    /// Returns whether a component is installed as its entry records it, with evidence that the policy
    /// accepts, and its source still leads to this version. Then there is nothing to fetch.
    ///
    /// # Errors
    /// The registry cannot be asked.
    pub(crate) async fn is_up_to_date(&self, source: &Source, entry: &Entry) -> Result<bool, Error> {
        Ok(self.is_sound(entry).await && is_current(&self.client, source, entry).await?)
    }

    /// Returns the entries of an origin, with the evidence that is kept about them.
    pub(crate) fn recorded(&self, lock: &Lock, origin: &str) -> Vec<(Entry, KeptEvidence)> {
        let entries = lock.entries().filter(|entry| entry.from == origin);
        // Evidence that is missing or damaged does not count; `verify` reports it.
        entries
            .filter_map(|entry| Some((entry.clone(), self.files.evidence(entry).ok().flatten()?)))
            .collect()
    }

    /// Returns whether a web server or a file has the version of an entry, which is installed as the entry records it.
    /// They have no signatures, and the kept one is about these bytes.
    pub(crate) async fn is_same(&self, fetched: &FetchedComponent, entry: &Entry) -> bool {
        let asks = fetched.asks.as_ref().map(|asks| Digest::of(asks.as_bytes()));
        let is_same = fetched.artifact.is_none() && fetched.digest == entry.wasm && asks == entry.asks;
        is_same && self.is_sound(entry).await
    }

    /// Returns whether a component is installed as its entry records it, with evidence that the policy accepts.
    pub(crate) async fn is_sound(&self, entry: &Entry) -> bool {
        let is_in_place = self.files.placement(entry).is_ok_and(|found| found == Placement::InPlace);
        let Ok(approvals) = Approvals::load(&self.config) else { return false };
        is_in_place && recheck_files(&self.files, entry, &self.config, &approvals).await.is_ok()
    }
}

/// Checks of installed components against the lock file and the policy, which need no network.
pub(crate) struct Checks<'a> {
    files: &'a Files,
    config: &'a Config,
    approvals: Approvals,
    sandbox: Sandbox,
}

impl<'a> Checks<'a> {
    pub(crate) fn new(files: &'a Files, config: &'a Config) -> Result<Self, Failure> {
        let approvals = Approvals::load(config)?;
        Ok(Self { files, config, approvals, sandbox: Sandbox::new(config.limits.sandbox.clone())? })
    }

    /// Verifies the kept signature of a component, and judges it by the policy. Editing the lock file must
    /// not bypass the policy.
    pub(crate) async fn signature(&self, entry: &Entry) -> Result<Option<KeptEvidence>, Error> {
        recheck_files(self.files, entry, self.config, &self.approvals).await
    }

    /// Compares what the lock file records about a component with the component that is in place.
    pub(crate) async fn statements(&self, entry: &Entry, kept: Option<&KeptEvidence>) -> Result<(), Error> {
        let Some((wasm, _)) = self.files.in_place(entry)? else {
            let what = format!("{} has changed meanwhile; try again", entry.file);
            return Err(Error::new(Code::LockMismatch, what));
        };
        let refused = |why: &str| Error::new(Code::ComponentRefused, format!("{}: {why}", entry.file));
        match self.sandbox.load_either(&entry.file, wasm.clone()).await {
            Ok(Guest::Tools(component)) => {
                let surface = Digest::of(surface_of(&component).text().as_bytes());
                check_statements(entry, kept, &wasm, &surface)
            }
            Ok(Guest::Gate(_)) => Err(refused("it is a gate, and only tools are installed")),
            Err(why) => Err(refused(&why.to_string())),
        }
    }
}

async fn recheck_files(
    files: &Files,
    entry: &Entry,
    config: &Config,
    approvals: &Approvals,
) -> Result<Option<KeptEvidence>, Error> {
    let kept = files.evidence(entry)?;
    recheck(entry, kept.clone(), &config.trust, approvals.has_accepted(&entry.id, entry.wasm.hex())).await?;
    Ok(kept)
}

/// A component that is refused, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedComponent<'a> {
    pub(crate) origin: &'a str,
    /// The component's id; `None` if it was refused before it was loaded.
    pub(crate) id: Option<&'a str>,
    /// The digest of its bytes.
    pub(crate) digest: Option<&'a Digest>,
}

/// Records that a component was refused, if there is a store.
pub(crate) async fn note_refusal(globals: &Globals, refused: RefusedComponent<'_>, why: &str) {
    let RefusedComponent { origin, id, digest } = refused;
    let mut record =
        AuditRecord::new(AuditKind::Denial, "host", "refused").because(&format!("{origin}: {why}"));
    record.component_id = id.map(Into::into);
    record.digest = digest.map(|digest| digest.hex().into());
    if let Ok(store) = open_store(globals)
        && let Err(e) = store.record_audit(vec![record]).await
    {
        tracing::warn!("a refusal cannot be recorded: {e}");
    }
}

/// Records that `sync` or `verify` refused an installed component. A file that is missing, and a registry
/// that cannot be reached, are no refusals.
pub(crate) async fn note_failed(globals: &Globals, files: &Files, entry: &Entry, why: &Error) {
    let is_missing = || files.placement(entry).is_ok_and(|found| found == Placement::Missing);
    if why.code.is_of_the_world() || why.code == Code::LockMismatch && is_missing() {
        return;
    }
    let refused = RefusedComponent { origin: &entry.from, id: Some(&entry.id), digest: Some(&entry.wasm) };
    note_refusal(globals, refused, &why.to_string()).await;
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let words = of_registry(&error);
        let failure = if error.code.is_of_the_world() { Self::failed(words) } else { Self::usage(words) };
        failure.with_code(error.code.as_str())
    }
}

/// Refuses a named file that does not exist, which is a wrong use of the command.
pub(crate) fn check_exists(source: &Source) -> Result<(), Failure> {
    match source {
        Source::File(file) if !file.exists() => {
            let file = crate::terminal::text::shown_line(&file.display().to_string(), 200);
            Err(Failure::usage(format!("{file} does not exist; check its path")))
        }
        _ => Ok(()),
    }
}

/// Returns the exit code of a command about several components, some of which failed with these codes: 2 if
/// a signature or the policy refuses one, and 1 if one is not as it is recorded or cannot be fetched.
pub(crate) fn exit_of(codes: impl IntoIterator<Item = Code>) -> Exit {
    let refuses = |code: &Code| !code.is_of_the_world() && *code != Code::LockMismatch;
    codes.into_iter().fold(Exit::Done, |exit, code| match exit {
        Exit::Usage => Exit::Usage,
        _ if refuses(&code) => Exit::Usage,
        _ => Exit::Failed,
    })
}

/// Returns the tools, state and powers of a component.
pub(crate) fn surface_of(component: &Component) -> Surface {
    let powers = component.imports().iter().filter_map(|import| import.power).map(Power::as_str);
    Surface::new(component.descriptor(), powers)
}
