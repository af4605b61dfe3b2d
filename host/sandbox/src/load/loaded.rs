//! The memory and descriptors of all loaded code, and of the files that it is made from.
//!
//! They are reserved before the code is loaded, and returned when the component is dropped.

use super::{Artifact, MAX_LOADING_BYTES};
use crate::budget::{CodeReservation, MemoryBudget, NoCodeMemory, Reservation};
use crate::description::held_bytes;
use crate::descriptors::{DescriptorPermit, Descriptors};
use crate::error::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
use wasmtime::Engine;
use wasmtime::component::Component;

/// How long loading waits for calls to return memory.
const PATIENCE: Duration = Duration::from_secs(15);

/// The limits of all loaded code, and their current use.
pub(crate) struct CodeMemory {
    used_bytes: Arc<AtomicU64>,
    most_bytes: u64,
    budget: MemoryBudget,
    /// The bytes of all files that are being checked and compiled.
    files: MemoryBudget,
    descriptors: Descriptors,
}

/// The memory of a file that is being checked and compiled, returned on drop.
#[derive(Debug)]
pub(crate) struct FileShare {
    _budget: CodeReservation,
    _files: Reservation,
}

/// The memory of one component's code, returned on drop.
#[derive(Debug)]
pub(crate) struct CodeShare {
    _budget: CodeReservation,
    _bytes: CodeBytes,
    images: Option<DescriptorPermit>,
    _metadata: Option<CodeReservation>,
}

/// The memory of one component's description, returned on drop.
#[derive(Debug)]
pub(crate) struct DescriptionShare {
    _budget: CodeReservation,
}

/// A part of `loaded_code_bytes`, returned on drop.
#[derive(Debug)]
struct CodeBytes {
    used_bytes: Arc<AtomicU64>,
    bytes: u64,
}

/// Callable code, with its share of the memory.
pub(crate) struct LoadedCode {
    pub(crate) component: Component,
    /// Held for as long as the component is.
    pub(crate) share: CodeShare,
}

/// The reason why there is no room for code.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NoRoomForCode {
    /// Loaded code takes all of `loaded_code_bytes`.
    Limit { bytes: u64, used_bytes: u64, most_bytes: u64, places: &'static LimitPlaces },
    /// The memory budget has no room for it.
    Budget {
        what: &'static str,
        bytes: u64,
        code_bytes: u64,
        total_bytes: u64,
        why: NoCodeMemory,
        places: &'static LimitPlaces,
    },
    /// The images of other components hold the descriptors.
    Descriptors { images: u32, most: usize },
}

impl CodeMemory {
    pub(crate) fn new(most_bytes: u64, budget: MemoryBudget, descriptors: Descriptors) -> Self {
        let files = MemoryBudget::new(MAX_LOADING_BYTES);
        Self { used_bytes: Arc::default(), most_bytes, budget, files, descriptors }
    }

    /// Reserves the memory of a file that is about to be read. Waits for other files, and for calls
    /// to return memory.
    pub(crate) async fn reserve_for_file(&self, bytes: u64) -> Result<FileShare, NoRoomForCode> {
        let files = self.files.reserve(bytes).await;
        Ok(FileShare { _budget: self.of_budget("file", bytes).await?, _files: files })
    }

    /// Reserves this many bytes. May wait for calls to return memory, so it must run on a thread
    /// that may block.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<CodeShare, NoRoomForCode> {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.most_bytes);
        let (most_bytes, places) = (self.most_bytes, self.budget.limit_places());
        let counted = self
            .used_bytes
            .fetch_update(Relaxed, Relaxed, more)
            .map_err(|used_bytes| NoRoomForCode::Limit { bytes, used_bytes, most_bytes, places });
        counted?;
        let counted = CodeBytes { used_bytes: Arc::clone(&self.used_bytes), bytes };
        let reserved = Handle::current().block_on(self.of_budget("compiled form", bytes))?;
        Ok(CodeShare { _budget: reserved, _bytes: counted, images: None, _metadata: None })
    }

    /// Reserves the memory of a description that takes this many bytes once parsed. May wait for
    /// calls to return memory.
    pub(crate) async fn reserve_for_description(
        &self,
        parsed_bytes: u64,
    ) -> Result<DescriptionShare, NoRoomForCode> {
        let budget = self.of_budget("description", held_bytes(parsed_bytes)).await?;
        Ok(DescriptionShare { _budget: budget })
    }

    /// Reserves the memory of compiled patterns. May wait for calls to return memory.
    pub(crate) async fn reserve_for_patterns(&self, bytes: u64) -> Result<DescriptionShare, NoRoomForCode> {
        Ok(DescriptionShare { _budget: self.of_budget("set of compiled patterns", bytes).await? })
    }

    async fn of_budget(&self, what: &'static str, bytes: u64) -> Result<CodeReservation, NoRoomForCode> {
        self.budget.reserve_for_code(bytes, PATIENCE).await.map_err(|why| NoRoomForCode::Budget {
            what,
            bytes,
            code_bytes: self.budget.code_bytes(),
            total_bytes: self.budget.total_bytes(),
            why,
            places: self.budget.limit_places(),
        })
    }

    /// Makes code callable once descriptors for the images of its memories are available, and memory for its
    /// types and names, which take many times their size in the compiled form. May wait as [`reserve`](Self::reserve)
    /// does.
    pub(crate) fn load(
        &self,
        engine: &Engine,
        artifact: &Artifact,
        mut share: CodeShare,
    ) -> Result<wasmtime::Result<LoadedCode>, NoRoomForCode> {
        let images = artifact.images();
        let held = self.descriptors.for_images(images);
        let most = self.descriptors.max();
        share.images = Some(held.ok_or(NoRoomForCode::Descriptors { images, most })?);
        let metadata = self.of_budget("list of types and names", artifact.metadata_bytes());
        share._metadata = Some(Handle::current().block_on(metadata)?);
        Ok(artifact.load(engine).map(|component| LoadedCode { component, share }))
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }
}

