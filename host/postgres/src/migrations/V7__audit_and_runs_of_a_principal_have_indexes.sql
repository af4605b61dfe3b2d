-- Locks the tables in the order in which commits of running hosts do. In the other order, a commit and this
-- migration would wait for each other. A block, so that `psql` also takes it outside of a transaction.
DO $$
BEGIN
    LOCK TABLE runs IN SHARE MODE;
    LOCK TABLE audit IN ACCESS EXCLUSIVE MODE;
END
$$;

-- The audit is listed by time, and each filter has an index in that order, so that a list reads little more than
-- it shows. The kind and the decision of most calls are not in theirs, so that calls do not write these indexes.
DROP INDEX audit_by_tool;
CREATE INDEX audit_by_time ON audit (at_ms, id);
CREATE INDEX audit_by_kind ON audit (kind, at_ms, id) WHERE kind <> 'call';
CREATE INDEX audit_by_decision ON audit (decision, at_ms, id) WHERE decision <> 'success';
CREATE INDEX audit_by_tool ON audit (tool_name, at_ms, id) WHERE tool_name IS NOT NULL;
CREATE INDEX audit_by_component ON audit (component_id, at_ms, id) WHERE component_id IS NOT NULL;
CREATE INDEX audit_by_power ON audit (power, at_ms, id) WHERE power IS NOT NULL;

-- Lists of the runs of a principal, which is what a thread's id has before the first slash. A thread's id does not
-- change, so commits do not write this index.
CREATE INDEX runs_by_principal ON runs ((CASE WHEN strpos(thread, '/') > 0 THEN split_part(thread, '/', 1) END), id);
