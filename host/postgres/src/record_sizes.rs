//! The sizes of the records of threads and components, as far as this host knows them. Without them, each call
//! would read its sizes, and each commit would change the row of its thread, and that of a component, for which the
//! commits of other runs wait. The size of a principal is the sum of those of its threads.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tollgate_store::StoreLimits;

/// How long a size that was read is used. Additions by other hosts are not known meanwhile.
const USED_FOR: Duration = Duration::from_secs(1);
/// How long the size of a principal is used. Reading it reads a row for each of its threads.
const PRINCIPAL_USED_FOR: Duration = Duration::from_secs(5);
/// The number of sizes beyond which old ones are dropped.
const MAX_SIZES: usize = 1_024;
/// A size is written with the commits with which runs come to rest, and as soon as what is not written is one part
/// in this many of its limit.
const UNWRITTEN_PART: u64 = 16 * 1_024;

/// The sizes in bytes.
#[derive(Default)]
pub(crate) struct RecordSizes(Mutex<Sizes>);

#[derive(Default)]
struct Sizes {
    threads: SizesById,
    components: SizesById,
    /// The sizes of principals, without those of their threads that are not written yet.
    principals: HashMap<String, ReadSize>,
}

/// The sizes of threads or of components, by id.
#[derive(Default)]
struct SizesById {
    read: HashMap<String, ReadSize>,
    /// The sizes that runs of this host have added, and that are not written yet.
    unwritten: BTreeMap<String, u64>,
}

/// A size as it was read, with what this host has written since.
struct ReadSize {
    bytes: u64,
    read_at: Instant,
}

/// The sizes that a commit adds.
pub(crate) struct RecordGrowth {
    pub(crate) thread: (String, u64),
    /// Whether the commit writes the row of its thread in any case.
    pub(crate) writes_thread: bool,
    pub(crate) components: Vec<(String, u64)>,
    /// Whether its run comes to rest.
    pub(crate) rests: bool,
}

/// The sizes that a commit adds, and those that it writes.
pub(crate) struct AddedSizes {
    pub(crate) thread: AddedById,
    pub(crate) components: AddedById,
}

/// The sizes that a commit adds to its thread or to components.
pub(crate) struct AddedById {
    /// The sizes that it writes, by id: nothing, or its own and those of earlier commits.
    pub(crate) written: Vec<(String, u64)>,
    /// The sizes of earlier commits that it writes.
    earlier: BTreeMap<String, u64>,
    /// Its own sizes, if a later commit writes them.
    deferred: Vec<(String, u64)>,
}

impl RecordSizes {
    fn lock(&self) -> MutexGuard<'_, Sizes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sizes of a thread and of a component, 0 for those that are not asked for; `None` if one of
    /// them is not known.
    pub(crate) fn known(&self, thread_id: Option<&str>, component_id: Option<&str>) -> Option<(u64, u64)> {
        let sizes = self.lock();
        let of = |all: &SizesById, id: Option<&str>| id.map_or(Some(0), |id| all.known(id));
        Some((of(&sizes.threads, thread_id)?, of(&sizes.components, component_id)?))
    }

    /// Keeps the size of a thread that was just read, and returns it with what is not written yet.
    pub(crate) fn keep_thread(&self, thread_id: &str, bytes: u64) -> u64 {
        self.lock().threads.keep(thread_id, bytes)
    }

    /// Keeps the size of a component that was just read, and returns it with what is not written yet.
    pub(crate) fn keep_component(&self, component_id: &str, bytes: u64) -> u64 {
        self.lock().components.keep(component_id, bytes)
    }

    /// Returns the size of a principal that was read in the last seconds, with what this host has added since. If it
    /// is old, one caller gets `None` and reads it again, and others use the old one meanwhile.
    pub(crate) fn known_principal(&self, principal: &str) -> Option<u64> {
        let mut sizes = self.lock();
        let size = sizes.principals.get_mut(principal)?;
        if size.read_at.elapsed() >= PRINCIPAL_USED_FOR {
            size.read_at = Instant::now();
            return None;
        }
        let bytes = size.bytes;
        Some(bytes + sizes.threads.unwritten_of_principal(principal))
    }

    /// Keeps the size of a principal that was just read, and returns it with what is not written yet.
    pub(crate) fn keep_principal(&self, principal: &str, bytes: u64) -> u64 {
        let mut sizes = self.lock();
        if sizes.principals.len() >= MAX_SIZES {
            sizes.principals.retain(|_, size| size.read_at.elapsed() < PRINCIPAL_USED_FOR);
        }
        sizes.principals.insert(principal.to_owned(), ReadSize { bytes, read_at: Instant::now() });
        bytes + sizes.threads.unwritten_of_principal(principal)
    }

