-- The model whose reply asked for the call. NULL for records without one, and for those of earlier versions.
ALTER TABLE audit ADD COLUMN model text COLLATE "C";

-- Functions, because the server keeps the plans of their statements: planning takes longer than running them.

-- As `commit_v1`, but an audit record has 14 values, and a commit that changes nothing in the row of its thread
-- neither writes nor locks it. That takes an eighth of the server's time off most commits, and runs and calls of one
-- thread wait for each other less often. `commit_v1` stays as it is: a host that was not stopped sends it 13 values.
CREATE FUNCTION commit_v2(
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
    IF a_revision IS NOT NULL OR a_record_bytes <> 0 OR cardinality(a_messages) > 0 THEN
        UPDATE threads SET revision = coalesce(a_revision, revision),
                messages = messages + cardinality(a_messages), record_bytes = record_bytes + a_record_bytes
            WHERE id = a_thread
                AND EXISTS (SELECT FROM runs WHERE id = a_run AND epoch = a_epoch AND events = a_after)
            RETURNING messages - cardinality(a_messages) INTO said;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE runs SET status = CASE kind WHEN 'call' THEN a_call_status ELSE a_status END, owner = a_owner,
            events = a_after + cardinality(a_numbers), last_commit = a_id, last_moved = a_moved,
            updated_at_ms = a_at_ms
        WHERE id = a_run AND epoch = a_epoch AND events = a_after;
    IF NOT FOUND AND said IS NULL THEN
        RETURN false;
    ELSIF NOT FOUND THEN
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
                run_id, call_id, usage, model)
            SELECT a_audit[n + 1]::bigint, a_audit[n + 2], a_audit[n + 3], a_audit[n + 4], a_audit[n + 5],
                a_audit[n + 6], a_audit[n + 7], a_audit[n + 8], a_audit[n + 9], a_audit[n + 10],
                a_audit[n + 11], a_audit[n + 12], a_audit[n + 13], a_audit[n + 14]
            FROM generate_series(0, cardinality(a_audit) - 14, 14) AS n ORDER BY n;
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

-- Claims runs as `claim_v1` does, and reads what the host needs to continue each of them: its events, its thread, and
-- the commands to it. A run whose texts are together longer than `a_max_bytes`, or than what the runs before it left of
-- `a_total_bytes`, or that has many events, messages or values, is only claimed: its `o_thread` is NULL.
CREATE FUNCTION claim_v2(
    a_host text, a_agents text[], a_limit bigint, a_from text, a_max_bytes bigint, a_total_bytes bigint
) RETURNS TABLE (
    o_run text, o_epoch bigint, o_place bigint, o_thread text,
    o_last bigint, o_numbers bigint[], o_times bigint[], o_bodies text[], o_checksums bytea[],
    o_revision bigint, o_record_bytes bigint, o_messages text[], o_keys text[], o_values text[],
    o_command_ids text[], o_commands text[]
) LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    many CONSTANT bigint := 100;
    bytes_left bigint := a_total_bytes;
    of_thread text;
    said bigint;
    last_command bigint;
    size bigint;
BEGIN
    FOR o_run, o_epoch, o_place IN
        SELECT c.o_run, c.o_epoch, c.o_place FROM claim_v1(a_host, a_agents, a_limit, a_from) c ORDER BY c.o_place
    LOOP
        o_thread := NULL; o_numbers := NULL; o_times := NULL; o_bodies := NULL; o_checksums := NULL;
        o_messages := NULL; o_keys := NULL; o_values := NULL; o_command_ids := NULL; o_commands := NULL;
        SELECT t.id, r.events, t.revision, t.record_bytes, t.messages,
                (SELECT max(i.number) FROM inbox i WHERE i.run = r.id),
                (SELECT sum(octet_length(e.body)) FROM events e WHERE e.run = r.id)
                + (SELECT coalesce(sum(octet_length(m.body)), 0) FROM messages m WHERE m.thread = t.id)
                + (SELECT CASE WHEN count(*) <= many THEN coalesce(sum(octet_length(s.value)), 0) END FROM state s
                    WHERE s.thread = t.id)
                + (SELECT coalesce(sum(octet_length(i.body)), 0) FROM inbox i WHERE i.run = r.id)
            INTO of_thread, o_last, o_revision, o_record_bytes, said, last_command, size
            FROM runs r JOIN threads t ON t.id = r.thread
            -- The last row is of a run that is not claimed.
            WHERE r.id = o_run AND o_epoch > 0 AND r.events <= many AND t.messages <= many;
        IF size <= least(a_max_bytes, bytes_left) THEN
            o_thread := of_thread;
            IF said > 0 OR o_revision > 0 THEN
                -- If a call has changed the values since they were measured, they may be large: the host reads them.
                SELECT t.id,
                        (SELECT array_agg(m.body ORDER BY m.position) FROM messages m WHERE m.thread = t.id),
                        (SELECT array_agg(s.key ORDER BY s.key) FROM state s WHERE s.thread = t.id),
                        (SELECT array_agg(s.value ORDER BY s.key) FROM state s WHERE s.thread = t.id)
                    INTO o_thread, o_messages, o_keys, o_values FROM threads t
                    WHERE t.id = of_thread AND t.revision = o_revision AND t.messages = said;
            END IF;
        END IF;
        IF o_thread IS NOT NULL THEN
            bytes_left := bytes_left - size;
            SELECT array_agg(e.number ORDER BY e.number), array_agg(e.at_ms ORDER BY e.number),
                    array_agg(e.body ORDER BY e.number), array_agg(e.checksum ORDER BY e.number)
                INTO o_numbers, o_times, o_bodies, o_checksums FROM events e WHERE e.run = o_run;
            IF last_command IS NOT NULL THEN
                SELECT array_agg(i.id ORDER BY i.number), array_agg(i.body ORDER BY i.number)
                    INTO o_command_ids, o_commands FROM inbox i WHERE i.run = o_run AND i.number <= last_command;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
