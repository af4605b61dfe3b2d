//! The sizes of the records of threads and components, as far as this host knows them. Without them, each call
//! would read its sizes, and each commit of a call would change the row of its component, for which the commits of
//! other runs wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a size that was read is used. Additions by other hosts are not known meanwhile.
const USED_FOR: Duration = Duration::from_secs(1);
/// The number of sizes beyond which old ones are dropped.
const MAX_SIZES: usize = 1_024;
/// The size of a component is written with the commits with which runs come to rest, and as soon as what is not
/// written is one part in this many of its limit.
const UNWRITTEN_PART: u64 = 16 * 1_024;

/// The sizes in bytes, by the id of the thread or component.
#[derive(Default)]
pub(crate) struct RecordSizes(Mutex<Sizes>);

#[derive(Default)]
struct Sizes {
    threads: HashMap<String, ReadSize>,
    components: HashMap<String, ReadSize>,
    /// The sizes that runs of this host have added to components, and that are not written yet.
    unwritten: BTreeMap<String, u64>,
}

/// A size as it was read, with what this host has written since.
struct ReadSize {
    bytes: u64,
    read_at: Instant,
}

/// The sizes that a commit adds to components.
#[derive(Default)]
pub(crate) struct AddedSizes {
    own: Vec<(String, u64)>,
    /// The sizes that it writes, by component: nothing, or its own and those of earlier commits.
    pub(crate) written: Vec<(String, u64)>,
    earlier: BTreeMap<String, u64>,
    writes: bool,
}

impl RecordSizes {
    fn lock(&self) -> MutexGuard<'_, Sizes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sizes of a thread and of a component, 0 for those that are not asked for; `None` if one of
    /// them is not known.
    pub(crate) fn known(&self, thread_id: Option<&str>, component_id: Option<&str>) -> Option<(u64, u64)> {
        let sizes = self.lock();
        let of = |all: &HashMap<String, ReadSize>, id: Option<&str>| match id {
            Some(id) => all.get(id).filter(|size| size.is_used()).map(|size| size.bytes),
            None => Some(0),
        };
        let of_thread = of(&sizes.threads, thread_id)?;
        Some((of_thread, of(&sizes.components, component_id)? + sizes.unwritten_of(component_id)))
    }

    /// Keeps the size of a thread that was just read.
    pub(crate) fn keep_thread(&self, thread_id: &str, bytes: u64) {
        keep(&mut self.lock().threads, thread_id, bytes);
    }

    /// Keeps the size of a component that was just read, and returns it with what is not written yet.
    pub(crate) fn keep_component(&self, component_id: &str, bytes: u64) -> u64 {
        let mut sizes = self.lock();
        keep(&mut sizes.components, component_id, bytes);
        bytes + sizes.unwritten_of(Some(component_id))
    }

    /// Decides what a commit writes that adds these sizes. `limit` is that of each component, and `rests`
    /// whether its run comes to rest.
    pub(crate) fn add(&self, own: Vec<(String, u64)>, rests: bool, limit: u64) -> AddedSizes {
        let mut sizes = self.lock();
        let is_much =
            |(id, bytes): &(String, u64)| sizes.unwritten_of(Some(id)) + bytes >= limit / UNWRITTEN_PART;
        if !rests && !own.iter().any(is_much) {
            return AddedSizes { own, ..AddedSizes::default() };
        }
        let earlier = std::mem::take(&mut sizes.unwritten);
        let mut all = earlier.clone();
        add_all(&mut all, &own);
        // Concurrent commits lock the rows in one order.
        AddedSizes { own, written: all.into_iter().collect(), earlier, writes: true }
    }

    /// Removes and returns the sizes of components that are not written yet.
    pub(crate) fn take_unwritten(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.lock().unwritten)
    }

    /// Records that the commit was stored, with this size of its thread's records.
    pub(crate) fn stored(&self, added: AddedSizes, thread_id: &str, bytes: u64) {
        let mut sizes = self.lock();
        if let Some(size) = sizes.threads.get_mut(thread_id) {
            size.bytes += bytes;
        }
        for (id, bytes) in &added.written {
            if let Some(size) = sizes.components.get_mut(id) {
                size.bytes += bytes;
            }
        }
        if !added.writes {
            add_all(&mut sizes.unwritten, &added.own);
        }
    }

    /// Records that the commit was not stored, or that its result is unknown. If it was stored after all, the sizes
    /// of earlier commits that it wrote count twice: for each component, one part in [`UNWRITTEN_PART`] of its limit
    /// at most.
    pub(crate) fn refused(&self, added: &AddedSizes) {
        let earlier: Vec<_> = added.earlier.iter().map(|(id, bytes)| (id.clone(), *bytes)).collect();
        add_all(&mut self.lock().unwritten, &earlier);
    }
}

impl Sizes {
    fn unwritten_of(&self, component_id: Option<&str>) -> u64 {
        component_id.and_then(|id| self.unwritten.get(id)).copied().unwrap_or_default()
    }
}

impl ReadSize {
    fn is_used(&self) -> bool {
        self.read_at.elapsed() < USED_FOR
    }
}

fn keep(all: &mut HashMap<String, ReadSize>, id: &str, bytes: u64) {
    if all.len() >= MAX_SIZES {
        all.retain(|_, size| size.is_used());
    }
    all.insert(id.to_owned(), ReadSize { bytes, read_at: Instant::now() });
}

fn add_all(all: &mut BTreeMap<String, u64>, added: &[(String, u64)]) {
    for (id, bytes) in added {
        *all.entry(id.clone()).or_default() += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100 * UNWRITTEN_PART;

    fn of(id: &str, bytes: u64) -> Vec<(String, u64)> {
        vec![(id.to_owned(), bytes)]
    }

    #[test]
    fn sizes_are_written_when_a_run_rests_or_much_is_not_written_and_nothing_is_lost() {
        let sizes = RecordSizes::default();
        let add = |own, rests| sizes.add(own, rests, LIMIT);
        let first = add(of("kit", 60), false);
        assert!(first.written.is_empty());
        sizes.stored(first, "t", 60);
        let refused = add(of("kit", 40), false);
        assert_eq!(refused.written, of("kit", 100), "a part of the limit");
        sizes.refused(&refused);
        let other = add(of("other", 5), false);
        sizes.stored(other, "t", 5);
        let last = add(Vec::new(), true);
        assert_eq!(last.written, [of("kit", 60), of("other", 5)].concat());
        sizes.stored(last, "t", 0);
        assert!(add(Vec::new(), true).written.is_empty());
    }

    #[test]
    fn a_size_is_known_for_a_while_with_what_this_host_adds() {
        let sizes = RecordSizes::default();
        assert_eq!(sizes.known(Some("t"), Some("kit")), None);
        sizes.keep_thread("t", 1_000);
        assert_eq!(
            (sizes.known(Some("t"), None), sizes.known(Some("t"), Some("kit"))),
            (Some((1_000, 0)), None)
        );
        assert_eq!(sizes.keep_component("kit", 500), 500);
        for (rests, component) in [(false, 510), (true, 520)] {
            let added = sizes.add(of("kit", 10), rests, LIMIT);
            sizes.stored(added, "t", 7);
            assert_eq!(sizes.known(None, Some("kit")), Some((0, component)));
        }
        assert_eq!(sizes.known(Some("t"), Some("kit")), Some((1_014, 520)));
    }
}
