-- What a run's calls did is asked for by the beginning of the run's id.
CREATE INDEX audit_by_run ON audit (run_id, id) WHERE run_id IS NOT NULL;
