//! Files moved from one granted directory to another while calls use them. A call that has such a
//! file open still writes to it, and those writes count against the directory where the file is
//! now.

use super::FileGrant;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

/// The maximum number of tracked moved files and directories of one granted directory while calls
/// use it. Further moves are refused, because an untracked file would count against the quota of
/// the wrong directory.
pub const MAX_MOVED: usize = 20_000;
/// The maximum number of moves of one file that are followed.
const MAX_MOVES: usize = 64;

/// A device number and an inode number.
pub(crate) type FileId = (u64, u64);

/// The moved content of a granted directory.
#[derive(Default)]
pub(super) struct MovedContent {
    notes: HashMap<FileId, Weak<FileGrant>>,
    /// The calls that may have files of the directory open. The records are not needed after
    /// these end.
    calls: usize,
}

impl MovedContent {
    fn latest(&self, file: FileId) -> Option<Arc<FileGrant>> {
        self.notes.get(&file)?.upgrade()
    }
}

/// A granted directory while a call uses it.
pub(crate) struct UsedGrant(Arc<FileGrant>);

impl Drop for UsedGrant {
    fn drop(&mut self) {
        let mut moved = self.0.moved();
        moved.calls -= 1;
        if moved.calls == 0 {
            moved.notes = HashMap::new();
        }
    }
}

impl FileGrant {
    /// Marks the directory as used by a call until the returned guard is dropped.
    pub(crate) fn begin_use(self: &Arc<Self>) -> UsedGrant {
        self.moved().calls += 1;
        UsedGrant(Arc::clone(self))
    }

    /// Records that these files and directories are in another granted directory from now on.
    /// Returns `false` if too many are recorded already and they must not be moved.
    #[must_use]
    pub(crate) fn note_moved(&self, files: &[FileId], to: &Arc<Self>) -> bool {
        let mut moved = self.moved();
        if moved.notes.len() + files.len() > MAX_MOVED {
            return false;
        }
        moved.notes.extend(files.iter().map(|file| (*file, Arc::downgrade(to))));
        true
    }

    /// Removes the records of these files and directories.
    pub(crate) fn forget_moved(&self, files: &[FileId]) {
        let mut moved = self.moved();
        if !moved.notes.is_empty() {
            files.iter().for_each(|file| drop(moved.notes.remove(file)));
        }
    }

    /// Returns the grant to which a directory of this grant belongs now, after a file was opened
    /// through it. Removes older records of the file's inode number, because numbers are reused.
    pub(crate) fn note_opened(self: &Arc<Self>, through: &File, opened: &File) -> Arc<Self> {
        let mut grant = Arc::clone(self);
        for _ in 0..MAX_MOVES {
            // One lock for both steps, so that the directory is not moved in between.
            let mut moved = grant.moved();
            if moved.notes.is_empty() {
                break;
            }
            let next = id_of(through).and_then(|directory| moved.latest(directory));
            let Some(next) = next else {
                id_of(opened).into_iter().for_each(|opened| drop(moved.notes.remove(&opened)));
                break;
            };
            drop(moved);
            grant = next;
        }
        grant
    }

    /// Returns the grant to which an open file or directory of this grant belongs now.
    pub(crate) fn now_of(self: &Arc<Self>, open: &File) -> Arc<Self> {
        // A separate statement, so that the lock is released before it is taken again.
        let is_nothing_moved = self.moved().notes.is_empty();
        match is_nothing_moved {
            true => Arc::clone(self),
            false => id_of(open).map_or_else(|| Arc::clone(self), |file| self.now_of_id(file)),
        }
    }

    /// Returns the grant to which the file with this inode number belongs now.
    pub(crate) fn now_of_id(self: &Arc<Self>, file: FileId) -> Arc<Self> {
        let mut grant = Arc::clone(self);
        for _ in 0..MAX_MOVES {
            let next = grant.moved().latest(file);
            match next {
                Some(next) => grant = next,
                None => break,
            }
        }
        grant
    }

    fn moved(&self) -> MutexGuard<'_, MovedContent> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id_of(open: &File) -> Option<FileId> {
    open.metadata().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grants::FileAccess;

    /// A guest that moves many files must not make the host forget the first one.
    #[test]
    fn z7_a_move_that_cannot_be_noted_is_refused_and_none_is_forgotten_while_it_matters() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let open = |path: &str| Arc::new(FileGrant::open(&real, path, FileAccess::ReadWrite).unwrap());
        let (first, second) = (open("/first"), open("/second"));
        let (call, other) = (first.begin_use(), first.begin_use());
        let many: Vec<FileId> = (0..MAX_MOVED as u64).map(|number| (1, number)).collect();
        assert!(first.note_moved(&many, &second));
        assert!(!first.note_moved(&[(2, 0)], &second), "it could not be followed");
        drop(call);
        assert!(Arc::ptr_eq(&first.now_of_id((1, 0)), &second), "another call may have it open");
        first.forget_moved(&many[1..]);
        assert!(first.note_moved(&[(2, 0)], &second));
        drop(other);
        assert!(Arc::ptr_eq(&first.now_of_id((1, 0)), &first), "no call has it open");
        assert!(first.note_moved(&many, &second));
    }
}