    /// Decides which sizes a commit writes.
    pub(crate) fn add(&self, growth: RecordGrowth, limits: &StoreLimits) -> AddedSizes {
        let RecordGrowth { thread, writes_thread, components, rests } = growth;
        let mut sizes = self.lock();
        let of_thread = sizes.threads.unwritten_of(&thread.0);
        let writes_thread =
            rests || writes_thread || is_much(of_thread + thread.1, limits.thread_record_bytes);
        let earlier = if writes_thread { sizes.threads.unwritten.remove_entry(&thread.0) } else { None };
        let thread = AddedById::new(vec![thread], writes_thread, earlier.into_iter().collect());
        let is_much = |(id, bytes): &(String, u64)| {
            is_much(sizes.components.unwritten_of(id) + bytes, limits.component_record_bytes)
        };
        let writes = rests || components.iter().any(is_much);
        let earlier = if writes { std::mem::take(&mut sizes.components.unwritten) } else { BTreeMap::new() };
        AddedSizes { thread, components: AddedById::new(components, writes, earlier) }
    }

    /// Removes and returns the sizes of threads and of components that are not written yet.
    pub(crate) fn take_unwritten(&self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let mut sizes = self.lock();
        (std::mem::take(&mut sizes.threads.unwritten), std::mem::take(&mut sizes.components.unwritten))
    }

    /// Records that the commit was stored.
    pub(crate) fn stored(&self, added: AddedSizes) {
        let mut sizes = self.lock();
        for (thread_id, bytes) in &added.thread.written {
            if let Some((principal, _)) = thread_id.split_once('/')
                && let Some(size) = sizes.principals.get_mut(principal)
            {
                size.bytes += bytes;
            }
        }
        sizes.threads.stored(&added.thread);
        sizes.components.stored(&added.components);
    }

    /// Records that the commit was not stored, or that its result is unknown. If it was stored after all, the sizes
    /// of earlier commits that it wrote count twice: for each thread and component, one part in [`UNWRITTEN_PART`] of
    /// its limit at most.
    pub(crate) fn refused(&self, added: &AddedSizes) {
        let mut sizes = self.lock();
        add_all(&mut sizes.threads.unwritten, &added.thread.earlier);
        add_all(&mut sizes.components.unwritten, &added.components.earlier);
    }
}

impl AddedById {
    fn new(own: Vec<(String, u64)>, writes: bool, earlier: BTreeMap<String, u64>) -> Self {
        if !writes {
            return Self { written: Vec::new(), earlier, deferred: own };
        }
        let mut all = earlier.clone();
        add_all(&mut all, own.iter().map(|(id, bytes)| (id, bytes)));
        // Concurrent commits lock the rows in one order.
        Self { written: all.into_iter().collect(), earlier, deferred: Vec::new() }
    }

    /// Returns the sum of the sizes that are written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl SizesById {
    fn unwritten_of(&self, id: &str) -> u64 {
        self.unwritten.get(id).copied().unwrap_or_default()
    }

    fn unwritten_of_principal(&self, principal: &str) -> u64 {
        let prefix = format!("{principal}/");
        let own = self.unwritten.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        own.take_while(|(id, _)| id.starts_with(&prefix)).map(|(_, bytes)| bytes).sum()
    }

    /// Returns a size that was read recently, with what is not written yet.
    fn known(&self, id: &str) -> Option<u64> {
        let read = self.read.get(id).filter(|size| size.is_used())?;
        Some(read.bytes + self.unwritten_of(id))
    }

    fn keep(&mut self, id: &str, bytes: u64) -> u64 {
        if self.read.len() >= MAX_SIZES {
            self.read.retain(|_, size| size.is_used());
        }
        self.read.insert(id.to_owned(), ReadSize { bytes, read_at: Instant::now() });
        bytes + self.unwritten_of(id)
    }

    fn stored(&mut self, added: &AddedById) {
        for (id, bytes) in &added.written {
            if let Some(size) = self.read.get_mut(id) {
                size.bytes += bytes;
            }
        }
        add_all(&mut self.unwritten, added.deferred.iter().map(|(id, bytes)| (id, bytes)));
    }
}

impl ReadSize {
    fn is_used(&self) -> bool {
        self.read_at.elapsed() < USED_FOR
    }
}

/// Returns whether this many bytes have to be written, given their limit.
fn is_much(bytes: u64, limit: u64) -> bool {
    bytes >= limit / UNWRITTEN_PART
}

