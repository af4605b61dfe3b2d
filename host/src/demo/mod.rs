//! stand-in
use crate::cli::{Exit, Failure, Output};
use clap::Args;
/// The tour
#[derive(Debug, Args)]
#[command(after_help = "Example:")]
pub(crate) struct Demo {}
impl Demo {
    pub(crate) async fn run(self, _output: &Output) -> Result<Exit, Failure> {
        Ok(Exit::Done)
    }
}
