-- As before, but a thread that is removed while this waits for it is added again. Afterwards, its row is locked in
-- either case: the update that never applies waits for the row's other lock, and inserts the row if it is gone then.
CREATE OR REPLACE FUNCTION begin_v1(
    a_run text, a_thread text, a_agent text, a_kind text, a_title text, a_epoch bigint, a_at_ms bigint, a_owner text
) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '5s'
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    INSERT INTO threads (id) VALUES (a_thread)
        ON CONFLICT (id) DO UPDATE SET revision = threads.revision WHERE false;
    INSERT INTO runs (id, thread, agent, kind, title, status, epoch, events, last_commit, last_moved,
            started_at_ms, updated_at_ms, owner)
        VALUES (a_run, a_thread, a_agent, a_kind, a_title, 'running', a_epoch, 0, '', 0, a_at_ms, a_at_ms, a_owner);
    RETURN true;
END
$$;

-- Whether a run refers to a component, for the removal of old ones.
CREATE INDEX run_components_by_digest ON run_components (digest);
