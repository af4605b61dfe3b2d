//! `tollgate decide`: answers a suspended call.

use crate::globals::Globals;
use crate::render::narrate::Narrator;
use crate::session::ask::{can_ask, decision, is_at_a_terminal, read_answer, remember_if_permanent, typed};
use crate::session::call_end::{CallExtras, show_call_end};
use crate::session::codes::Codes;
use crate::session::data::{find_run, open_limited_store, recovered};
use crate::session::follow::{RestingRun, ask_open, follow, show_run_end};
use crate::session::models::configured_model;
use crate::session::{OpenSession, finish, host_with, with_servers};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use std::sync::Arc;
use tollgate::run::RunEnd;
use tollgate::store::{RunFilter, RunStore, RunSummary, short_id};
use tollgate::{Host, HostError};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer, Event, InputRefusal, StoredEvent};

/// Answer a suspended call and resume its run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DecideVerb {
    /// The run's id, its beginning, or `last` [default: the only run that waits]
    run: Option<String>,
    /// The id of the call or of the suspension to answer [default: the only one that waits]
    call: Option<String>,
    /// Resume the call with this JSON value; without a value, `true`
    #[arg(long, value_name = "JSON", num_args = 0..=1, conflicts_with = "cancel")]
    resume: Option<Option<String>>,
    /// Cancel the call; it does not run
    #[arg(long)]
    cancel: bool,
    /// Give a reason, for the record and for the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Set the decision's id: applying the same decision twice changes nothing
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Prove that a person decided; needed only without a terminal. `runs` and `show` print the code
    /// on a terminal
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate decide                                    the question that waits, asked on the terminal
  tollgate decide 9f3c2a71 --resume '{\"approved\": true}'
  tollgate decide 9f3c2a71 call-1-1 --cancel --reason \"not on a Friday\"
  tollgate runs --status waiting                     what waits

An answer that does not fit the question's schema is refused, and the call goes on waiting. Without
a terminal, the code of the question is needed, so that a model cannot approve its own call.";

impl DecideVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let chosen = match &self.resume {
            Some(typed) => Some(DecisionAnswer::Resume(read_answer(typed.as_deref())?)),
            None => self.cancel.then_some(DecisionAnswer::Cancel),
        };
        let config = globals.read_config()?;
        let store = open_limited_store(globals, &config)?;
        let run = match &self.run {
            Some(typed) => find_run(&*store, typed).await?,
            None => only_waiting_run(&*store).await?,
        };
        // A decision with an id may be repeated after the run has ended.
        let cannot_wait = !matches!(run.shown_status(), "waiting" | "interrupted" | "running");
        if cannot_wait && self.id.is_none() {
            return Err(not_waiting(&run));
        }
        if chosen.is_none() && !can_ask(output) {
            let call = self.call.as_deref().map_or_else(|| "CALL".to_owned(), typed);
            return Err(Failure::usage(format!(
                "no answer is given and there is no terminal to ask on: {} decide {} {call} --resume true --code CODE, \
                 --resume 'ANSWER AS JSON' for other answers, or --cancel",
                program(),
                short_id(&run.run_id)
            )));
        }
        let asks = config.agents.get(&run.agent_id).is_none_or(|agent| agent.made_of.is_none());
        let model =
            (run.kind == "prompt" && asks).then(|| configured_model(&run.agent_id, &config)).transpose()?;
        let opened = OpenSession::load(config, output).await?;
        let running = model.map(|model| (run.agent_id.as_str(), model));
        let loaded = opened.loaded.to_audit();
        let config = opened.config.clone();
        let host = host_with(opened, running, |builder| builder.store(store))?;
        host.record_loaded(loaded).await?;
        let servers = with_servers(&host, &config, output).await?;
        let work = self.carry_out(&host, &run, chosen, globals, output);
        finish(&host, servers, work).await
    }

    /// Answers the questions of a run, and follows it until it rests.
    async fn carry_out(
        self,
        host: &Host,
        run: &RunSummary,
        chosen: Option<DecisionAnswer>,
        globals: &Globals,
        output: &Output,
    ) -> Result<Exit, Failure> {
        recovered(host, run).await?;
        let record = host.store().events(&run.run_id, 0).await?;
        let thread_id = Arc::from(run.thread_id.as_str());
        let now = RunEnd::of_record(&record, &thread_id)?;
        let target = match (&self.call, &chosen) {
            (Some(call), _) => Some(call.clone()),
            (None, Some(_)) => Some(only_question(&now)?.suspension_id.to_string()),
            // All questions of the run are asked.
            (None, None) => None,
        };
        let asked = target.as_deref().and_then(|target| question_of(&record, target)).cloned();
        let is_open = |question: &SuspendedCall| {
            now.waiting.iter().any(|open| open.suspension_id == question.suspension_id)
        };
        match &asked {
            _ if self.id.is_some() => {}
            Some(asked) if !is_open(asked) => {
                let target = target.as_deref().unwrap_or(&asked.call_id);
                return Err(HostError::from(InputRefusal::already_decided(target, None)).into());
            }
            _ if now.waiting.is_empty() => return Err(not_waiting(run)),
            _ => {}
        }
        if !is_at_a_terminal()
            && let Some(asked) = &asked
        {
            let codes = Codes::open(globals).await?;
            codes.check(self.code.as_deref(), &run.run_id, &asked.suspension_id).await?;
        }
        let mut narrator = Narrator::new(output);
        if run.kind == "call" {
            narrator = narrator.reports_only();
        }
        let rested = match (chosen, target) {
            (Some(chosen), Some(target)) => {
                let decision = decision(&target, chosen, self.reason, self.id);
                let end = self::decide(host, run, decision, asked, &mut narrator, globals, output).await?;
                RestingRun { end, shown: None }
            }
            (_, target) => {
                let only = target.as_deref();
                ask_open(host, now, only, &mut narrator, globals, output).await?
            }
        };
        if run.kind == "call" {
            return show_call_end(host, rested, CallExtras::default(), &narrator, output).await;
        }
        Ok(show_run_end(host, &rested, &narrator, output).await)
    }
}

