-- The agents and tools of each host, so that hosts that differ can be named.
ALTER TABLE hosts
    -- the tools that it serves, each as `NAME DIGEST`
    ADD COLUMN tools text[] NOT NULL DEFAULT '{}',
    -- a digest of the configuration of its agents
    ADD COLUMN config text NOT NULL DEFAULT '',
    -- the agents that it does not serve, and why, one sentence each
    ADD COLUMN unserved text[] NOT NULL DEFAULT '{}';

-- Lists by the short id that is shown to people, by agent and by kind. None of these columns changes,
-- so commits do not write these indexes.
CREATE INDEX runs_by_short_id ON runs ((CASE length(id) WHEN 36 THEN substr(id, 29) ELSE id END) COLLATE "C");
CREATE INDEX runs_by_agent ON runs (agent, id);
CREATE INDEX runs_by_kind ON runs (kind, id);

-- The id of a record outside of any run, to recognize one whose answer was lost.
ALTER TABLE audit ADD COLUMN note text COLLATE "C";
CREATE UNIQUE INDEX audit_by_note ON audit (note) WHERE note IS NOT NULL;
