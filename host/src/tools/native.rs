//! Tools in the embedding program's own Rust code: the same descriptors as components, and the
//! same gate, time limits, state rules and events.

use super::{Attempt, AttemptRequest, CallContext, Report, Runner, ToolContext, Toolbox};
use crate::state_key::{StateKey, TypedReducer, access};
use async_trait::async_trait;
use futures::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{CatalogGrants, Natives, Owner, OwnerKind, Tool};
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest, Delegates};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ComponentDescriptor, DescriptorError, StateAccess, ToolDescriptor};
use tollgate_agent::hook::HookPoints;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::{ActionGrants, Fault, Outcome, ToolOutput, Usage};
use tollgate_agent::proposal::Arguments;
use tollgate_sandbox::{Console, Deadline, cancelled_and_grace};

/// A tool in Rust. It has the same gate, time limits, state rules and events as a component,
/// but it is not sandboxed. If a function of the arguments is enough, use a
/// [`FnTool`](crate::FnTool).
///
/// ```
/// use tollgate::{async_trait, CallRequest, Fault, Host, NativeTool, ToolCall};
/// use tollgate::{ToolDescriptor, ToolOutput, ToolResult};
/// use serde_json::json;
///
/// struct Greet {
///     greeting: String,
/// }
///
/// #[async_trait]
/// impl NativeTool for Greet {
///     fn descriptor(&self) -> ToolDescriptor {
///         ToolDescriptor::new("greet", "greet", "Greets a person.").with_parameters(json!({
///             "type": "object",
///             "properties": {"name": {"type": "string"}},
///             "required": ["name"],
///         }))
///     }
///
///     async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
///         let name = call.arguments()["name"].as_str().unwrap_or_default();
///         Ok(ToolResult::success(format!("{}, {name}!", self.greeting)).into())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::builder().tool(Greet { greeting: "Good evening".to_owned() }).build()?;
/// let end = host.call(CallRequest::new("greet", &json!({"name": "Ada"}))?).await?;
/// assert_eq!(end.result().unwrap().data, "Good evening, Ada!");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait NativeTool: Send + Sync {
    /// Returns the description for the model and the host.
    fn descriptor(&self) -> ToolDescriptor;

    /// Returns whether [`Self::validate_args`] is called. It is by default; a tool without a check
    /// of its own may return `false` to save the effort.
    fn validates(&self) -> bool {
        true
    }

    /// Checks rules that the schema cannot express, before any gate.
    ///
    /// # Errors
    /// A sentence for the model.
    fn validate_args(&self, arguments: &Arguments) -> Result<(), String> {
        let _ = arguments;
        Ok(())
    }

    /// Returns whether a recorded call may be run again: it touches nothing outside of the
    /// call, and its answer depends only on the call. The host does not check this.
    fn replays(&self) -> bool {
        false
    }

    /// Runs the tool. The arguments fit its schema. A panic fails only this call.
    ///
    /// # Errors
    /// Ends the call without an answer of the tool's own; nothing commits.
    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault>;
}

/// A call as its native tool sees it: the arguments, the keys that the plugin declared
/// readable, and a channel for progress reports.
pub struct ToolCall<'a> {
    attempt: &'a AttemptRequest<'a>,
    deadline: &'a Deadline,
}