impl Drop for CodeBytes {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

impl NoRoomForCode {
    /// Continues a sentence that begins with the component's name.
    pub(crate) fn refusal(self, name: &str) -> Refusal {
        let kib = |bytes: u64| bytes.div_ceil(1 << 10);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        Refusal::for_want_of_room(match self {
            Self::Limit { bytes, used_bytes, most_bytes, places } => format!(
                "{name} is not loaded: its compiled form takes {} KiB, and those of the components that are loaded \
                 take {} MiB of {} MiB (loaded_code_bytes = {most_bytes}); remove components, or raise \
                 loaded_code_bytes{}",
                kib(bytes),
                mib(used_bytes),
                most_bytes >> 20,
                places.of(LimitScope::Host),
            ),
            Self::Budget { what, bytes, code_bytes, total_bytes, why: NoCodeMemory::Half, places } => {
                format!(
                    "{name} is not loaded: its {what} takes {} KiB, the components that are loaded take {} KiB, and at \
                 least half of the memory budget is kept for calls (memory_budget_bytes = {total_bytes}); remove components, or raise memory_budget_bytes{}",
                    kib(bytes),
                    kib(code_bytes),
                    places.of(LimitScope::Host),
                )
            }
            Self::Budget { what, bytes, total_bytes, why: NoCodeMemory::Busy, places, .. } => format!(
                "{name} is not loaded: its {what} takes {} KiB, and calls hold the memory budget \
                 (memory_budget_bytes = {total_bytes}); try again later, or raise memory_budget_bytes{}",
                kib(bytes),
                places.of(LimitScope::Host),
            ),
            Self::Descriptors { images, most } => format!(
                "{name} is not loaded: the images of its memories take {images} descriptors, and those of all \
                 components may take {most}, a quarter of the process's limit on open files (ulimit -n); remove \
                 components, or raise that limit",
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::termination::Termination;
    use tollgate_agent::code::Code;

    fn memory(most_bytes: u64, budget_bytes: u64) -> CodeMemory {
        CodeMemory::new(most_bytes, MemoryBudget::new(budget_bytes), Descriptors::within(40))
    }

    /// Reserves as loading does, on a thread that may block.
    async fn on_thread(work: impl FnOnce() + Send + 'static) {
        tokio::task::spawn_blocking(work).await.unwrap();
    }

    #[tokio::test]
    async fn z4_memory_for_code_is_bounded_and_comes_back() {
        on_thread(|| {
            let memory = memory(100, 1 << 20);
            let first = memory.reserve(60);
            assert!(first.is_ok() && memory.reserve(41).is_err() && memory.reserve(u64::MAX).is_err());
            let second = memory.reserve(40);
            assert!(second.is_ok() && memory.used_bytes() == 100);
            drop((first, second));
            assert_eq!(memory.used_bytes(), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn z4_code_is_part_of_the_memory_budget_and_leaves_half_of_it() {
        on_thread(|| {
            let memory = memory(1 << 30, 64 << 10);
            let first = memory.reserve(20 << 10).unwrap();
            assert_eq!(memory.budget.code_bytes(), 20 << 10);
            let refused = memory.reserve(13 << 10).unwrap_err().refusal("x").to_string();
            assert!(refused.contains("memory_budget_bytes = 65536"), "{refused}");
            assert_eq!(memory.used_bytes(), 20 << 10, "what was refused takes nothing");
            drop(first);
            assert_eq!((memory.budget.code_bytes(), memory.used_bytes()), (0, 0));
        })
        .await;
    }

    #[tokio::test]
    async fn z4_a_file_that_is_being_loaded_is_part_of_the_memory_budget() {
        let memory = memory(1 << 30, 64 << 10);
        let first = memory.reserve_for_file(20 << 10).await.unwrap();
        assert_eq!(memory.budget.code_bytes(), 20 << 10);
        let refused = memory.reserve_for_file(13 << 10).await.unwrap_err().refusal("x").to_string();
        assert!(refused.contains("its file takes 13 KiB"), "{refused}");
        drop(first);
        assert_eq!(memory.budget.code_bytes(), 0);
        assert!(memory.reserve_for_file(13 << 10).await.is_ok());
    }

    #[tokio::test]
    async fn z4_the_images_of_all_components_have_a_bound() {
        on_thread(|| {
            let (memory, engine) = (memory(1 << 30, 1 << 20), Engine::default());
            let component = engine.precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
            let load = |images| {
                let artifact = Artifact::compiled(component.clone(), images, 4_096);
                memory.load(&engine, &artifact, memory.reserve(1).unwrap()).map(Result::unwrap)
            };
            let first = load(7).unwrap();
            let refused = load(4).err().unwrap().refusal("x").to_string();
            assert!(refused.contains("4 descriptors") && refused.contains("ulimit -n"), "{refused}");
            assert!(load(3).is_ok());
            drop(first);
            assert!(load(10).is_ok());
        })
        .await;
    }

    #[test]
    fn z4_a_call_without_room_for_its_code_is_overloaded_and_no_fault_of_the_host() {
        let full = Termination::of_refusal(Refusal::for_want_of_room("all of it is taken"));
        assert_eq!(full.code(), Code::Overloaded);
        let lost = Termination::of_refusal(Refusal::new("its file has changed"));
        assert_eq!(lost.code(), Code::HostFailed);
    }
}
