//! Following a run on the terminal, and asking its questions.

use crate::globals::Globals;
use crate::render::narrate::{Narrator, outcome};
use crate::session::ask::{QuestionOutcome, ask, can_ask, remember_if_permanent, say_how_to_decide};
use crate::session::shutdown;
use crate::terminal::output::DIM;
use crate::terminal::remedy::of_store;
use crate::terminal::{Exit, Failure, Output};
use std::sync::Arc;
use tollgate::run::{RunEnd, RunHandle};
use tollgate::store::StoreError;
use tollgate::{Host, HostError};
use tollgate_agent::code::Code;
use tollgate_agent::run::event::SuspendedCall;

/// Narrates a run or call until it has ended or waits. The first signal that ends the program cancels it,
/// and its end is still narrated.
pub(crate) async fn follow(mut handle: RunHandle, narrator: &mut Narrator<'_>) -> Result<RunEnd, Failure> {
    let cancellation = handle.cancellation();
    let interrupt = async move {
        shutdown::wait_for_signal().await;
        cancellation.cancel();
        // The narration goes on until the cancelled run has ended.
        std::future::pending::<()>().await;
    };
    let narrated = async {
        while let Some(update) = handle.events.next().await {
            narrator.show(&update);
        }
    };
    tokio::select! {
        () = narrated => {}
        () = interrupt => {}
    }
    Ok(handle.wait().await?)
}

/// A run at rest, after its questions were asked.
pub(crate) struct RestingRun {
    pub(crate) end: RunEnd,
    /// The suspension of the question that the person just saw and left open.
    pub(crate) shown: Option<String>,
}

/// Follows a run until it has ended. On a terminal, asks the person its questions, and stops following
/// if one is left open.
pub(crate) async fn follow_and_ask(
    host: &Host,
    handle: RunHandle,
    narrator: &mut Narrator<'_>,
    globals: &Globals,
    output: &Output,
) -> Result<RestingRun, Failure> {
    let end = follow(handle, narrator).await?;
    if !can_ask(output) {
        return Ok(RestingRun { end, shown: None });
    }
    ask_open(host, end, None, narrator, globals, output).await
}

/// Asks the open questions of a run on the terminal until none is left, or the person leaves one open.
/// `only` is the id of a call or a suspension; with it, only that question is asked.
pub(crate) async fn ask_open(
    host: &Host,
    mut end: RunEnd,
    only: Option<&str>,
    narrator: &mut Narrator<'_>,
    globals: &Globals,
    output: &Output,
) -> Result<RestingRun, Failure> {
    let mut shown = None;
    let wanted = |asked: &&Arc<SuspendedCall>| {
        only.is_none_or(|only| asked.call_id == only || asked.suspension_id == only)
    };
    loop {
        let Some(asked) = end.waiting.iter().find(wanted).map(Arc::clone) else { break };
        match ask(host, &end, &asked, output).await? {
            QuestionOutcome::Open => {
                shown = Some(asked.suspension_id.clone());
                break;
            }
            QuestionOutcome::NotShown => break,
            QuestionOutcome::Elsewhere(now) => end = *now,
            QuestionOutcome::Decided(decision) => match host.decide(&end.run_id, decision.clone()).await {
                Ok(handle) => {
                    remember_if_permanent(globals, host.toolbox().catalog(), &asked, &decision, output);
                    end = follow(handle, narrator).await?;
                }
                Err(
                    why @ (HostError::Refused(_)
                    | HostError::AlreadyDecided { .. }
                    | HostError::DoesNotFit { .. }),
                ) => output.warn(&why.to_string()),
                Err(e) => return Err(e.into()),
            },
        }
    }
    Ok(RestingRun { end, shown })
}

/// Shows how a run rests: its answer, its open questions, and how to make room in the store if that is
/// what it lacks. Returns the exit code.
pub(crate) async fn show_run_end(
    host: &Host,
    RestingRun { end, shown }: &RestingRun,
    narrator: &Narrator<'_>,
    output: &Output,
) -> Exit {
    narrator.finish(end);
    if !output.is_json() {
        say_how_to_decide(end, shown.as_deref(), output);
    }
    say_how_to_make_room(host, end, narrator, output).await;
    outcome(end)
}

/// Prints how to make room in the store, if that lacked room for the record of the run's last call.
/// Prints nothing with `--json`.
pub(crate) async fn say_how_to_make_room(
    host: &Host,
    end: &RunEnd,
    narrator: &Narrator<'_>,
    output: &Output,
) {
    if output.is_json() {
        return;
    }
    let last = end.last_call.as_ref().filter(|call| call.end.code() == Some(Code::Overloaded));
    let Some(tool_name) = last.map(|call| &*call.tool_name).or(narrator.overloaded()) else { return };
    let toolbox = host.toolbox();
    let owner = toolbox.catalog().tool(tool_name).map(|tool| tool.owner.id.as_str());
    let admitted = host.store().admit(Some(&end.thread_id), owner, None).await;
    if let Some(remedy) = admitted.as_ref().err().and_then(StoreError::remedy) {
        output.hint(&format!("{DIM}{}{DIM:#}", of_store(remedy)));
    }
}
