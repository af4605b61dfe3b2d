//! `tollgate resume`: resumes a run whose process has ended.

use crate::globals::Globals;
use crate::render::narrate::Narrator;
use crate::session::call_end::{CallExtras, show_call_end};
use crate::session::data::{find_run, open_limited_store};
use crate::session::follow::{follow_and_ask, show_run_end};
use crate::session::models::configured_model;
use crate::session::{OpenSession, finish, host_with, with_servers};
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use tollgate::Host;
use tollgate::store::{RunFilter, RunSummary, short_id};

/// Resume an interrupted run, and ask what it waits for
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeVerb {
    /// The run's id, its beginning, or `last`
    run: String,
}

const EXAMPLES: &str = "\
Examples:
  tollgate runs --status interrupted
  tollgate resume 9f3c2a71
  tollgate resume 9f3c2a71 --json

A call that was in progress runs again if its tool is idempotent, and is answered as interrupted if
it is not. On a terminal, the questions of the run are asked at once. With --json every event is
one line of JSON. The exit code is 0 if the run completed, 3 if it waits for a decision, else 1.";

impl ResumeVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let store = open_limited_store(globals, &config)?;
        let run = find_run(&*store, &self.run).await?;
        match run.shown_status() {
            "interrupted" | "waiting" => {}
            "queued" => {
                let (id, program) = (&run.run_id, program());
                let words = format!("the run {id} waits for a host to claim it; start one: {program} work");
                return Err(Failure::failed(words));
            }
            "running" => {
                let words = format!("another process drives the run {}; wait until it has ended", run.run_id);
                return Err(Failure::failed(words));
            }
            ended => {
                output.say(&format!("the run {} has ended: {ended}", run.run_id));
                return Ok(if ended == "completed" { Exit::Done } else { Exit::Failed });
            }
        }
        let asks = config.agents.get(&run.agent_id).is_none_or(|agent| agent.made_of.is_none());
        let model =
            (run.kind == "prompt" && asks).then(|| configured_model(&run.agent_id, &config)).transpose()?;
        let opened = OpenSession::load(config, output).await?;
        opened.warn_of_notices(output);
        let running = model.map(|model| (run.agent_id.as_str(), model));
        let (loaded, config) = (opened.loaded.to_audit(), opened.config.clone());
        let host = host_with(opened, running, |builder| builder.store(store))?;
        host.note_loaded(loaded).await?;
        let servers = with_servers(&host, &config, output).await?;
        let work = async {
            let exit = resume(&host, &run, globals, output).await?;
            // The run itself may be a direct call that recovery runs again.
            host.end_abandoned().await?;
            Ok(exit)
        };
        finish(&host, servers, work).await
    }
}

async fn resume(host: &Host, run: &RunSummary, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
    let record = host.record(&run.run_id, 0).await?;
    let handle = host.recover(&run.run_id).await?;
    if run.kind == "call" {
        let mut narrator = Narrator::new(output).reports_only();
        let rested = follow_and_ask(host, handle, &mut narrator, globals, output).await?;
        return show_call_end(host, rested, CallExtras::default(), &narrator, output).await;
    }
    let mut narrator = Narrator::new(output).resuming(&record);
    let rested = follow_and_ask(host, handle, &mut narrator, globals, output).await?;
    Ok(show_run_end(host, &rested, &narrator, output).await)
}

/// Returns the interrupted run of a conversation, which its next message finishes first.
pub(crate) async fn interrupted_on(
    host: &Host,
    thread_id: Option<&str>,
) -> Result<Option<RunSummary>, Failure> {
    let Some(thread_id) = thread_id else { return Ok(None) };
    let filter = RunFilter {
        thread_id: Some(thread_id.to_owned()),
        status: Some("running".to_owned()),
        kind: Some("prompt".to_owned()),
        ..RunFilter::default()
    };
    let open = host.store().runs(filter).await?;
    Ok(open.into_iter().find(|run| run.shown_status() == "interrupted"))
}

/// Says how an interrupted run ended before the message that followed it.
pub(crate) async fn say_finished(
    host: &Host,
    interrupted: Option<RunSummary>,
    output: &Output,
) -> Result<(), Failure> {
    let Some(interrupted) = interrupted else { return Ok(()) };
    if let Some(now) = host.summary(&interrupted.run_id).await? {
        output.say(&format!(
            "finished the interrupted run {}: {}",
            short_id(&now.run_id),
            now.shown_status()
        ));
    }
    Ok(())
}
