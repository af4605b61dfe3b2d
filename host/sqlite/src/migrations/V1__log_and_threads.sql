-- The log: what happened in each run. Everything else is derived from it.
CREATE TABLE threads (
    id INTEGER PRIMARY KEY,
    thread_id TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    thread INTEGER NOT NULL REFERENCES threads (id),
    agent_id TEXT NOT NULL,
    -- 'prompt' or 'call'
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    -- 'running', 'waiting', 'completed', 'blocked', 'stopped', 'cancelled', 'failed'
    status TEXT NOT NULL,
    -- the process that carries it, while it runs
    owner TEXT NOT NULL,
    -- the number of its last event
    events INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
CREATE INDEX runs_by_status ON runs (status, id);
CREATE INDEX runs_by_thread ON runs (thread, id);

CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (id),
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

-- Which event changed a thread's state; a change that came by import has its
-- own body.
CREATE TABLE changes (
    thread INTEGER NOT NULL REFERENCES threads (id),
    revision INTEGER NOT NULL,
    run INTEGER REFERENCES runs (id),
    number INTEGER,
    body TEXT,
    PRIMARY KEY (thread, revision)
) WITHOUT ROWID;

-- The persistent keys of each thread as they stand.
CREATE TABLE state (
    thread INTEGER NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (thread, key)
) WITHOUT ROWID;

-- The conversation of each thread.
CREATE TABLE messages (
    thread INTEGER NOT NULL REFERENCES threads (id),
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread, position)
) WITHOUT ROWID;
