-- How often a run was begun or taken over. A commit of an earlier epoch is refused.
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;

-- Commands to runs, until the commit that carries them out.
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (run_id, id)
);