impl ToolCall<'_> {
    /// Returns the name that the model used for the tool.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        &self.attempt().permit.tool().descriptor.name
    }

    /// Returns a future that completes once the call is to end early. The tool's own future is
    /// dropped soon after.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.attempt().cancel.clone().cancelled_owned()
    }

    /// Returns the arguments, which fit the tool's schema.
    #[must_use]
    pub fn arguments(&self) -> &serde_json::Value {
        self.attempt().permit.arguments().value()
    }

    /// Returns the attempt: identity, agent, number, timeout, resumption, cancellation.
    #[must_use]
    pub fn attempt(&self) -> &CallContext<'_> {
        &self.attempt.call
    }

    /// Returns the conversation so far.
    pub(crate) fn history(&self) -> &[Message] {
        self.attempt.history.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the same call without borrows, for a future that outlives this function.
    #[must_use]
    pub fn context(&self) -> ToolContext {
        ToolContext::of(self.attempt(), self.deadline.clone())
    }

    /// Returns a key of the snapshot; `None` if the plugin did not declare that it reads the
    /// key.
    #[must_use]
    pub fn state(&self, key: &str) -> Option<&serde_json::Value> {
        let CallContext { permit, snapshot, keys, .. } = self.attempt();
        permit.tool().access.may_read(key).then(|| snapshot.get(keys, key)).flatten()
    }

    /// Returns a typed key's value, or its default if the plugin did not declare that it reads
    /// the key.
    #[must_use]
    pub fn read<K: StateKey>(&self) -> K::Value {
        let value = self.state(K::NAME).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// Runs another agent below this call, and waits until it ends or waits for a person. The
    /// wait does not count against the call's timeout.
    ///
    /// The child is identified by this call and the position of this request among the call's
    /// requests. If the call runs again, make the same requests in the same order. To wait for
    /// a child that waits for a person, return
    /// [`ToolResult::suspended`](tollgate_agent::outcome::ToolResult::suspended): the child's
    /// question is shown, and the decision goes to the child.
    ///
    /// # Errors
    /// There is no such child. A child that does not complete is an outcome, not an error.
    pub async fn run_child(&self, request: ChildRequest) -> Result<ChildOutcome, ChildError> {
        let _paused = self.deadline.pause();
        self.attempt().children.run_child(request).await
    }

    /// Sends a report to the call's observers; returns false if there are none.
    pub fn report(&self, report: Report) -> bool {
        self.attempt().reports.offer(report)
    }
}

/// Native tools and their shared state under one id. It can be installed into a [`Toolbox`], or
/// into a host as a [`Plugin`](crate::plugins::Plugin) that has only tools.
#[derive(Clone)]
pub struct NativePlugin {
    id: String,
    tools: Vec<Arc<dyn NativeTool>>,
    state: Vec<StateAccess>,
    natives: Natives,
    actions: ActionGrants,
    points: HookPoints,
}

impl NativePlugin {
    /// Creates a plugin without tools; the id fits `[a-z][a-z0-9-]{0,63}`.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            tools: Vec::new(),
            state: Vec::new(),
            natives: Natives::new(),
            actions: ActionGrants::default(),
            points: HookPoints::NONE,
        }
    }

    /// Adds a tool.
    #[must_use]
    pub fn with_tool(mut self, tool: impl NativeTool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Declares a state key that its tools read, write or define.
    #[must_use]
    pub fn with_state(mut self, access: StateAccess) -> Self {
        self.state.push(access);
        self
    }

    /// Declares a state key with a type and a reducer in Rust, which its tools read and write.
    #[must_use]
    pub fn with_key<K: StateKey>(mut self) -> Self {
        self.state.push(access::<K>());
        self.natives.insert(K::NAME.to_owned(), Arc::new(TypedReducer::<K>::new()));
        self
    }

    /// Lets its tools request these actions of the loop along with their results.
    #[must_use]
    pub fn with_actions(mut self, actions: ActionGrants) -> Self {
        self.actions = actions;
        self
    }

    /// Adds the plugin to a toolbox.
    ///
    /// # Errors
    /// Same as [`Toolbox::add`].
    pub fn install(self, toolbox: &mut Toolbox) -> Result<(), DescriptorError> {
        let origin = format!("the native plugin {}", tollgate_agent::text::clean(&self.id, 80));
        let descriptors: Vec<_> = self.descriptors().collect();
        let names = descriptors.iter().map(|d| d.name.clone());
        let tools = names.zip(self.tools.iter().cloned()).collect();
        let descriptor = ComponentDescriptor {
            id: self.id.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            tools: descriptors,
            state: self.state.clone(),
        };
        let owner = Owner {
            id: SmolStr::new(&self.id),
            kind: OwnerKind::Native,
            origin,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let runner = Arc::new(NativeRunner { tools });
        // The embedding program's own code is granted what it asks for.
        let keys = |wanted: fn(&StateAccess) -> bool| {
            self.state.iter().filter(|access| wanted(access)).map(|access| access.key.clone()).collect()
        };
        let grants = CatalogGrants {
            reads: keys(|access| access.read),
            writes: keys(|access| access.write),
            actions: self.actions,
            delegates: Delegates::Any,
        };
        toolbox.add_plugin(owner, descriptor, &grants, &self.natives, self.points, runner)
    }

    /// Sets the points at which its hooks are called.
    pub(crate) fn with_hooks_at(mut self, points: HookPoints) -> Self {
        self.points = points;
        self
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = ToolDescriptor> {
        self.tools.iter().map(|tool| {
            let mut descriptor = tool.descriptor();
            // An author who overrides `validate_args` wants it called.
            descriptor.execution.validates |= tool.validates();
            descriptor
        })
    }

    /// Returns the names of the keys that it defines.
    pub(crate) fn own_keys(&self) -> impl Iterator<Item = &str> {
        self.state.iter().filter(|access| access.defines.is_some()).map(|access| access.key.as_str())
    }
}

/// A runner of native tools, which finds them by name.
pub(crate) struct NativeRunner {
    pub(crate) tools: BTreeMap<String, Arc<dyn NativeTool>>,
}

#[async_trait]
impl Runner for NativeRunner {
    async fn run(&self, attempt: AttemptRequest<'_>) -> Attempt {
        let began = Instant::now();
        // The embedding program's code may cancel its attempt with this, but not the run.
        let cancel = attempt.call.cancel.child_token();
        let call = CallContext { cancel: &cancel, ..attempt.call };
        let attempt = AttemptRequest { call, ..attempt };
        let outcome = match self.execute(&attempt).await {
            Ok(output) => Outcome::Returned(output),
            Err(fault) => Outcome::Faulted(fault),
        };
        Attempt {
            usage: Usage {
                wall_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
                attempts: 1,
                at_least: outcome.was_cut(),
                ..Usage::default()
            },
            outcome,
            taken: None,
            console: Console::default(),
            dropped_reports: 0,
            http_requests: 0,
            denied: Vec::new(),
            memory: None,
        }
    }

    async fn validate(&self, tool: &Tool, arguments: &Arguments) -> Result<(), Fault> {
        let name = &tool.descriptor.name;
        let Some(tool) = self.tools.get(name) else {
            return Err(lost(name));
        };
        std::panic::catch_unwind(AssertUnwindSafe(|| tool.validate_args(arguments)))
            .map_err(|_| panicked(name))?
            .map_err(|words| Fault::new(Code::InvalidArguments, words))
    }

    fn replays(&self, tool_name: &str) -> bool {
        self.tools.get(tool_name).is_some_and(|tool| tool.replays())
    }
}

impl NativeRunner {
    async fn execute(&self, attempt: &AttemptRequest<'_>) -> Result<ToolOutput, Fault> {
        let context = &attempt.call;
        let name = &context.permit.tool().descriptor.name;
        let Some(tool) = self.tools.get(name) else {
            return Err(lost(name));
        };
        let deadline = Deadline::after(context.timeout);
        let call = ToolCall { attempt, deadline: &deadline };
        let execution = AssertUnwindSafe(tool.execute(call)).catch_unwind();
        tokio::select! {
            // A completed call counts as completed.
            biased;
            ended = execution => ended.unwrap_or_else(|_| Err(panicked(name))),
            // The tool may notice the cancellation and end by itself, within the grace period
            // of a component.
            () = cancelled_and_grace(context.cancel) => {
                Err(Fault::new(Code::Cancelled, "The call was cancelled."))
            }
            () = deadline.passed() => Err(timed_out(name, context.timeout)),
        }
    }
}

fn timed_out(name: &str, after: std::time::Duration) -> Fault {
    let after = tollgate_agent::text::seconds(after);
    Fault::new(Code::TimedOut, format!("Tool '{name}' timed out after {after}"))
}

fn panicked(name: &str) -> Fault {
    Fault::new(Code::HostFailed, format!("The native tool '{name}' panicked."))
}

fn lost(name: &str) -> Fault {
    Fault::new(Code::HostFailed, format!("The native tool '{name}' does not exist."))
}
