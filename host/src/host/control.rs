//! Control over runs by their id: decisions, cancellation, recovery, and the state in which a run
//! rests.

use super::{Busy, Host, HostError};
use crate::error::RequestRefusal;
use crate::run::{RunEnd, RunError, RunHandle, new_id};
use crate::store::{RecordReader, RunFilter, RunSummary, now_ms};
use crate::stream::Hub;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_agent::run::{Decision, Event, Input, InputRefusal, RefusalKind, Run, StoredEvent, Thread};

/// How long a decision waits for another decision about the same run to take effect.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

impl From<InputRefusal> for HostError {
    fn from(refused: InputRefusal) -> Self {
        let message = refused.to_string();
        match refused.kind {
            RefusalKind::UnknownTarget(target) => Self::UnknownQuestion(target),
            RefusalKind::AlreadyDecided { target, decision } => {
                Self::AlreadyDecided { message, target, decision }
            }
            RefusalKind::DoesNotFit(violations) => Self::DoesNotFit { message, violations },
            RefusalKind::Other => RequestRefusal::Input(refused).into(),
        }
    }
}

impl Host {
    /// Answers a suspended call and resumes its run.
    ///
    /// # Errors
    /// The run is not known, does not wait for this decision, or the decision does not fit the
    /// question; then nothing changed.
    pub async fn decide(&self, run_id: &str, decision: Decision) -> Result<RunHandle, HostError> {
        self.decide_all(run_id, vec![decision]).await
    }

