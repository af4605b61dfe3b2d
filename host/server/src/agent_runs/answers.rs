//! The answers of one request to questions of a run. Another person may have decided some of the
//! questions in the meantime: the client then learns what the run has become.

use super::{OwnRun, repeatable};
use crate::problem::Problem;
use std::collections::BTreeSet;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, Event};

/// The answers of a request, compared with the record of the run.
#[derive(Debug)]
pub(crate) struct Answers {
    /// The decisions about questions that are open.
    pub(crate) decisions: Vec<Decision>,
    /// The number of questions that the request answers.
    pub(crate) count: usize,
    /// The number of the event that precedes the first decision about any of the questions.
    pub(crate) after: u64,
    /// The questions that had been decided, with another answer or by another client.
    pub(crate) late: Vec<String>,
}

impl Answers {
    /// Compares answers with the run. `decide` returns the decision that an answer stands for.
    ///
    /// # Errors
    /// There is no such question, it was withdrawn, or the answer to an open question does not fit.
    pub(crate) fn of<'a, A, E: From<Problem>>(
        run: &OwnRun,
        answers: &'a [A],
        question: impl Fn(&'a A) -> &'a str,
        decide: impl Fn(&SuspendedCall, &'a A) -> Result<Decision, E>,
    ) -> Result<Self, E> {
        let ids: BTreeSet<&str> = answers.iter().map(&question).collect();
        let (mut decisions, mut late, mut after) = (Vec::new(), Vec::new(), run.stored());
        for answer in answers {
            let id = question(answer);
            let Some((_, asked)) = run.asked(id) else { return Err(run.no_such_question(id).into()) };
            let decision = decide(asked, answer).map(|decision| repeatable(decision, &run.run_id));
            match decided(run, id) {
                Some((number, taken)) => {
                    after = after.min(number - 1);
                    if decision.map_or(true, |decision| decision.id != taken.id) {
                        late.push(id.to_owned());
                    }
                }
                None if run.question(id).is_some() => decisions.push(decision?),
                None => return Err(run.no_such_question(id).into()),
            }
        }
        Ok(Self { decisions, count: ids.len(), after, late })
    }
}

/// Returns the decision about a question, with the number of its event; `None` if there is none.
fn decided<'a>(run: &'a OwnRun, suspension_id: &str) -> Option<(u64, &'a Decision)> {
    run.events.iter().find_map(|event| match &event.event {
        Event::CallDecided { decision, .. } if decision.target == suspension_id => {
            Some((event.number, decision.as_ref()))
        }
        _ => None,
    })
}
