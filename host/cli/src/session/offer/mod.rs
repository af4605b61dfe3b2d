//! A component that `add` or `update` fetched, the changes that it would make, and the decision
//! about it.

mod arguments;
mod checks;
mod difference;
mod installed;
mod view;

pub(crate) use checks::load;

use crate::globals::Globals;
use crate::session::approve::{not_written, read_line, settle};
use crate::session::ask::can_ask;
use crate::session::data::open_store;
use crate::session::grant_audit::AuditSubject;
use crate::session::grants;
use crate::session::origin::{Origins, surface_of};
use crate::terminal::{Failure, Output};
use checks::{check_descriptor, check_installed, check_origin, entry, older, refused};
use difference::Differences;
use installed::{Version, WHATEVER, installed};
use tollgate::config::Changes;
use tollgate::grants::{Approvals, ComponentApproval, Decision, RequestedGrants, parse_manifest};
use tollgate::store::{AuditKind, AuditRecord};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::surface::Surface;
use tollgate_registry::{
    Entry, ExpectedSigner, FetchedComponent, Installation, Lock, Proof, RecordedVersion, SignerEvidence,
    Verdict,
};
use tollgate_sandbox::Sandbox;

/// A component that was fetched and examined, for a person to decide about.
pub(crate) struct Offer {
    pub(crate) fetched: FetchedComponent,
    pub(crate) descriptor: ComponentDescriptor,
    surface: Surface,
    asks: Option<RequestedGrants>,
    verdict: Verdict,
    /// Its entry in the lock file, if it is accepted.
    pub(crate) entry: Entry,
    /// The entry that it replaces.
    pub(crate) before: Option<Entry>,
    /// Its requests and needs that were not approved.
    pub(crate) news: Vec<String>,
    /// Whether `news` says everything that is new: there is a decision, or a version in place.
    is_measured: bool,
    /// The interfaces that it imports, sorted.
    imports: Vec<String>,
    /// Its tools whose descriptions were not approved.
    reworded: Vec<String>,
    /// The reason why it may be older than the installed version.
    pub(crate) older: Option<String>,
    /// Differences from the version that is there; `None` if there is none.
    differences: Option<Differences>,
}

/// The consent that the person gave on the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Consent {
    pub(crate) yes: bool,
    /// Whether the bytes were named by their digest.
    pub(crate) pinned: bool,
    pub(crate) unsigned: bool,
    /// Whether the version was named.
    pub(crate) older: bool,
}

/// The signer and the file name that a person specified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedOrigin<'a> {
    pub(crate) signer: Option<&'a ExpectedSigner>,
    pub(crate) file: Option<&'a str>,
}

impl Offer {
    /// Loads a component that was fetched, like any untrusted file, and judges it.
    pub(crate) async fn new(
        fetched: FetchedComponent,
        origins: &Origins,
        lock: &Lock,
        named: NamedOrigin<'_>,
    ) -> Result<Self, Failure> {
        let config = &origins.config;
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        let named_file = named.file.map(|name| name.trim_end_matches(".wasm"));
        let same_origin = lock.entries().find(|entry| entry.from == fetched.origin);
        let stem = named_file.or_else(|| Some(same_origin?.file.trim_end_matches(".wasm")));
        let component = load(&sandbox, &fetched, stem).await?;
        let descriptor = component.descriptor().clone();
        check_descriptor(&component, &fetched.origin, config)?;
        let asks = fetched.asks.as_deref().map(parse_manifest).transpose();
        let asks = asks.map_err(|why| refused(&fetched.origin, &format!("its manifest: {why}")))?;
        let surface = surface_of(&component);
        let before = lock.of(&descriptor.id).cloned();
        check_origin(before.as_ref(), &fetched.origin)?;
        let approvals = Approvals::load(config)?;
        let recorded = before.as_ref().map(|before| RecordedVersion {
            signed: before.signed.as_ref(),
            is_accepted: approvals.has_accepted(&before.id, before.wasm.hex()),
        });
        let verdict = config.trust.judge(&fetched.origin, &fetched.evidence, named.signer, recorded)?;
        let file = match (named_file, &before) {
            (None, Some(before)) => before.file.clone(),
            (name, _) => format!("{}.wasm", name.unwrap_or(&descriptor.id)),
        };
        let entry = entry(&fetched, &descriptor.id, file, &surface, &verdict)?;
        lock.clone().set(entry.clone())?;
        if before.is_none() {
            check_installed(&sandbox, &entry, config).await?;
        }
        let mut news = approvals.excess_over(asks.as_ref(), &surface);
        let approved = approvals.of(&descriptor.id);
        let is_known = approved.is_some();
        if asks.is_none() && approved.and_then(|approved| approved.asks.as_ref()).is_some() {
            // Without a manifest, it receives all grants, including those that the old manifest did
            // not request.
            news.push(format!("{WHATEVER}: its manifest is gone"));
        }
        let there = match &before {
            Some(before) => installed(&sandbox, origins, before).await,
            None => None,
        };
        if let (false, Some(there)) = (is_known, &there) {
            // There is no decision about the installed version here, so its own requests are the measure.
            news.extend(there.excess_over(asks.as_ref(), &surface));
        }
        let older = older(before.as_ref(), there.as_ref(), &entry, &descriptor);
        let offered = Version::new(&component, asks.clone(), fetched.metadata.clone(), fetched.wasm.len());
        let differences =
            before.as_ref().map(|before| Differences::between(before, &entry, there.as_ref(), &offered));
        Ok(Self {
            is_measured: is_known || there.is_some(),
            news,
            reworded: approvals.reworded(&surface),
            imports: offered.imports,
            fetched,
            descriptor,
            surface,
            asks,
            verdict,
            entry,
            before,
            older,
            differences,
        })
    }

