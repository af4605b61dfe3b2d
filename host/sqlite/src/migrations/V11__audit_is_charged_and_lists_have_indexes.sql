-- The length of a record that is charged to the thread of its run and to its component. NULL for those that
-- nobody is charged for: of the host, of people, and of earlier versions, so that no migration fills a quota.
ALTER TABLE audit ADD COLUMN bytes INTEGER;

-- The audit is listed by time, and each filter has an index in that order, so that a list reads little more than
-- it shows. The kind and the decision of most calls are not in theirs, so that calls do not write these indexes.
DROP INDEX audit_by_tool;
CREATE INDEX audit_by_time ON audit (at_ms);
CREATE INDEX audit_by_kind ON audit (kind, at_ms) WHERE kind <> 'call';
CREATE INDEX audit_by_decision ON audit (decision, at_ms) WHERE decision <> 'success';
CREATE INDEX audit_by_tool ON audit (tool_name, at_ms) WHERE tool_name IS NOT NULL;
CREATE INDEX audit_by_component ON audit (component_id, at_ms) WHERE component_id IS NOT NULL;
CREATE INDEX audit_by_power ON audit (power, at_ms) WHERE power IS NOT NULL;

-- The principal of a run, which is what its thread's id has before the first slash.
ALTER TABLE runs ADD COLUMN principal TEXT;
UPDATE runs SET principal = (SELECT substr(thread_id, 1, instr(thread_id, '/') - 1) FROM threads
    WHERE id = runs.thread AND instr(thread_id, '/') > 0);
CREATE INDEX runs_by_principal ON runs (principal, id) WHERE principal IS NOT NULL;
