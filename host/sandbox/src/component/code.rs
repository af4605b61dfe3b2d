//! The linked code of a component, called through the contract that it was built for or through
//! the functions that it exports.

use crate::error::Refusal;
use crate::instance::Instance;
use crate::load::{CodeShare, Exports, LoadedCode};
use crate::plain::Plain;
use crate::shared::Shared as Host;
use crate::termination::Termination;
use crate::v0_1_0::{Tool, ToolPre};
use std::sync::{Arc, OnceLock};
use tollgate_agent::text::clean;
use wasmtime::component::Component as Compiled;

pub(super) struct Code {
    compiled: Compiled,
    pub(super) entry: Entry,
    /// Created by the first sealed call. Its linker has the same shape as the other one, so
    /// linking cannot fail here only.
    sealed: OnceLock<ToolPre<Instance>>,
    /// The memory of the code.
    _share: CodeShare,
}

/// The calling convention of the component's tools.
pub(super) enum Entry {
    /// Through the contract's `execute`.
    Contract(Tool),
    /// Through the exported functions directly.
    Plain(Arc<Plain>),
}

impl Code {
    pub(super) fn link(
        host: &Host,
        name: &str,
        code: LoadedCode,
        exports: &Exports,
    ) -> Result<Self, Refusal> {
        let LoadedCode { component: compiled, share } = code;
        let misfit = |why: wasmtime::Error| {
            let why = clean(&format!("{why:#}"), 1_000);
            Refusal::new(format!("{name} does not match the interfaces that it names: {why}"))
        };
        let pre = host.real.instantiate_pre(&compiled).map_err(misfit)?;
        let entry = match exports {
            Exports::Contract => Entry::Contract(ToolPre::new(pre).and_then(Tool::new).map_err(misfit)?),
            Exports::Plain => Entry::Plain(Arc::new(Plain::link(&host.engine, name, &compiled, pre)?)),
        };
        Ok(Self { compiled, entry, sealed: OnceLock::new(), _share: share })
    }

    /// Returns the sealed form of a contract component, for questions that need no power.
    pub(super) fn sealed(&self, host: &Host) -> Result<&ToolPre<Instance>, Termination> {
        if let Some(sealed) = self.sealed.get() {
            return Ok(sealed);
        }
        let sealed = host.sealed.instantiate_pre(&self.compiled).and_then(ToolPre::new);
        let sealed = sealed
            .map_err(|why| Termination::Host(format!("the sealed linker has a different shape: {why:#}")))?;
        Ok(self.sealed.get_or_init(|| sealed))
    }
}
