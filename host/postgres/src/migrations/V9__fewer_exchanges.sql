-- Functions, because the server keeps the plans of their statements: planning takes longer than running them.

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
    sent bigint;
    size bigint;
BEGIN
    FOR o_run, o_epoch, o_place IN
        SELECT c.o_run, c.o_epoch, c.o_place FROM claim_v1(a_host, a_agents, a_limit, a_from) c ORDER BY c.o_place
    LOOP
        o_thread := NULL; o_numbers := NULL; o_times := NULL; o_bodies := NULL; o_checksums := NULL;
        o_messages := NULL; o_keys := NULL; o_values := NULL; o_command_ids := NULL; o_commands := NULL;
        SELECT t.id, r.events, t.revision, t.record_bytes, t.messages,
                (SELECT count(*) FROM inbox i WHERE i.run = r.id),
                (SELECT sum(octet_length(e.body)) FROM events e WHERE e.run = r.id)
                + (SELECT coalesce(sum(octet_length(m.body)), 0) FROM messages m WHERE m.thread = t.id)
                + (SELECT CASE WHEN count(*) <= many THEN coalesce(sum(octet_length(s.value)), 0) END FROM state s
                    WHERE s.thread = t.id)
                + (SELECT coalesce(sum(octet_length(i.body)), 0) FROM inbox i WHERE i.run = r.id)
            INTO of_thread, o_last, o_revision, o_record_bytes, said, sent, size
            FROM runs r JOIN threads t ON t.id = r.thread
            -- The last row is of a run that is not claimed.
            WHERE r.id = o_run AND o_epoch > 0 AND r.events <= many AND t.messages <= many;
        IF size <= least(a_max_bytes, bytes_left) THEN
            bytes_left := bytes_left - size;
            o_thread := of_thread;
            SELECT array_agg(e.number ORDER BY e.number), array_agg(e.at_ms ORDER BY e.number),
                    array_agg(e.body ORDER BY e.number), array_agg(e.checksum ORDER BY e.number)
                INTO o_numbers, o_times, o_bodies, o_checksums FROM events e WHERE e.run = o_run;
            IF said > 0 OR o_revision > 0 THEN
                -- One statement, so that the revision is that of the values: a call may change them meanwhile.
                SELECT t.revision, t.record_bytes,
                        (SELECT array_agg(m.body ORDER BY m.position) FROM messages m WHERE m.thread = t.id),
                        (SELECT array_agg(s.key ORDER BY s.key) FROM state s WHERE s.thread = t.id),
                        (SELECT array_agg(s.value ORDER BY s.key) FROM state s WHERE s.thread = t.id)
                    INTO o_revision, o_record_bytes, o_messages, o_keys, o_values FROM threads t WHERE t.id = of_thread;
            END IF;
            IF sent > 0 THEN
                SELECT array_agg(i.id ORDER BY i.number), array_agg(i.body ORDER BY i.number)
                    INTO o_command_ids, o_commands FROM inbox i WHERE i.run = o_run;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
