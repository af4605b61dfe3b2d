//! Decides which of several files may provide the component of an id.
//!
//! Grants belong to an id, so the first file to take an id must not get it automatically. The
//! version that a person decided about has it. Without a decision, a version that is already
//! served keeps it. Otherwise none of the files gets it until a person decides.

use super::file_name;
use super::refusal::FileRefusal;
use crate::grants::{self, Approvals, RequestedGrants};
use crate::tools::toolbox::FileRemedy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The claims of all loadable files.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims {
    by_file: BTreeMap<PathBuf, Claim>,
    /// The files that claim an id: of thousands of files, few claim the same.
    by_id: BTreeMap<String, BTreeSet<PathBuf>>,
    /// The digests of files that cannot be loaded, so that their claims are unknown.
    unloaded: BTreeMap<PathBuf, String>,
    /// Whether a claim was withdrawn since the last check.
    given_up: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    id: String,
    digest: String,
    /// The requests of the file's manifest; an error if it cannot be read.
    asks: Result<Option<RequestedGrants>, ()>,
}

/// The reason why a file may not provide the component that it claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContestedClaim {
    pub(super) refusal: FileRefusal,
    /// Whether a person may decide for this file. Between two identical files there is nothing
    /// to decide.
    pub(super) is_open: bool,
}

impl Claims {
    /// Records that a file with this digest cannot be loaded.
    pub(super) fn set_unloaded(&mut self, file: &Path, digest: String) {
        self.set(file, None);
        self.unloaded.insert(file.to_owned(), digest);
    }

    /// Records the claim of a file, or that it no longer claims anything.
    pub(super) fn set(&mut self, file: &Path, claim: Option<(&str, &str)>) {
        self.given_up |= self.unloaded.remove(file).is_some();
        let claim = claim.map(|(id, digest)| Claim {
            id: id.to_owned(),
            digest: digest.to_owned(),
            asks: grants::read_manifest(file).map_err(drop),
        });
        if let Some(claim) = &claim {
            self.by_id.entry(claim.id.clone()).or_default().insert(file.to_owned());
        }
        let before = match claim.clone() {
            Some(claim) => self.by_file.insert(file.to_owned(), claim),
            None => self.by_file.remove(file),
        };
        if let Some(before) =
            before.as_ref().filter(|before| Some(&before.id) != claim.as_ref().map(|c| &c.id))
            && let Some(files) = self.by_id.get_mut(&before.id)
        {
            files.remove(file);
            if files.is_empty() {
                self.by_id.remove(&before.id);
            }
        }
        self.given_up |= before.is_some() && before != claim;
    }

    /// Returns whether a claim was withdrawn since the last call, so that other files may be
    /// served.
    pub(super) fn were_given_up(&mut self) -> bool {
        std::mem::take(&mut self.given_up)
    }

    /// Decides whether this file may provide the component that it claims to be. `serving` is
    /// the file that does so now.
    pub(super) fn judge(
        &self,
        file: &Path,
        approvals: &Approvals,
        serving: Option<&Path>,
    ) -> Result<(), ContestedClaim> {
        let Some(claim) = self.by_file.get(file) else { return Ok(()) };
        let known = approvals.of(&claim.id).map(|approved| approved.digest.as_str());
        let is_known = |digest: &str| known == Some(digest);
        if known.is_some()
            && !is_known(&claim.digest)
            && let Some((file_of_known, _)) = self.unloaded.iter().find(|(_, digest)| is_known(digest))
        {
            let name = file_name(file_of_known);
            let why = format!("{name}, the version that was decided about, cannot be loaded");
            return Err(open(claim, file, file_of_known, &why));
        }
        let of_id = self.by_id.get(&claim.id);
        let rivals = || {
            let others = of_id.into_iter().flatten().filter(|other| *other != file);
            others.filter_map(|other| Some((other, self.by_file.get(other)?)))
        };
        let Some((first, _)) = rivals().next() else { return Ok(()) };
        let same = || rivals().filter(|(_, rival)| rival.digest == claim.digest);
        let are_all_the_same =
            || rivals().all(|(_, rival)| rival.digest == claim.digest && rival.asks == claim.asks);
        if is_known(&claim.digest) || are_all_the_same() {
            // Of identical files one is served: the one that already is, or the first whose
            // requests match the decision.
            let decided = approvals.of(&claim.id).map(|approved| approved.asks.as_ref());
            let asks_otherwise = |claim: &Claim| match (decided, &claim.asks) {
                (Some(decided), Ok(Some(asks))) => decided != Some(asks),
                (_, asks) => asks.is_err(),
            };
            let rank =
                |file: &Path, claim: &Claim| (serving != Some(file), asks_otherwise(claim), file.to_owned());
            let first = same().min_by_key(|(other, rival)| rank(other, rival));
            return match first.filter(|(first, rival)| rank(first, rival) < rank(file, claim)) {
                None => Ok(()),
                Some((first, _)) => Err(copy_of(claim, file, first)),
            };
        }
        if let Some((approved, _)) = rivals().find(|(_, rival)| is_known(&rival.digest)) {
            let name = file_name(approved);
            let why = format!("{name}, a version that was decided about, has it");
            return Err(open(claim, file, approved, &why));
        }
        match serving {
            Some(serving) if serving == file => Ok(()),
            Some(serving) => {
                Err(open(claim, file, serving, &format!("{} is served under it", file_name(serving))))
            }
            None => Err(open(claim, file, first, "none of them is approved, so none is served")),
        }
    }
}

fn copy_of(claim: &Claim, file: &Path, same: &Path) -> ContestedClaim {
    let reason = format!(
        "the id \"{}\" of {} is taken by {}, which has the same bytes; remove one of the two",
        claim.id,
        file_name(file),
        file_name(same)
    );
    ContestedClaim { refusal: reason.into(), is_open: false }
}

fn open(claim: &Claim, file: &Path, rival: &Path, why: &str) -> ContestedClaim {
    let reason = format!(
        "the id \"{}\" is claimed by {} and by {}: {why}. Look at both, then remove one of the two, or approve this one",
        claim.id,
        file_name(file),
        file_name(rival)
    );
    let (file, rival) = (file.to_owned(), rival.to_owned());
    let remedy = FileRemedy::ApproveOne { id: claim.id.clone(), file, rival };
    ContestedClaim { refusal: FileRefusal::new(reason, remedy), is_open: true }
}
