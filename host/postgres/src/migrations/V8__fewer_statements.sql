-- Functions, because the server keeps the plans of their statements: planning takes longer than running them.

-- As before, with fewer statements: the row of the thread is locked by the statement that changes it. If the run
-- changes after the first check, nothing is written either: the error undoes it, and the caller sends the commit
-- again.
CREATE OR REPLACE FUNCTION commit_v1(
    a_run text, a_thread text, a_epoch bigint, a_after bigint,
    a_id text, a_moved bigint, a_at_ms bigint,
    a_owner text, a_status text, a_call_status text,
    a_numbers bigint[], a_bodies text[], a_checksums bytea[],
    a_revision bigint,
    a_messages text[], a_record_bytes bigint,
    a_shard smallint, a_component_ids text[], a_component_bytes bigint[], a_digests text[],
    a_audit text[],
    a_healthy text[],
    a_commands text[], a_ends boolean
) RETURNS boolean LANGUAGE plpgsql
-- As in a transaction of several statements: if the host has given up, the server stops waiting as well.
SET lock_timeout = '5s'
SET enable_seqscan = off
-- All rows are found by their keys, whatever the values.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    said bigint;
BEGIN
    IF cardinality(a_healthy) > 0 THEN
        IF EXISTS (SELECT FROM tool_health WHERE tool_name = ANY (a_healthy)) THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE threads SET revision = coalesce(a_revision, revision),
            messages = messages + cardinality(a_messages), record_bytes = record_bytes + a_record_bytes
        WHERE id = a_thread
            AND EXISTS (SELECT FROM runs WHERE id = a_run AND epoch = a_epoch AND events = a_after)
        RETURNING messages - cardinality(a_messages) INTO said;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE runs SET status = CASE kind WHEN 'call' THEN a_call_status ELSE a_status END, owner = a_owner,
            events = a_after + cardinality(a_numbers), last_commit = a_id, last_moved = a_moved,
            updated_at_ms = a_at_ms
        WHERE id = a_run AND epoch = a_epoch AND events = a_after;
    IF NOT FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'the run has another driver or other events';
    END IF;
    INSERT INTO events (run, number, at_ms, body, checksum)
        SELECT a_run, x.number, a_at_ms, x.body, x.checksum
        FROM unnest(a_numbers, a_bodies, a_checksums) AS x(number, body, checksum);
    IF cardinality(a_messages) > 0 THEN
        INSERT INTO messages (thread, position, body)
            SELECT a_thread, said + x.n - 1, x.body FROM unnest(a_messages) WITH ORDINALITY AS x(body, n);
    END IF;
    IF cardinality(a_audit) > 0 THEN
        INSERT INTO audit (at_ms, kind, who, decision, file, component_id, digest, tool_name, power, detail,
                run_id, call_id, usage)
            SELECT a_audit[n + 1]::bigint, a_audit[n + 2], a_audit[n + 3], a_audit[n + 4], a_audit[n + 5],
                a_audit[n + 6], a_audit[n + 7], a_audit[n + 8], a_audit[n + 9], a_audit[n + 10],
                a_audit[n + 11], a_audit[n + 12], a_audit[n + 13]
            FROM generate_series(0, cardinality(a_audit) - 13, 13) AS n ORDER BY n;
    END IF;
    IF cardinality(a_component_ids) > 0 THEN
        INSERT INTO component_sizes (component_id, shard, record_bytes)
            SELECT x.id, a_shard, x.bytes
            FROM unnest(a_component_ids, a_component_bytes) WITH ORDINALITY AS x(id, bytes, n) ORDER BY x.n
            ON CONFLICT (component_id, shard) DO UPDATE
                SET record_bytes = component_sizes.record_bytes + excluded.record_bytes;
    END IF;
    IF cardinality(a_digests) > 0 THEN
        INSERT INTO run_components (run, digest)
            SELECT a_run, digest FROM components WHERE digest = ANY (a_digests) ON CONFLICT DO NOTHING;
    END IF;
    IF a_ends THEN
        DELETE FROM inbox WHERE run = a_run;
    ELSIF cardinality(a_commands) > 0 THEN
        DELETE FROM inbox WHERE run = a_run AND id = ANY (a_commands);
    END IF;
    RETURN true;
END
$$;

