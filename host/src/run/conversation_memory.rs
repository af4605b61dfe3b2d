//! The memory of a run's conversation, reserved from the host's budget: the model's replies, and the
//! answers to its calls. A run keeps both until it rests.

use crate::models::{ModelReply, ReplyMemory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tollgate_agent::content::ContentPart;
use tollgate_agent::json::written_bytes;
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// The copies of a reply up to this size are kept without a reservation, and so are all answers of a run
/// together up to this size, in bytes.
const SMALL_BYTES: u64 = 256 * 1024;
/// The answers of one run may use one part in this many of the memory budget. The conversation of a thread
/// can be read again up to that size.
const ANSWERS_PART: u64 = 8;
/// How long a run that holds memory waits for more.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before it looks again.
const PAUSE: Duration = Duration::from_millis(50);

/// The copies of a reply in memory: in the run, and in the record that is being stored.
const COPIES: u64 = 2;

/// The memory of one reply.
#[derive(Debug)]
pub(super) struct ReservedReply {
    budget: MemoryBudget,
    held: Mutex<Option<Reservation>>,
}

impl ReservedReply {
    pub(super) fn new(budget: &MemoryBudget) -> Arc<Self> {
        Arc::new(Self { budget: budget.clone(), held: Mutex::default() })
    }

    /// Returns the memory of the whole reply, without the memory that only reading it took; `None` if
    /// the reply is small.
    ///
    /// # Errors
    /// There is no memory for a reply that its model did not reserve.
    pub(super) fn hand_over(&self, reply: &ModelReply) -> Result<Option<Reservation>, String> {
        let Some(bytes) = memory_of_reply(reply) else {
            drop(self.held().take());
            return Ok(None);
        };
        self.reserve(bytes)?;
        let mut held = self.held().take();
        if let Some(held) = &mut held {
            held.shrink_to(bytes);
        }
        Ok(held)
    }

    fn held(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyMemory for ReservedReply {
    fn reserve(&self, bytes: u64) -> Result<(), String> {
        self.budget.try_grow_to(&mut self.held(), bytes).then_some(()).ok_or_else(|| {
            let what = format!("the model's reply, which takes at least {bytes} bytes");
            overloaded(&what, &self.budget)
        })
    }
}

/// The memory of the answers to calls in a run's conversation. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct AnswerMemory(Arc<Mutex<CountedAnswers>>);

#[derive(Debug)]
struct CountedAnswers {
    /// The number of messages of the conversation that were counted.
    counted: usize,
    /// The size of the answers among them, in bytes.
    bytes: u64,
    /// The size of the ends of calls whose turn is not complete, in bytes. The conversation has no answers
    /// to them yet.
    ended_bytes: u64,
    held: Option<Reservation>,
}

/// The reason why there is no memory for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoAnswerMemory {
    /// They are longer than one run may keep.
    TooLong(u64),
    /// Others hold the memory.
    Busy(u64),
}

impl AnswerMemory {
    /// Begins after this many messages, whose memory is reserved elsewhere.
    pub(super) fn after(counted: usize) -> Self {
        Self(Arc::new(Mutex::new(CountedAnswers { counted, bytes: 0, ended_bytes: 0, held: None })))
    }

    /// Counts what an event added to the conversation, which has these messages now.
    pub(super) fn count(&self, event: &Event, messages: &[Message]) {
        let mut answers = self.lock();
        if let Event::CallFinished(finished) = event {
            answers.ended_bytes += written_bytes(&finished.end) as u64;
        }
        let added = messages.get(answers.counted..).unwrap_or_default();
        if added.iter().any(|message| matches!(message, Message::Answer(_))) {
            answers.ended_bytes = 0;
        }
        answers.bytes += memory_of_answers(added);
        answers.counted = messages.len();
    }

    /// Keeps as much of the memory of ended calls as their answers need, and returns the rest. Calls that
    /// reserved none are charged if memory is free, and otherwise before the next request to the model.
    pub(super) fn take_over(&self, outcomes: Vec<Arc<Reservation>>, budget: &MemoryBudget) {
        let mut answers = self.lock();
        if answers.needed() > 0 {
            for memory in outcomes.into_iter().filter_map(Arc::into_inner) {
                match &mut answers.held {
                    Some(held) => held.absorb(memory),
                    None => answers.held = Some(memory),
                }
            }
        }
        answers.fit(budget);
    }

    fn try_reserve(&self, budget: &MemoryBudget) -> Result<(), NoAnswerMemory> {
        let mut answers = self.lock();
        let bytes = answers.needed();
        if bytes > budget.total_bytes() / ANSWERS_PART {
            return Err(NoAnswerMemory::TooLong(bytes));
        }
        answers.fit(budget).then_some(()).ok_or(NoAnswerMemory::Busy(bytes))
    }

    /// Reserves memory for the counted answers, and waits for it. It does not queue for it, because runs
    /// that hold memory and wait for more would wait for each other.
    ///
    /// # Errors
    /// There is no memory for the answers.
    pub(super) async fn reserve(&self, budget: &MemoryBudget) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let why = match self.try_reserve(budget) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if Instant::now() >= until || matches!(why, NoAnswerMemory::TooLong(_)) {
                return Err(why.words(budget));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, CountedAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountedAnswers {
    /// Returns the memory that the answers need, in bytes. A few small ones need none.
    fn needed(&self) -> u64 {
        let bytes = self.bytes + self.ended_bytes;
        if bytes <= SMALL_BYTES { 0 } else { bytes }
    }

    /// Reserves what is missing, and returns what is not needed. Returns `false` if memory is not free.
    fn fit(&mut self, budget: &MemoryBudget) -> bool {
        let bytes = self.needed();
        if bytes == 0 {
            self.held = None;
            return true;
        }
        let fits = budget.try_grow_to(&mut self.held, bytes);
        if let Some(held) = &mut self.held {
            held.shrink_to(bytes);
        }
        fits
    }
}

impl NoAnswerMemory {
    fn words(self, budget: &MemoryBudget) -> String {
        let (total, place) = (budget.total_bytes(), budget.limit_place());
        match self {
            Self::TooLong(bytes) => format!(
                "overloaded: the answers to calls in this run's conversation have {bytes} bytes, and one run may keep \
                 {} of them, one part in {ANSWERS_PART} of memory_budget_bytes = {total}, which an operator can raise{place}",
                total / ANSWERS_PART
            ),
            Self::Busy(bytes) => {
                let what =
                    format!("the answers to calls in this run's conversation, which have {bytes} bytes");
                overloaded(&what, budget)
            }
        }
    }
}

/// The memory of the conversation of a run that is read from its record.
#[derive(Debug)]
pub(crate) struct ConversationMemory {
    pub(super) replies: Option<Reservation>,
    pub(super) answers: AnswerMemory,
}

impl ConversationMemory {
    /// Begins after this many messages, whose memory is reserved elsewhere.
    pub(crate) fn after(counted: usize) -> Self {
        Self { replies: None, answers: AnswerMemory::after(counted) }
    }

    /// Reserves memory for what an event added to the conversation, which has these messages now. Returns
    /// `false` if it is not free.
    pub(crate) fn try_reserve(&mut self, event: &Event, messages: &[Message], budget: &MemoryBudget) -> bool {
        let reply = match event {
            Event::ModelReplied { reply, .. } => memory_of_reply(reply).unwrap_or_default(),
            _ => 0,
        };
        let held = self.replies.as_ref().map_or(0, Reservation::bytes);
        self.answers.count(event, messages);
        // A run with too many answers is not refused forever: it fails at its next request to the model.
        let is_busy = matches!(self.answers.try_reserve(budget), Err(NoAnswerMemory::Busy(_)));
        !is_busy && (reply == 0 || budget.try_grow_to(&mut self.replies, held + reply))
    }
}

/// Returns the reason for which a run fails if there is no memory for this.
pub(super) fn overloaded(what: &str, budget: &MemoryBudget) -> String {
    format!(
        "overloaded: the host has no memory for {what}; the limit is memory_budget_bytes = {}, of all runs and calls \
         together, which an operator can raise{}",
        budget.total_bytes(),
        budget.limit_place()
    )
}

/// Returns the memory that a run needs for the answers among these messages, in bytes.
fn memory_of_answers(messages: &[Message]) -> u64 {
    let of_one = |message: &Message| match message {
        Message::Answer(answer) => {
            answer.content.len() + answer.images.iter().map(ContentPart::bytes).sum::<usize>()
        }
        _ => 0,
    };
    messages.iter().map(of_one).sum::<usize>() as u64
}

/// Returns the memory that a run needs for a reply, in bytes; `None` if the reply is small.
fn memory_of_reply(reply: &ModelReply) -> Option<u64> {
    let bytes = COPIES * bytes_of(reply);
    (bytes > SMALL_BYTES).then_some(bytes)
}

fn bytes_of(reply: &ModelReply) -> u64 {
    let message = &reply.message;
    let calls = message.calls.iter().map(|call| {
        let data = call.provider_data.as_ref().map_or(0, written_bytes);
        call.id.len() + call.name.len() + call.arguments.len() + data
    });
    let text = message.text.len() + message.reasoning.as_ref().map_or(0, String::len);
    (text + calls.sum::<usize>()) as u64
}
