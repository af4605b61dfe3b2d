-- The bytes of components in parts of up to 1 MiB, so that no statement sends or reads more. The row
-- in `components` is added after them, and its own bytes are NULL. Earlier hosts stored all bytes there.
CREATE TABLE component_parts (
    digest text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (digest, part)
);
ALTER TABLE component_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE components ALTER COLUMN bytes DROP NOT NULL;

-- Earlier hosts could not read such a component.
UPDATE meta SET min_host = 4;

-- The index for lists by status has an entry for each time that a run changed while a transaction stayed
-- open. The condition on the length keeps the server from reading all of them where one thread is meant,
-- which has an index of its own.
DROP INDEX runs_by_status;
CREATE INDEX runs_by_status ON runs (status, id) WHERE status <> 'completed' AND length(status) > 0;
CREATE INDEX runs_open ON runs (thread, id) WHERE kind = 'prompt' AND status IN ('running', 'waiting');

-- Claims up to `a_limit` runs for a host: waiting ones with the oldest commands, then the oldest of those
-- from `a_from` on that were queued or interrupted. The second list is read only as far as the first one
-- leaves room. The last row is the oldest run from `a_from` on that has no owner, whether it can be claimed
-- or not. A prompt's run can be claimed if it is the oldest open one of its thread, and no host drives a newer
-- one, which a host may have begun whose clock is ahead. A function, because planning it takes longer than
-- running it.
CREATE FUNCTION claim_v1(a_host text, a_agents text[], a_limit bigint, a_from text)
RETURNS TABLE (o_run text, o_epoch bigint, o_place bigint) LANGUAGE plpgsql
-- The one plan is for any size of the tables: it reads indexes, and of each list only the beginning.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY WITH commanded AS (
            SELECT r.id FROM inbox i JOIN runs r ON r.id = i.run
            WHERE r.status = 'waiting' AND r.owner IS NULL
                AND (r.kind = 'call' OR r.kind = 'prompt' AND r.agent = ANY (a_agents))
                AND (r.kind <> 'prompt' OR (SELECT true FROM runs o WHERE o.thread = r.thread
                        AND o.id < r.id AND o.kind = 'prompt' AND o.status IN ('running', 'waiting')
                        LIMIT 1) IS NULL
                    AND (SELECT true FROM runs o WHERE o.thread = r.thread AND o.kind = 'prompt'
                        AND o.status = 'running' AND o.owner IS NOT NULL LIMIT 1) IS NULL)
            ORDER BY i.number LIMIT a_limit FOR UPDATE OF r SKIP LOCKED),
        unowned AS (
            SELECT r.id FROM runs r
            WHERE r.status = 'running' AND r.owner IS NULL AND r.id >= a_from
                AND (r.kind = 'call' OR r.kind = 'prompt' AND r.agent = ANY (a_agents))
                AND (r.kind <> 'prompt' OR (SELECT true FROM runs o WHERE o.thread = r.thread
                        AND o.id < r.id AND o.kind = 'prompt' AND o.status IN ('running', 'waiting')
                        LIMIT 1) IS NULL
                    AND (SELECT true FROM runs o WHERE o.thread = r.thread AND o.kind = 'prompt'
                        AND o.status = 'running' AND o.owner IS NOT NULL LIMIT 1) IS NULL)
            ORDER BY r.id LIMIT a_limit FOR UPDATE SKIP LOCKED),
        chosen AS (
            SELECT x.id, row_number() OVER () AS place
            FROM (SELECT c.id FROM commanded c UNION ALL SELECT u.id FROM unowned u LIMIT a_limit) AS x),
        claimed AS (
            UPDATE runs SET owner = a_host, epoch = runs.epoch + 1 FROM chosen
            WHERE runs.id = chosen.id AND runs.owner IS NULL RETURNING runs.id, runs.epoch, chosen.place)
    SELECT c.id, c.epoch, c.place FROM claimed c
    UNION ALL SELECT (SELECT min(r.id) FROM runs r
        WHERE r.status = 'running' AND r.owner IS NULL AND r.id >= a_from), 0::bigint, a_limit + 1
    ORDER BY 3;
END
$$;
