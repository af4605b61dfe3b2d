//! Loads gates, and components of unknown kind.

use super::Sandbox;
use crate::blocking::loading;
use crate::component::Component;
use crate::error::Refusal;
use crate::gate::GateComponent;
use crate::load::{self, Artifact, FileShare, Identity, LoadedCode, Origin};
use crate::plain::Docs;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// A component of either kind.
pub enum Guest {
    /// A component with tools.
    Tools(Component),
    /// A gate.
    Gate(GateComponent),
}

/// A component that can be linked.
struct LinkableComponent {
    identity: Identity,
    code: LoadedCode,
    artifact: Artifact,
    docs: Docs,
}

impl Sandbox {
    /// Reads, checks and compiles a gate, and asks it to describe itself. A gate with imports is
    /// refused, and the reason names the import.
    ///
    /// # Errors
    /// Fails if the file is not a gate component, or breaks a rule of loading.
    pub async fn load_gate(&self, path: impl AsRef<Path>) -> Result<GateComponent, Refusal> {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        let (inner, of_thread) = (Arc::clone(&self.inner), name.clone());
        let (bytes, room) = loading(move || {
            let opened = load::OpenedFile::at(&path)?;
            opened.check_header()?;
            inner.read(&of_thread, opened)
        })
        .await?;
        let linkable = self.linkable(&name, bytes.into(), Some(room)).await?;
        self.describe_gate(&name, linkable).await
    }

    /// Loads a gate like [`load_gate`](Self::load_gate), from bytes that were read already.
    /// Messages refer to them as `name`.
    ///
    /// # Errors
    /// The same as [`load_gate`](Self::load_gate).
    pub async fn load_gate_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<GateComponent, Refusal> {
        let linkable = self.linkable(name, bytes.into(), None).await?;
        self.describe_gate(name, linkable).await
    }

    /// Loads the bytes like [`load`](Self::load) or [`load_gate`](Self::load_gate), depending on
    /// their kind. They are not copied.
    ///
    /// # Errors
    /// The same as those.
    pub async fn load_either(&self, name: &str, bytes: Bytes) -> Result<Guest, Refusal> {
        let linkable = self.linkable(name, bytes, None).await?;
        if load::exports_a_gate(&self.inner.engine, &linkable.code.component) {
            return Ok(Guest::Gate(self.describe_gate(name, linkable).await?));
        }
        let LinkableComponent { identity, code, artifact, docs } = linkable;
        let origin = Origin { name: name.to_owned(), identity, file: None };
        let linked = Component::link(Arc::clone(&self.inner), origin, code)?;
        Ok(Guest::Tools(self.describe(linked, docs, artifact).await?))
    }

    /// Reads a component's file like [`load`](Self::load): once, following no link.
    ///
    /// # Errors
    /// Fails if it is not a regular file, or is too large.
    pub async fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Refusal> {
        let path = path.as_ref().to_owned();
        loading(move || load::read(&path)).await
    }

    async fn describe_gate(&self, name: &str, linkable: LinkableComponent) -> Result<GateComponent, Refusal> {
        let LinkableComponent { identity, code, artifact, docs: _ } = linkable;
        let linked = GateComponent::link(Arc::clone(&self.inner), name.to_owned(), identity.digest, code)?;
        let described = linked.describe().await;
        let inner = Arc::clone(&self.inner);
        // A gate is asked to describe itself at each start. Its descriptor is never taken from
        // the cache, which holds only descriptors of tools.
        loading(move || {
            inner.keep(&identity.fingerprint, None, &artifact);
            Ok(())
        })
        .await?;
        described
    }

    /// Checks and compiles the component, or uses the cached code of the same bytes. Their memory is
    /// reserved here unless that was done before they were read.
    async fn linkable(
        &self,
        name: &str,
        bytes: Bytes,
        room: Option<FileShare>,
    ) -> Result<LinkableComponent, Refusal> {
        let (inner, of_thread) = (Arc::clone(&self.inner), name.to_owned());
        let (identity, found, checked, docs) = loading(move || {
            let identity = Identity::of(&bytes);
            if let Some(found) = inner.kept_code(&of_thread, &identity.fingerprint)? {
                return Ok((identity, Some(found), None, Docs::of(&bytes)));
            }
            let room = inner.room_for_file(&of_thread, bytes.len() as u64, room)?;
            let checked = load::check(&of_thread, bytes)?;
            let docs = Docs::of(&checked.bytes);
            Ok((identity, None, Some((Arc::new(checked), room)), docs))
        })
        .await?;
        if let Some((code, artifact)) = found {
            return Ok(LinkableComponent { identity, code, artifact, docs });
        }
        let Some((checked, room)) = checked else {
            return Err(Refusal::new(format!("{name} was neither compiled nor checked")));
        };
        let artifact = self.inner.compile(name, &identity.fingerprint, &checked).await?;
        drop((checked, room));
        let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
        let (code, artifact) =
            loading(move || inner.load(&name, &artifact).map(|code| (code, artifact))).await?;
        Ok(LinkableComponent { identity, code, artifact, docs })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::SandboxConfig;

    #[tokio::test(flavor = "multi_thread")]
    async fn z4_what_is_compiled_is_part_of_the_memory_budget_however_it_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large.wasm");
        let bytes = [b"\0asm\x0d\0\x01\0".as_slice(), &vec![0; 1 << 20]].concat();
        std::fs::write(&file, &bytes).unwrap();
        let config = SandboxConfig { memory_budget_bytes: 1 << 20, ..SandboxConfig::default() };
        let sandbox = Sandbox::new(config).unwrap();
        let refusals = [
            sandbox.load(&file).await.err(),
            sandbox.load_gate(&file).await.err(),
            sandbox.load_bytes("large", bytes.clone()).await.err(),
            sandbox.load_gate_bytes("large", bytes.clone()).await.err(),
            sandbox.load_either("large", bytes.into()).await.err(),
        ];
        for refused in refusals {
            let why = refused.unwrap().to_string();
            assert!(why.contains("its file takes") && why.contains("memory_budget_bytes"), "{why}");
        }
    }
}