    /// Answers several suspended calls of a run in one commit, and resumes the run. The run may be
    /// at work on other calls. If another host drives it, that host takes the decisions one by one.
    ///
    /// # Errors
    /// One of the decisions is refused, as for [`Host::decide`]; then none is taken. The host that
    /// drives the run does not answer.
    pub async fn decide_all(
        &self,
        run_id: &str,
        mut decisions: Vec<Decision>,
    ) -> Result<RunHandle, HostError> {
        for decision in &mut decisions {
            if decision.id.is_empty() {
                decision.id = new_id().to_string();
            }
            if decision.at_ms == 0 {
                decision.at_ms = now_ms();
            }
        }
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(joined) = self.decide_driven(run_id, &decisions).await? {
                return Ok(joined);
            }
            match self.continue_run(run_id, Input::Decided(decisions.clone()), Busy::Refuse).await {
                // Another decision about the same run may be taking effect just now.
                Err(HostError::Busy(_)) if Instant::now() < until => {
                    if !self.is_open(run_id).await? {
                        self.check_decisions(run_id, &decisions).await?;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(HostError::OwnedElsewhere(_)) if Instant::now() < until => {
                    if let Some(joined) = self.decide_elsewhere(run_id, &decisions).await? {
                        return Ok(joined);
                    }
                }
                continued => return continued,
            }
        }
    }

    /// Resumes a run whose process is gone. Unfinished calls run again if that is harmless, and
    /// are otherwise answered as interrupted.
    ///
    /// # Errors
    /// The run is not known, or another process is running it.
    pub async fn recover(&self, run_id: &str) -> Result<RunHandle, HostError> {
        self.continue_run(run_id, Input::Restarted, Busy::Refuse).await
    }

    /// Ends a run that works or waits, on any host. The reason becomes part of the record. Returns
    /// when the run is about to end; [`Host::follow`] shows its end.
    ///
    /// # Errors
    /// The run is not known or has ended, or the store cannot be used.
    pub async fn cancel(&self, run_id: &str, reason: Option<String>) -> Result<(), HostError> {
        if let Some(hub) = self.live(run_id)
            && !hub.is_closed()
        {
            hub.cancel(reason);
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| "it was cancelled by its caller".to_owned());
        let mut found =
            self.summary(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        if found.status == "running" && found.is_driven {
            if self.cancel_elsewhere(run_id, reason.clone()).await? {
                return Ok(());
            }
            found = self.summary(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        }
        match found.status.as_str() {
            "running" | "waiting" => {
                let ending = self.continue_run(run_id, Input::Cancel { reason }, Busy::Refuse).await?;
                ending.wait().await?;
                Ok(())
            }
            _ => Err(HostError::AlreadyEnded(found.run_id)),
        }
    }

    /// Returns the state in which a run ended or rests, or its state so far.
    ///
    /// # Errors
    /// The run is not known, or its record cannot be read.
    pub async fn run_end(&self, run_id: &str) -> Result<RunEnd, HostError> {
        Ok(self.run_and_end(run_id, |_| {}).await?.1)
    }

    /// Returns a run without its thread, and the state in which it ended or rests. Each event of its
    /// record is passed to `visit`.
    ///
    /// # Errors
    /// The run is not known, or its record cannot be read.
    pub async fn run_and_end(
        &self,
        run_id: &str,
        mut visit: impl FnMut(&StoredEvent),
    ) -> Result<(Run, RunEnd), HostError> {
        let spec =
            self.store().run_spec(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        let ids = (Arc::from(run_id), Arc::from(spec.identity.thread_id.as_str()));
        let mut run = Run::new(Thread::default());
        let (mut last_call, mut text) = (None, String::new());
        let mut record = RecordReader::new(&**self.store(), run_id);
        while let Some(stored) = record.next().await? {
            run.apply(&stored.event).map_err(|e| RunError::of_record(run_id, &e))?;
            match &stored.event {
                Event::CallFinished(finished) => last_call = Some(Arc::clone(finished)),
                Event::RunFinished { text: answered, .. } => text.clone_from(answered),
                _ => {}
            }
            visit(&stored);
        }
        let end = RunEnd::of(&run, ids, last_call, text);
        Ok((run, end))
    }

    /// Returns a run in the form of lists; `None` if it is not known.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn summary(&self, run_id: &str) -> Result<Option<RunSummary>, HostError> {
        Ok(self.store().runs(RunFilter::one(run_id)).await?.pop())
    }

    /// Checks decisions by the record of a run that is not open. The thread may stay busy with another
    /// run, and a decision that came too late need not wait for that.
    async fn check_decisions(&self, run_id: &str, decisions: &[Decision]) -> Result<(), HostError> {
        let run = self.recorded(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        run.decide(self.toolbox().catalog(), 0, &Input::Decided(decisions.to_vec()))?;
        Ok(())
    }

    /// Returns whether this host is driving the run, or it waits.
    async fn is_open(&self, run_id: &str) -> Result<bool, HostError> {
        if self.live(run_id).is_some() {
            return Ok(true);
        }
        Ok(self.summary(run_id).await?.is_some_and(|run| run.status == "waiting"))
    }

    /// Delivers decisions to a run that this host is driving. Returns `None` if it is not, or
    /// comes to rest first.
    async fn decide_driven(
        &self,
        run_id: &str,
        decisions: &[Decision],
    ) -> Result<Option<RunHandle>, HostError> {
        let Some(hub) = self.live(run_id).filter(|hub| !hub.is_closed()) else { return Ok(None) };
        let Some(spec) = self.store().run_spec(run_id).await? else { return Ok(None) };
        let input = Input::Decided(decisions.to_vec());
        self.check_own(&spec.identity, &input).await?;
        let events = hub.listen();
        match hub.deliver(decisions.to_vec()).await {
            Some(Ok(())) => Ok(Some(self.joined(&hub, run_id, &spec.identity.thread_id, events))),
            Some(Err(why)) => Err(why),
            None => Ok(None),
        }
    }

    /// Returns a handle of a run that is in progress.
    fn joined(
        &self,
        hub: &Arc<Hub>,
        run_id: &str,
        thread_id: &str,
        events: crate::run::EventStream,
    ) -> RunHandle {
        let (run_id, thread_id) = (Arc::<str>::from(run_id), Arc::<str>::from(thread_id));
        let (host, closed, id) = (self.clone(), hub.closed(), Arc::clone(&run_id));
        let end = tokio::spawn(async move {
            closed.await;
            host.run_end(&id).await.map_err(RunError::from)
        });
        RunHandle { run_id, thread_id, events, cancel: hub.cancellation().clone(), end }
    }
}
