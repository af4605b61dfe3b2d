//! `tollgate decide`: answers a suspended call.

use crate::globals::Globals;
use crate::render::narrate::{Narrator, outcome};
use crate::session::always::{self, question_of};
use crate::session::ask::{decision, read_answer, say_how_to_decide};
use crate::session::data::{find_run, open_limited_store, recovered};
use crate::session::{Opened, host_with, shutdown, with_servers};
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::call::{answer, follow, valued};
use crate::verbs::run::configured_model;
use clap::Args;
use tollgate::HostError;
use tollgate_agent::run::DecisionAnswer;

/// Answer a suspended call and resume its run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DecideVerb {
    /// The run's id, or its beginning
    run: String,
    /// The id of the call or of the suspension to answer
    call: String,
    /// Resume the call with this JSON value; without a value, `true`
    #[arg(long, value_name = "JSON", num_args = 0..=1, conflicts_with = "cancel", required_unless_present = "cancel")]
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
}

const EXAMPLES: &str = "\
Examples:
  tollgate decide 0192f0a1 call-1-1 --resume '{\"approved\": true}'
  tollgate decide 0192f0a1 call-1-1 --cancel --reason \"not on a Friday\"
  tollgate runs --status waiting                     what waits

An answer that does not fit the question's schema is refused, and the call goes on waiting.";

impl DecideVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let chosen = match &self.resume {
            Some(typed) => DecisionAnswer::Resume(read_answer(typed.as_deref())?),
            None => DecisionAnswer::Cancel,
        };
        let config = globals.read_config()?;
        let store = open_limited_store(globals, &config)?;
        let run = find_run(&store, &self.run).await?;
        let asks = config.agents.get(&run.agent_id).is_none_or(|agent| agent.made_of.is_none());
        let model =
            (run.kind == "prompt" && asks).then(|| configured_model(&run.agent_id, &config)).transpose()?;
        let opened = Opened::load(config, output).await?;
        let running = model.map(|model| (run.agent_id.as_str(), model));
        let loaded = opened.loaded.to_audit();
        let config = opened.config.clone();
        let host = host_with(opened, running, |builder| builder.store(store))?;
        host.record_loaded(loaded).await?;
        let servers = with_servers(&host, &config, output).await?;
        let work = async {
            recovered(&host, &run).await?;
            let decision = decision(&self.call, chosen, self.reason, self.id);
            let record = host.store().events(&run.run_id, 0).await.map_err(HostError::from)?;
            let asked = question_of(record.iter().map(AsRef::as_ref), &self.call).cloned();
            let handle = host.decide(&run.run_id, decision.clone()).await?;
            if let Some(asked) = asked {
                always::keep(globals, host.toolbox().catalog(), &asked, &decision, output);
            }
            if run.kind == "call" {
                let end = follow(handle, &mut Narrator::new(output).reports_only()).await?;
                return answer(&valued(&host, end, output).await, output);
            }
            let mut narrator = Narrator::new(output);
            let end = follow(handle, &mut narrator).await?;
            narrator.finish(&end);
            if !output.is_json() {
                say_how_to_decide(&end, output);
            }
            Ok::<_, Failure>(outcome(&end))
        };
        shutdown::finish(&host, servers, work).await
    }
}
