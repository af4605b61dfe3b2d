//! Agents that are composed of others: in sequence, in parallel, or in a loop. The next
//! agent to run follows from the conversation alone, so a run of such an agent can be
//! resumed from its record like any other.

use crate::message::Message;
use crate::name::RUN_AGENT;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most agents in one composition.
pub const MAX_PARTS: usize = 32;
/// The most rounds of a loop.
pub const MAX_ROUNDS: u32 = 64;

/// The composition of an agent from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Composition {
    /// Sequentially; each receives the answer of the previous one.
    Sequential(Vec<String>),
    /// At the same time; each receives the same question.
    Parallel(Vec<String>),
    /// Sequentially and repeatedly, until one escalates or the rounds are used up.
    Loop {
        /// The agents of one round.
        agents: Vec<String>,
        /// The maximum number of rounds; at least one.
        max_rounds: u32,
    },
}

/// The next step of a composed agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Ask these agents this question, concurrently. The number identifies the step.
    Run(usize, Vec<(String, String)>),
    /// Finish with this answer.
    Done(String),
    /// Fail for this reason.
    Failed(String),
}

/// The answer of the tool that runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartAnswer {
    /// The agent.
    pub agent: String,
    /// Its answer.
    pub response: String,
    /// Whether it ended the loop.
    pub escalated: bool,
}

impl Composition {
    /// Returns the agents, in order.
    #[must_use]
    pub fn agents(&self) -> &[String] {
        match self {
            Composition::Sequential(agents)
            | Composition::Parallel(agents)
            | Composition::Loop { agents, .. } => agents,
        }
    }

    /// Derives the next step from the conversation so far.
    #[must_use]
    pub fn next(&self, messages: &[Message]) -> NextStep {
        let asked = messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let prompt = match asked.map(|at| &messages[at]) {
            Some(Message::User(text)) => text.as_str(),
            _ => "",
        };
        let answers: Vec<Result<PartAnswer, String>> =
            messages[asked.unwrap_or(0)..].iter().filter_map(answer).collect();
        match self {
            Composition::Sequential(agents) => in_turn(agents, agents.len(), prompt, &answers),
            Composition::Parallel(agents) => side_by_side(agents, prompt, &answers),
            Composition::Loop { agents, max_rounds } => {
                in_turn(agents, agents.len().saturating_mul(*max_rounds as usize), prompt, &answers)
            }
        }
    }
}

fn in_turn(agents: &[String], all: usize, prompt: &str, answers: &[Result<PartAnswer, String>]) -> NextStep {
    let asked = match answers.last() {
        None => prompt.to_owned(),
        Some(Err(why)) => return NextStep::Failed(why.clone()),
        Some(Ok(last)) if last.escalated || answers.len() >= all => {
            return NextStep::Done(last.response.clone());
        }
        Some(Ok(last)) => last.response.clone(),
    };
    match agents.get(answers.len() % agents.len().max(1)) {
        Some(agent) => NextStep::Run(answers.len(), vec![(agent.clone(), asked)]),
        None => NextStep::Failed("it has no agents".to_owned()),
    }
}

fn side_by_side(agents: &[String], prompt: &str, answers: &[Result<PartAnswer, String>]) -> NextStep {
    if answers.is_empty() {
        return NextStep::Run(0, agents.iter().map(|agent| (agent.clone(), prompt.to_owned())).collect());
    }
    let texts: Vec<String> = answers
        .iter()
        .zip(agents)
        .map(|(answer, agent)| match answer {
            Ok(answer) => format!("{agent}:\n{}", answer.response),
            Err(why) => format!("{agent} did not answer: {why}"),
        })
        .collect();
    let texts = texts.join("\n\n");
    if answers.iter().all(Result::is_err) { NextStep::Failed(texts) } else { NextStep::Done(texts) }
}

fn answer(message: &Message) -> Option<Result<PartAnswer, String>> {
    let Message::Answer(answer) = message else { return None };
    if answer.tool_name != RUN_AGENT {
        return None;
    }
    let read = serde_json::from_str::<Value>(&answer.content).and_then(serde_json::from_value);
    Some(read.map_err(|_| answer.content.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Answer;
    use serde_json::json;

    fn names() -> Vec<String> {
        vec!["one".to_owned(), "two".to_owned()]
    }

    fn said(answers: &[(&str, bool)]) -> Vec<Message> {
        let answers = answers.iter().map(|(response, escalated)| {
            let content = match *response {
                "!" => "it broke".to_owned(),
                response => json!({"agent": "x", "response": response, "escalated": escalated}).to_string(),
            };
            Message::Answer(Answer {
                call_id: "c".into(),
                tool_name: RUN_AGENT.into(),
                content: content.into(),
                is_error: *response == "!",
                images: Vec::new(),
            })
        });
        let earlier = [Message::User("before".to_owned())];
        let old = answers.clone().take(1).collect::<Vec<_>>();
        earlier.into_iter().chain(old).chain([Message::User("Go.".to_owned())]).chain(answers).collect()
    }

    fn run(number: usize, parts: &[(&str, &str)]) -> NextStep {
        NextStep::Run(number, parts.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
    }

    #[test]
    fn d12_a_sequence_hands_each_answer_to_the_next() {
        let sequence = Composition::Sequential(names());
        assert_eq!(sequence.next(&said(&[])), run(0, &[("one", "Go.")]));
        assert_eq!(sequence.next(&said(&[("A", false)])), run(1, &[("two", "A")]));
        assert_eq!(sequence.next(&said(&[("A", false), ("B", false)])), NextStep::Done("B".to_owned()));
        assert_eq!(sequence.next(&said(&[("!", false)])), NextStep::Failed("it broke".to_owned()));
    }

    #[test]
    fn d12_side_by_side_all_are_asked_the_same() {
        let parallel = Composition::Parallel(names());
        assert_eq!(parallel.next(&said(&[])), run(0, &[("one", "Go."), ("two", "Go.")]));
        let done = NextStep::Done("one:\nA\n\ntwo did not answer: it broke".to_owned());
        assert_eq!(parallel.next(&said(&[("A", false), ("!", false)])), done);
        assert!(matches!(parallel.next(&said(&[("!", false), ("!", false)])), NextStep::Failed(_)));
    }

    #[test]
    fn d12_a_loop_ends_by_escalation_or_with_its_rounds() {
        let round = Composition::Loop { agents: names(), max_rounds: 2 };
        assert_eq!(round.next(&said(&[("A", false), ("B", false)])), run(2, &[("one", "B")]));
        assert_eq!(round.next(&said(&[("A", true)])), NextStep::Done("A".to_owned()));
        let all = [("A", false), ("B", false), ("C", false), ("D", false)];
        assert_eq!(round.next(&said(&all)), NextStep::Done("D".to_owned()));
    }
}
