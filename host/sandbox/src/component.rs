//! A loaded component: what it says about itself, and its tools to call.

use crate::attempt::{Attempt, Call, Console};
use crate::import::Import;
use std::sync::Arc;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::proposal::Arguments;

/// A component that was loaded. Cloning is cheap; calls keep the version on which
/// they began for as long as they run.
#[derive(Clone)]
pub struct Component {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    digest: String,
    imports: Vec<Import>,
    descriptor: ComponentDescriptor,
}

impl Component {
    /// What stands for it in messages: the file's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The SHA-256 of its bytes, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }

    /// The interfaces that it imports, sorted.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.inner.imports
    }

    /// What it says about itself. The catalog checks it; here it is only bounded.
    #[must_use]
    pub fn descriptor(&self) -> &ComponentDescriptor {
        &self.inner.descriptor
    }

    /// Runs a permitted call once, in a fresh instance.
    pub async fn call(&self, call: Call<'_>) -> Attempt {
        let fault = Fault::new(
            Code::HostFailed,
            format!("'{}' cannot run yet.", call.permit.tool().descriptor.name),
        );
        Attempt {
            outcome: Outcome::Faulted(fault),
            usage: Usage::default(),
            console: Console::default(),
            dropped_reports: 0,
        }
    }

    /// Asks the component what the schema cannot say about arguments, sealed: every
    /// power refuses, with a small budget.
    ///
    /// # Errors
    /// `invalid_arguments` with the tool's words; a trap or a limit met has its own
    /// code.
    pub async fn validate_args(&self, tool_name: &str, arguments: &Arguments) -> Result<(), Fault> {
        Err(Fault::new(
            Code::HostFailed,
            format!(
                "'{tool_name}' cannot check {} bytes yet.",
                arguments.text().len()
            ),
        ))
    }
}
