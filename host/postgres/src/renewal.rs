//! The statements with which a host renews its lease and releases what dead hosts left behind.

use crate::lease::HostLease;
use std::sync::LazyLock;
use std::time::Duration;
use tokio_postgres::Row;

/// The runs of dead hosts, and of those that are forgotten.
const LEFT_RUNS: &str = "runs r WHERE r.owner IS NOT NULL
    AND NOT EXISTS (SELECT FROM hosts h WHERE h.id = r.owner AND h.state = 'up')";

/// Their places in queues.
const LEFT_TURNS: &str =
    "turns t WHERE NOT EXISTS (SELECT FROM hosts h WHERE h.id = t.host AND h.state = 'up')";

/// The hosts that have been dead for long.
const OLD_HOSTS: &str = "hosts WHERE state = 'dead' AND lease_until < clock_timestamp() - interval '1 day'";

/// Renews the row of this host, and reads the others, the runs that this one owns, its places in queues, and
/// whether [`RELEASE_DEAD`] has anything to do.
pub(crate) static RENEW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH renewed AS (UPDATE hosts SET renewals = renewals + 1, agents = $3, unserved = $4, tools = $5,
            config = $6, lease_until = clock_timestamp() + $2 * interval '1 ms'
        WHERE id = $1 AND state = 'up' RETURNING id)
    SELECT 'me', id, 0::int8, 0::int8, 0::int8 FROM renewed
    UNION ALL SELECT 'host', id, renewals, lease_ms,
            (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::int8
        FROM hosts WHERE state = 'up' AND id <> $1
    UNION ALL SELECT 'run', id, epoch, 0, 0 FROM runs WHERE owner = $1
    UNION ALL SELECT 'turn', '', id, 0, 0 FROM turns WHERE host = $1
    UNION ALL SELECT 'left', '', 0, 0, 0 WHERE EXISTS (SELECT FROM {LEFT_RUNS})
        OR EXISTS (SELECT FROM {LEFT_TURNS}) OR EXISTS (SELECT FROM {OLD_HOSTS})"
    )
});

/// Releases the runs of dead hosts, with their places in queues, and forgets hosts that have been gone
/// for long. Also finds runs that a host began after it was declared dead. A locked row is found at the
/// next look.
pub(crate) static RELEASE_DEAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH left_behind AS (SELECT r.id FROM {LEFT_RUNS} ORDER BY r.id FOR UPDATE SKIP LOCKED),
        freed AS (UPDATE runs SET owner = NULL, epoch = epoch + 1 FROM left_behind
            WHERE runs.id = left_behind.id RETURNING 1),
        queued AS (DELETE FROM {LEFT_TURNS}),
        forgotten AS (DELETE FROM {OLD_HOSTS})
    SELECT count(*) FROM freed"
    )
});

/// The rows that a host reads with each renewal.
#[derive(Default)]
pub(crate) struct RenewalRows {
    /// `false` if it was declared dead.
    pub(crate) is_renewed: bool,
    pub(crate) others: Vec<HostLease>,
    /// The runs that it owns, with their epochs.
    pub(crate) owned: Vec<(String, i64)>,
    /// Its places in the queues of threads.
    pub(crate) turns: Vec<i64>,
    /// Whether dead hosts have left runs or turns behind.
    pub(crate) is_left: bool,
}

impl RenewalRows {
    /// Reads the rows of [`RENEW`].
    pub(crate) fn read(rows: &[Row]) -> Self {
        let mut looked = Self::default();
        for row in rows {
            let (id, number): (String, i64) = (row.get(1), row.get(2));
            match row.get(0) {
                "me" => looked.is_renewed = true,
                "run" => looked.owned.push((id, number)),
                "turn" => looked.turns.push(number),
                "left" => looked.is_left = true,
                _ => looked.others.push(HostLease {
                    id,
                    renewals: number,
                    lease: Duration::from_millis(row.get::<_, i64>(3).unsigned_abs()),
                    left_ms: row.get(4),
                }),
            }
        }
        looked
    }
}
