//! The origins of components: code shared by the commands for the lock file and registries.

use crate::globals::Globals;
use crate::session::data::open_store;
use crate::terminal::{Exit, Failure};
use tollgate::config::Config;
use tollgate::registry;
use tollgate::store::{AuditKind, AuditRecord};
use tollgate_registry::{Client, Entry, Error, Files, Placement, Source, is_current, recheck};

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
    /// Returns whether a component is installed as its entry says, with evidence that the policy
    /// accepts, and its source still leads to this version. Then there is nothing to fetch.
    ///
    /// # Errors
    /// The registry cannot be asked.
    pub(crate) async fn is_up_to_date(&self, source: &Source, entry: &Entry) -> Result<bool, Error> {
        let is_in_place = self.files.placement(entry).is_ok_and(|found| found == Placement::InPlace);
        let Some(kept) = self.files.kept(entry).ok().filter(|_| is_in_place) else { return Ok(false) };
        if recheck(entry, kept, &self.config.trust).await.is_err() {
            return Ok(false);
        }
        is_current(&self.client, source, entry).await
    }
}

/// Records that a component was refused, if there is a store.
pub(crate) async fn note_refusal(globals: &Globals, origin: &str, why: &Failure) {
    let record = AuditRecord::new(AuditKind::Denial, "host", "refused").because(&format!("{origin}: {why}"));
    if let Ok(store) = open_store(globals)
        && let Err(e) = store.note(vec![record]).await
    {
        tracing::warn!("a refusal cannot be recorded: {e}");
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use tollgate_registry::Code;
        let is_of_the_world = matches!(
            error.code,
            Code::NotFound
                | Code::AccessDenied
                | Code::CredentialsMissing
                | Code::Unreachable
                | Code::TimedOut
                | Code::TooManyRedirects
                | Code::RateLimited
                | Code::RegistryFailed
                | Code::UnexpectedStatus
                | Code::InvalidToken
                | Code::Io
        );
        let words = error.to_string();
        let failure = if is_of_the_world { Self::failed(words) } else { Self::usage(words) };
        failure.with_code(error.code.as_str())
    }
}

/// Refuses a named file that does not exist, which is a wrong use of the command.
pub(crate) fn check_exists(source: &Source) -> Result<(), Failure> {
    match source {
        Source::File(file) if !file.exists() => {
            let file = crate::terminal::output::shown_line(&file.display().to_string(), 200);
            Err(Failure::usage(format!("{file} does not exist")))
        }
        _ => Ok(()),
    }
}

/// Returns the exit code of a command about several components.
pub(crate) fn exit_of(failed: bool) -> Exit {
    if failed { Exit::Failed } else { Exit::Done }
}