/// Decides a call, stores the answer if it is permanent, and follows the run until it rests.
async fn decide(
    host: &Host,
    run: &RunSummary,
    decision: Decision,
    asked: Option<SuspendedCall>,
    narrator: &mut Narrator<'_>,
    globals: &Globals,
    output: &Output,
) -> Result<RunEnd, Failure> {
    let handle = host.decide(&run.run_id, decision.clone()).await?;
    if let Some(asked) = asked {
        remember_if_permanent(globals, host.toolbox().catalog(), &asked, &decision, output);
    }
    follow(handle, narrator).await
}

/// Returns the only run that waits for a decision.
async fn only_waiting_run(store: &dyn RunStore) -> Result<RunSummary, Failure> {
    let filter = RunFilter { status: Some("waiting".to_owned()), limit: 9, ..RunFilter::default() };
    let mut waiting = store.runs(filter).await?;
    // A child's question is also its parent's, and is decided there.
    waiting.retain(|run| run.kind != "child");
    match waiting.as_slice() {
        [_] => Ok(waiting.remove(0)),
        [] => Err(Failure::usage(format!("no run waits for a decision; `{} runs` lists them", program()))),
        several => {
            let each = several
                .iter()
                .map(|run| format!("{} ({})", short_id(&run.run_id), shown_line(&run.title, 40)));
            let each = each.collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!(
                "several runs wait for a decision: {each}; name one: {} decide RUN",
                program()
            )))
        }
    }
}

/// Returns the error about a run that has no open question.
fn not_waiting(run: &RunSummary) -> Failure {
    let (id, status) = (short_id(&run.run_id), run.shown_status());
    Failure::usage(format!("the run {id} is not waiting for a decision: its status is {status}"))
}

/// Returns the question of a run under this id of a call or a suspension: the last one, if the call
/// asked several.
fn question_of<'a>(record: &'a [Arc<StoredEvent>], target: &str) -> Option<&'a SuspendedCall> {
    record.iter().rev().find_map(|stored| match &stored.event {
        Event::CallSuspended(asked) if asked.call_id == target || asked.suspension_id == target => {
            Some(asked.as_ref())
        }
        _ => None,
    })
}

/// Returns the only open question of a run.
fn only_question(now: &RunEnd) -> Result<&SuspendedCall, Failure> {
    match now.waiting.as_slice() {
        [asked] => Ok(asked),
        [] => Err(Failure::usage(format!("the run {} is not waiting for a decision", short_id(&now.run_id)))),
        several => {
            let each =
                several.iter().map(|asked| shown_line(&asked.call_id, 64)).collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!(
                "the run {0} asks several questions: {each}; name one: {1} decide {0} CALL",
                short_id(&now.run_id),
                program()
            )))
        }
    }
}
