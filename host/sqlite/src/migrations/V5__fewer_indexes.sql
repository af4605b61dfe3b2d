-- Each index is a page more to write with every call.
-- Most runs are completed soon; those that wait, run or failed are looked for.
DROP INDEX runs_by_status;
CREATE INDEX runs_by_status ON runs (status, id) WHERE status <> 'completed';

-- Which runs refer to a component is asked when a run is deleted, and what a component
-- did is looked up from the newest record backwards: seldom, both.
DROP INDEX run_components_by_component;
DROP INDEX audit_by_component;
