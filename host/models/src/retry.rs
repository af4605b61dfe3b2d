//! Retries of transient faults, within limits.

use super::{Delta, DeltaSink, FaultKind, Model, ModelFault};
use async_trait::async_trait;
use serde::Deserialize;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;
use tollgate_agent::message::{ModelReply, ModelRequest};

/// A model wrapper that retries after transient faults, with growing pauses that honour the
/// provider's `retry-after`. Permanent faults end the reply at once.
#[derive(Debug)]
pub struct RetryingModel<M> {
    model: M,
    policy: RetryPolicy,
}

/// The number of retries and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// The maximum number of attempts, including the first; 0 counts as 1.
    pub max_attempts: u32,
    /// The first pause, in milliseconds; each later one doubles.
    pub first_pause_ms: u64,
    /// The maximum pause, in milliseconds. A provider may ask for a longer one.
    pub max_pause_ms: u64,
    /// The maximum sum of all pauses of one reply, in milliseconds. If a provider asks for a
    /// longer wait than is left, the reply ends at once.
    pub max_total_pause_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, first_pause_ms: 500, max_pause_ms: 20_000, max_total_pause_ms: 120_000 }
    }
}

impl<M: Model> RetryingModel<M> {
    /// Wraps a model.
    pub fn new(model: M, policy: RetryPolicy) -> Self {
        Self { model, policy }
    }
}

#[async_trait]
impl<M: Model> Model for RetryingModel<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let mut paused = Duration::ZERO;
        let mut attempt = 1;
        loop {
            // The next attempt uses the memory of the one before it.
            let asked = self.model.reply(request.clone(), deltas);
            let fault = match asked.await {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            };
            let pause = self.policy.pause(&fault, attempt, paused, jitter())?;
            attempt += 1;
            paused += pause;
            tracing::info!(model = self.name(), attempt, ?pause, reason = fault.message(), "asking again");
            let (max_attempts, reason) = (self.policy.max_attempts, fault.message().to_owned());
            deltas(Delta::Restarted { attempt, max_attempts, pause, reason });
            tokio::time::sleep(pause).await;
        }
    }
}

impl RetryPolicy {
    /// Returns the pause after the failed attempt number `attempt`, or the fault with which the
    /// reply ends. `jitter` is between 0 and 1.
    fn pause(
        &self,
        fault: &ModelFault,
        attempt: u32,
        paused: Duration,
        jitter: f64,
    ) -> Result<Duration, ModelFault> {
        let FaultKind::Transient { retry_after } = fault.kind() else {
            return Err(fault.clone());
        };
        if attempt >= self.max_attempts {
            return Err(after_attempts(fault, attempt));
        }
        let left = Duration::from_millis(self.max_total_pause_ms).saturating_sub(paused);
        let asked = retry_after.unwrap_or_default();
        if asked > left || left.is_zero() {
            return Err(after_attempts(fault, attempt).prefixed(&format!(
                "The provider asks for a wait of {asked:.1?}, and {left:.1?} are left to wait \
                 (max_total_pause_ms is {}). ",
                self.max_total_pause_ms
            )));
        }
        // Never earlier than the provider asked for, and spread so that clients do not retry at
        // the same moment.
        let pause = self.growing(attempt, jitter).max(asked + asked.mul_f64(0.1 * jitter));
        Ok(pause.min(left))
    }

    fn growing(&self, attempt: u32, jitter: f64) -> Duration {
        let doubled = 1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX);
        let pause_ms = self.first_pause_ms.saturating_mul(doubled).min(self.max_pause_ms);
        Duration::from_millis(pause_ms).mul_f64(0.5 + 0.5 * jitter)
    }
}

fn after_attempts(fault: &ModelFault, attempts: u32) -> ModelFault {
    match attempts {
        1 => fault.clone(),
        _ => fault.clone().prefixed(&format!("After {attempts} attempts: ")),
    }
}

/// Returns a number between 0 and 1 that differs between calls; it need not be unpredictable.
fn jitter() -> f64 {
    let random = std::hash::RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { max_attempts: 4, first_pause_ms: 100, max_pause_ms: 250, max_total_pause_ms: 10_000 };

    fn overload(retry_after_ms: Option<u64>) -> ModelFault {
        ModelFault::transient("overloaded", retry_after_ms.map(Duration::from_millis))
    }

    #[test]
    fn a6_pauses_grow_to_a_bound_and_jitter_within_it() {
        let pause = |attempt, jitter| POLICY.pause(&overload(None), attempt, Duration::ZERO, jitter).unwrap();
        assert_eq!(pause(1, 1.0), Duration::from_millis(100));
        assert_eq!(pause(2, 1.0), Duration::from_millis(200));
        assert_eq!(pause(3, 1.0), Duration::from_millis(250));
        assert_eq!(pause(1, 0.0), Duration::from_millis(50));
        assert!((0..100).map(|_| jitter()).all(|j| (0.0..=1.0).contains(&j)));
    }

    #[test]
    fn a6_a_provider_is_never_asked_before_it_wants_to_be() {
        let pause = |jitter| POLICY.pause(&overload(Some(3_000)), 1, Duration::ZERO, jitter).unwrap();
        assert_eq!(pause(0.0), Duration::from_secs(3));
        assert_eq!(pause(1.0), Duration::from_millis(3_300));
    }

    #[test]
    fn a6_a_wait_beyond_what_is_left_ends_the_reply_with_the_providers_words() {
        let ended = POLICY.pause(&overload(Some(8_000)), 2, Duration::from_secs(3), 0.0).unwrap_err();
        assert_eq!(
            ended.message(),
            "The provider asks for a wait of 8.0s, and 7.0s are left to wait \
             (max_total_pause_ms is 10000). After 2 attempts: overloaded"
        );
    }

    #[test]
    fn a6_attempts_are_bounded_and_permanent_faults_are_not_retried() {
        let last = POLICY.pause(&overload(None), 4, Duration::ZERO, 0.0).unwrap_err();
        assert_eq!(last.message(), "After 4 attempts: overloaded");
        let refused = ModelFault::permanent("no such key");
        assert_eq!(POLICY.pause(&refused, 1, Duration::ZERO, 0.0).unwrap_err(), refused);
    }

    #[test]
    fn a_huge_attempt_number_does_not_overflow() {
        assert!(POLICY.growing(u32::MAX, 1.0) == Duration::from_millis(250));
    }
}
