//! Models: one request in, one reply out, streamed on the way. All of `tollgate-models`.
//!
//! A custom model implements [`Model`]:
//!
//! ```
//! use tollgate::models::{AssistantMessage, Message, ModelReply, ModelRequest};
//! use tollgate::models::{Delta, DeltaSink, ModelFault};
//! use tollgate::{async_trait, Agent, Host, Model, RunRequest};
//!
//! /// Repeats the user's message.
//! struct Parrot;
//!
//! #[async_trait]
//! impl Model for Parrot {
//!     fn name(&self) -> &str {
//!         "parrot"
//!     }
//!
//!     async fn reply(&self, request: ModelRequest, deltas: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
//!         let Some(Message::User(text)) = request.messages.last() else {
//!             return Err(ModelFault::permanent("A parrot needs a message to repeat."));
//!         };
//!         deltas(Delta::Text(text.clone()));
//!         let message = AssistantMessage { text: text.clone(), ..AssistantMessage::default() };
//!         Ok(ModelReply { message, ..ModelReply::default() })
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().agent(Agent::new("polly", Parrot)).build()?;
//! let end = host.run(RunRequest::new("polly", "Pieces of eight!")).await?.wait().await?;
//! assert_eq!(end.text, "Pieces of eight!");
//! # Ok(())
//! # }
//! ```

pub use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
pub use tollgate_models::*;
