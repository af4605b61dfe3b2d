//! Tools of a WebAssembly component, which the sandbox runs under the operator's limits and
//! grants.

use super::{Attempt, AttemptRequest, Reach, Runner};
use crate::config::ToolLimits;
use crate::store::{ComponentFile, ComponentSource};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::catalog::Tool;
use tollgate_agent::code::Code;
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
use tollgate_agent::outcome::Fault;
use tollgate_agent::proposal::Arguments;
use tollgate_sandbox::{CallLimit, Component, FileAccess, Grants, Limits, Power};

/// A runner of one component's tools.
pub(super) struct ComponentRunner {
    component: Component,
    file: ComponentFile,
    grants: Grants,
    /// The limits of each tool, by name.
    limits: BTreeMap<String, Limits>,
    /// The limits of a tool without limits of its own.
    defaults: Limits,
    /// The limits of tools with limited concurrency, by tool name. Each running call takes a permit.
    call_limits: BTreeMap<String, CallLimit>,
}

impl ComponentRunner {
    /// Creates a runner. `file` is the component's file; `limits` are those of each of its
    /// tools, by name. Up to `most_waiting` calls may wait for a tool with limited concurrency.
    pub(super) fn new(
        component: Component,
        file: &Path,
        grants: Grants,
        limits: &BTreeMap<String, ToolLimits>,
        most_waiting: u32,
    ) -> Self {
        let file =
            ComponentFile { digest: Arc::from(component.digest()), source: Arc::new(File(file.to_owned())) };
        let call_limits = limits.iter().filter_map(|(name, limits)| {
            Some((name.clone(), CallLimit::new(limits.concurrent_calls?, most_waiting)))
        });
        let call_limits = call_limits.collect();
        let limits = limits.iter().map(|(name, limits)| (name.clone(), limits.call.clone())).collect();
        Self { component, file, grants, limits, defaults: Limits::default(), call_limits }
    }
}

/// The file of a component.
#[derive(Debug)]
struct File(PathBuf);

impl ComponentSource for File {
    fn read(&self) -> Option<Vec<u8>> {
        tollgate_sandbox::read_file(&self.0).ok()
    }
}

#[async_trait]
impl Runner for ComponentRunner {
    async fn run(&self, AttemptRequest { call, .. }: AttemptRequest<'_>) -> Attempt {
        let name = &call.permit.tool().descriptor.name;
        let _permit = match self.call_limits.get(name) {
            None => None,
            Some(limit) => tokio::select! {
                biased;
                permit = limit.take(call.timeout) => match permit {
                    Some(permit) => Some(permit),
                    None => return Attempt::unstarted(too_many(name, limit, self.component.limit_places())),
                },
                () = call.cancel.cancelled() => {
                    return Attempt::unstarted(Fault::new(Code::Cancelled, "The call was cancelled."));
                }
            },
        };
        let limits = self.limits.get(name).unwrap_or(&self.defaults);
        Box::pin(self.component.call(call, limits, &self.grants)).await
    }

    async fn validate(&self, tool: &Tool, arguments: &Arguments) -> Result<(), Fault> {
        self.component.validate_args(&tool.descriptor.name, arguments).await
    }

    fn replays(&self, _tool_name: &str) -> bool {
        true
    }

    fn component_file(&self) -> Option<&ComponentFile> {
        Some(&self.file)
    }

    fn reach(&self) -> Reach {
        let changes_files = self.grants.files().iter().any(|file| file.access() == FileAccess::ReadWrite);
        Reach::Within { changes_files, reaches_network: self.grants.has(Power::Http) }
    }
}

fn too_many(tool_name: &str, limit: &CallLimit, limit_places: &'static LimitPlaces) -> Fault {
    Fault::new(
        Code::Overloaded,
        format!(
            "There is no room to run '{tool_name}' now: too many calls of it run or wait. Try again later."
        ),
    )
    .with_detail(format!(
        "its limit is concurrent_calls = {}; an operator can raise it{}. Up to waiting_calls = {} more may wait, \
         which an operator can raise{}",
        limit.permits(),
        limit_places.of(LimitScope::Tool(tool_name)),
        limit.max_waiting(),
        limit_places.of(LimitScope::Host)
    ))
}