    /// Returns whether it differs from the recorded one.
    pub(crate) fn is_new(&self) -> bool {
        self.before.as_ref() != Some(&self.entry)
    }

    /// Returns whether a person has to decide about its signer, or that it has none.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.verdict, Verdict::Ask { .. })
    }

    /// Returns whether it is the recorded version, and nothing about it is to be decided.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_new() && !self.is_open() && self.news.is_empty() && self.reworded.is_empty()
    }

    /// Returns whether its manifest requests anything.
    pub(crate) fn asks_something(&self) -> bool {
        self.asks.as_ref().is_some_and(|asks| !asks.is_empty())
    }

    fn proof(&self) -> Option<&Proof> {
        match &self.verdict {
            Verdict::Accepted { proof, .. } | Verdict::Ask { proof, .. } => proof.as_ref(),
        }
    }

    /// Returns whether it is accepted, either by consent on the command line or by the person at
    /// the terminal.
    ///
    /// # Errors
    /// A person has to decide, and there is no terminal.
    pub(crate) fn decide(&self, consent: Consent, output: &Output) -> Result<bool, Failure> {
        if self.is_agreed(consent) {
            return Ok(true);
        }
        if !can_ask(output) {
            let id = &self.entry.id;
            let done = if self.before.is_some() { "updated" } else { "installed" };
            return Err(Failure::undecided(format!(
                "{id} was not {done}: a person has to decide about it; run the command on a terminal"
            )));
        }
        if matches!(self.verdict, Verdict::Ask { is_held: true, .. }) {
            output.say(&format!(
                "Type the id {} to accept the new signer, or press Enter to cancel:",
                self.entry.id
            ));
            return Ok(read_line()? == self.entry.id);
        }
        output.say("Install it? Type y, or press Enter to cancel:");
        Ok(matches!(read_line()?.to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    fn is_agreed(&self, consent: Consent) -> bool {
        let is_modest = match &self.before {
            Some(_) if self.is_measured => self.reworded.is_empty(),
            _ => self.asks.as_ref().is_none_or(RequestedGrants::is_empty),
        };
        let asks_nothing = is_modest && self.news.is_empty();
        let vouched = match &self.verdict {
            Verdict::Accepted { vouched, .. } => *vouched || consent.pinned,
            Verdict::Ask { is_held: true, .. } => false,
            Verdict::Ask { proof: Some(_), .. } => consent.pinned,
            Verdict::Ask { proof: None, .. } => consent.pinned && consent.unsigned,
        };
        consent.yes && asks_nothing && vouched && (self.older.is_none() || consent.older)
    }

    /// Installs it, and records that it was approved.
    pub(crate) async fn install(&self, origins: &Origins, globals: &Globals) -> Result<(), Failure> {
        // A component whose approval cannot be recorded is not installed.
        let store = open_store(globals)?;
        let key = self.entry.signed.as_ref().and_then(|signed| match signed {
            SignerEvidence::Key { key, .. } => self.fetched.key(key),
            _ => None,
        });
        let bundle = self.entry.signed.as_ref().and_then(|signed| self.fetched.bundle(signed.bundle()));
        let manifest = self.fetched.artifact.as_ref().map(|artifact| artifact.manifest.as_slice());
        // The lock file alone accepts nothing, so that the decision is on disk before the entry. If the program
        // is killed in between, `sync` completes what was accepted.
        let mut approvals = Approvals::load(&origins.config)?;
        let digest = self.fetched.digest.hex();
        let approved = ComponentApproval::now(Decision::Approved, digest, self.asks.clone(), &self.surface);
        let accepted = match approvals.of(&self.entry.id) {
            Some(before) => ComponentApproval { installing: Some(digest.to_owned()), ..before.clone() },
            None => approved.clone(),
        };
        approvals.decide(&self.entry.id, accepted).map_err(|e| not_written(&e))?;
        origins.files.install(&Installation {
            entry: &self.entry,
            wasm: &self.fetched.wasm,
            asks: self.fetched.asks.as_deref(),
            bundle,
            manifest,
            key,
            replaces: self.before.as_ref(),
        })?;
        let mut changes = Changes::begin(&grants::file_of(&origins.config)).map_err(|e| not_written(&e))?;
        approvals.prepare(&mut changes, &self.entry.id, approved).map_err(|e| not_written(&e))?;
        let signer = self.proof().map_or_else(|| "no one".to_owned(), |proof| proof.signed.to_string());
        let record = AuditRecord::new(AuditKind::Grant, "person", "approved")
            .of_component(self.entry.id.as_str(), Some(digest.into()))
            .because(&format!("installed from {}, signed by {signer}", self.entry.from));
        let audit_subject = AuditSubject { id: &self.entry.id, digest: Some(digest) };
        settle(&*store, audit_subject, vec![record], changes).await
    }
}
