//! A component's code, linked: by the contract that it was built for, or by the
//! functions that it exports.

use crate::error::Refusal;
use crate::instance::Instance;
use crate::load::{CodeShare, Exports, LoadedCode};
use crate::plain::Plain;
use crate::sandbox::Shared as Host;
use crate::termination::Termination;
use crate::v0_1_0::{Tool, ToolPre};
use std::sync::OnceLock;
use tollgate_agent::text::clean;
use wasmtime::component::Component as Compiled;

pub(super) struct Code {
    compiled: Compiled,
    pub(super) entry: Entry,
    /// Made when it is first asked something sealed. Its linker is of the other's
    /// shape, so what links there links here.
    sealed: OnceLock<ToolPre<Instance>>,
    /// The memory of the code.
    _share: CodeShare,
}

/// How its tools are called.
pub(super) enum Entry {
    /// As the contract says.
    Contract(Tool),
    /// As the functions that they are.
    Plain(Plain),
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
            Refusal::new(format!("{name} does not fit the interfaces that it names: {why}"))
        };
        let pre = host.real.instantiate_pre(&compiled).map_err(misfit)?;
        let entry = match exports {
            Exports::Contract => Entry::Contract(ToolPre::new(pre).and_then(Tool::new).map_err(misfit)?),
            Exports::Plain => Entry::Plain(Plain::link(&host.engine, name, &compiled, pre)?),
        };
        Ok(Self { compiled, entry, sealed: OnceLock::new(), _share: share })
    }

    /// Of a component of the contract, for what it is asked without power.
    pub(super) fn sealed(&self, host: &Host) -> Result<&ToolPre<Instance>, Termination> {
        if let Some(sealed) = self.sealed.get() {
            return Ok(sealed);
        }
        let sealed = host.sealed.instantiate_pre(&self.compiled).and_then(ToolPre::new);
        let sealed = sealed
            .map_err(|why| Termination::Host(format!("the sealed linker has another shape: {why:#}")))?;
        Ok(self.sealed.get_or_init(|| sealed))
    }
}