fn add_all<'a>(all: &mut BTreeMap<String, u64>, added: impl IntoIterator<Item = (&'a String, &'a u64)>) {
    for (id, bytes) in added {
        *all.entry(id.clone()).or_default() += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100 * UNWRITTEN_PART;
    const LIMITS: StoreLimits = StoreLimits {
        component_record_bytes: LIMIT,
        thread_record_bytes: LIMIT,
        principal_record_bytes: LIMIT,
        min_free_bytes: 0,
    };

    fn of(id: &str, bytes: u64) -> Vec<(String, u64)> {
        vec![(id.to_owned(), bytes)]
    }

    fn growth(thread_bytes: u64, components: Vec<(String, u64)>, rests: bool) -> RecordGrowth {
        RecordGrowth { thread: ("t".to_owned(), thread_bytes), writes_thread: false, components, rests }
    }

    #[test]
    fn sizes_are_written_when_a_run_rests_or_much_is_not_written_and_nothing_is_lost() {
        let sizes = RecordSizes::default();
        let add = |own, rests| sizes.add(growth(0, own, rests), &LIMITS);
        let first = add(of("kit", 60), false);
        assert!(first.components.written.is_empty());
        sizes.stored(first);
        let refused = add(of("kit", 40), false);
        assert_eq!(refused.components.written, of("kit", 100), "a part of the limit");
        sizes.refused(&refused);
        let other = add(of("other", 5), false);
        sizes.stored(other);
        let last = add(Vec::new(), true);
        assert_eq!(last.components.written, [of("kit", 60), of("other", 5)].concat());
        sizes.stored(last);
        assert!(add(Vec::new(), true).components.written.is_empty());
    }

    #[test]
    fn the_row_of_a_thread_is_written_when_a_run_rests_or_much_is_not_written_or_it_is_written_anyway() {
        let sizes = RecordSizes::default();
        let add = |bytes, rests| sizes.add(growth(bytes, Vec::new(), rests), &LIMITS);
        for bytes in [30, 30] {
            let added = add(bytes, false);
            assert_eq!(added.thread.written_bytes(), 0);
            sizes.stored(added);
        }
        let refused = add(40, false);
        assert_eq!(refused.thread.written_bytes(), 100, "a part of the limit");
        sizes.refused(&refused);
        assert_eq!(sizes.keep_thread("t", 1_000), 1_060);
        let anyway = RecordGrowth { writes_thread: true, ..growth(10, Vec::new(), false) };
        let anyway = sizes.add(anyway, &LIMITS);
        assert_eq!(anyway.thread.written, of("t", 70));
        sizes.stored(anyway);
        sizes.stored(add(5, false));
        assert_eq!(sizes.known(Some("t"), None), Some((1_075, 0)));
        assert_eq!(add(1, true).thread.written_bytes(), 6);
        let other = RecordGrowth { thread: ("u".to_owned(), 7), ..growth(0, Vec::new(), false) };
        sizes.stored(sizes.add(other, &LIMITS));
        assert_eq!(sizes.take_unwritten().0, BTreeMap::from([("u".to_owned(), 7)]));
    }

    #[test]
    fn the_size_of_a_principal_has_what_this_host_adds_to_its_threads() {
        let sizes = RecordSizes::default();
        let add = |thread_id: &str, bytes, rests| {
            let thread = (thread_id.to_owned(), bytes);
            let growth = RecordGrowth { thread, ..growth(0, Vec::new(), rests) };
            sizes.stored(sizes.add(growth, &LIMITS));
        };
        add("ada/x", 1, false);
        assert_eq!((sizes.known_principal("ada"), sizes.keep_principal("ada", 1_000)), (None, 1_001));
        add("ada/x", 2, true);
        add("ada/y", 10, false);
        for other in ["ada", "adam/x", "ada0", "bob/ada/x"] {
            add(other, 50, false);
            add(other, 50, true);
        }
        assert_eq!(sizes.known_principal("ada"), Some(1_013));
    }

    #[test]
    fn a_size_is_known_for_a_while_with_what_this_host_adds() {
        let sizes = RecordSizes::default();
        assert_eq!(sizes.known(Some("t"), Some("kit")), None);
        assert_eq!(sizes.keep_thread("t", 1_000), 1_000);
        assert_eq!(
            (sizes.known(Some("t"), None), sizes.known(Some("t"), Some("kit"))),
            (Some((1_000, 0)), None)
        );
        assert_eq!(sizes.keep_component("kit", 500), 500);
        for (rests, component) in [(false, 510), (true, 520)] {
            let added = sizes.add(growth(7, of("kit", 10), rests), &LIMITS);
            sizes.stored(added);
            assert_eq!(sizes.known(None, Some("kit")), Some((0, component)));
        }
        assert_eq!(sizes.known(Some("t"), Some("kit")), Some((1_014, 520)));
    }
}
