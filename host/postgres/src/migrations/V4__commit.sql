-- Writes the rows of a commit, and locks the thread and then the run. Writes nothing and returns
-- false if the run has another driver or other events than the caller knows, or if one of the tools
-- in `a_healthy` has trapped. A function, because the server keeps the plans of its statements, which
-- a pooler in transaction mode does not allow clients to do: planning takes most of a commit's time.
CREATE FUNCTION commit_v1(
    a_run text, a_thread text, a_epoch bigint, a_after bigint,
    -- the commit's id and result, to recognize it if its answer is lost
    a_id text, a_moved bigint, a_at_ms bigint,
    a_owner text, a_status text, a_call_status text,
    a_numbers bigint[], a_bodies text[], a_checksums bytea[],
    -- NULL if the state does not change
    a_revision bigint,
    a_messages text[], a_record_bytes bigint,
    a_shard smallint, a_component_ids text[], a_component_bytes bigint[], a_digests text[],
    -- 13 columns of each record, one record after another
    a_audit text[],
    a_healthy text[],
    -- the commands that the commit carries out; if the run ends, all are removed
    a_commands text[], a_ends boolean
) RETURNS boolean LANGUAGE plpgsql
-- A plan that was made for small tables must not read large ones whole.
SET enable_seqscan = off
AS $$
DECLARE
    said bigint;
BEGIN
    SELECT messages INTO said FROM threads WHERE id = a_thread FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM tool_health WHERE tool_name = ANY (a_healthy)) THEN
        RETURN false;
    END IF;
    UPDATE runs SET status = CASE kind WHEN 'call' THEN a_call_status ELSE a_status END, owner = a_owner,
            events = a_after + cardinality(a_numbers), last_commit = a_id, last_moved = a_moved,
            updated_at_ms = a_at_ms
        WHERE id = a_run AND epoch = a_epoch AND events = a_after;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO events (run, number, at_ms, body, checksum)
        SELECT a_run, x.number, a_at_ms, x.body, x.checksum
        FROM unnest(a_numbers, a_bodies, a_checksums) AS x(number, body, checksum);
    UPDATE threads SET revision = coalesce(a_revision, revision),
            messages = messages + cardinality(a_messages), record_bytes = record_bytes + a_record_bytes
        WHERE id = a_thread;
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
        -- A component whose file was gone has no bytes here.
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