-- Adds the row of a run that begins, as it is before its first events, and locks its thread before that. It has
-- its owner already: then the server does not have to write the indexes again when the events are added.
CREATE FUNCTION begin_v1(
    a_run text, a_thread text, a_agent text, a_kind text, a_title text, a_epoch bigint, a_at_ms bigint, a_owner text
) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '5s'
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    INSERT INTO threads (id) VALUES (a_thread) ON CONFLICT DO NOTHING;
    PERFORM FROM threads WHERE id = a_thread FOR UPDATE;
    INSERT INTO runs (id, thread, agent, kind, title, status, epoch, events, last_commit, last_moved,
            started_at_ms, updated_at_ms, owner)
        VALUES (a_run, a_thread, a_agent, a_kind, a_title, 'running', a_epoch, 0, '', 0, a_at_ms, a_at_ms, a_owner);
    RETURN true;
END
$$;

-- Reads a thread: first a row with its revision, the size of its records, and the sizes of its values and of its
-- messages from `a_from` on. Unless these are more than `a_max_bytes` together, the messages and then the values
-- follow. `STABLE` functions see one snapshot.
CREATE FUNCTION thread_v1(a_thread text, a_from bigint, a_max_bytes bigint)
RETURNS TABLE (o_revision bigint, o_key text, o_text text, o_record_bytes bigint, o_state_bytes bigint,
    o_message_bytes bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    SELECT t.revision, t.record_bytes,
            (SELECT coalesce(sum(octet_length(s.value)), 0) FROM state s WHERE s.thread = a_thread),
            (SELECT coalesce(sum(octet_length(m.body)), 0) FROM messages m
                WHERE m.thread = a_thread AND m.position >= a_from)
        INTO o_revision, o_record_bytes, o_state_bytes, o_message_bytes FROM threads t WHERE t.id = a_thread;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN NEXT;
    IF o_state_bytes + o_message_bytes > a_max_bytes THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT NULL::bigint, NULL, m.body, NULL::bigint, NULL::bigint, NULL::bigint FROM messages m
        WHERE m.thread = a_thread AND m.position >= a_from ORDER BY m.position;
    RETURN QUERY SELECT NULL::bigint, s.key, s.value, NULL::bigint, NULL::bigint, NULL::bigint FROM state s
        WHERE s.thread = a_thread ORDER BY s.key;
END
$$;

-- Reads the events of a run from `a_after` to `a_until`, and with each row, the number of the run's last event.
-- The event `a_after` is read without its body: the next one's checksum continues its own. Bodies beyond `a_bytes`
-- together are NULL, except for the first.
CREATE FUNCTION events_v1(a_run text, a_after bigint, a_until bigint, a_bytes bigint)
RETURNS TABLE (o_last bigint, o_number bigint, o_at_ms bigint, o_body text, o_checksum bytea) LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY SELECT r.events, e.number, e.at_ms, CASE WHEN e.number = a_after THEN ''
                WHEN e.size <= a_bytes OR e.number - 1 = a_after THEN e.body END, e.checksum
        FROM runs r LEFT JOIN (
            SELECT *, sum(octet_length(body)) FILTER (WHERE number > a_after) OVER (ORDER BY number) AS size
            FROM events WHERE run = a_run AND number BETWEEN a_after AND a_until) e ON e.run = r.id
        WHERE r.id = a_run ORDER BY e.number;
END
$$;

-- As before, but the beginning of the index, which has an entry of each run that was queued while a transaction
-- stayed open, is read once. A run that is queued meanwhile is found by the next claim.
CREATE OR REPLACE FUNCTION claim_v1(a_host text, a_agents text[], a_limit bigint, a_from text)
RETURNS TABLE (o_run text, o_epoch bigint, o_place bigint) LANGUAGE plpgsql
-- The one plan is for any size of the tables: it reads indexes, and of each list only the beginning.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    oldest text;
BEGIN
    SELECT min(r.id) INTO oldest FROM runs r WHERE r.status = 'running' AND r.owner IS NULL AND r.id >= a_from;
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
            WHERE r.status = 'running' AND r.owner IS NULL AND r.id >= oldest
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
    UNION ALL SELECT oldest, 0::bigint, a_limit + 1
    ORDER BY 3;
END
$$;
