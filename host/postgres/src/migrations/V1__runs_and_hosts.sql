-- Ids use the collation "C": a search by prefix is a range of the index, and an upgrade of the C
-- library cannot change the order. Records are text and not jsonb, so that they stay identical to
-- the byte.

-- The oldest schema version that a host must know to use this database.
CREATE TABLE meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    min_host integer NOT NULL
);
INSERT INTO meta (min_host) VALUES (1);

-- The processes that share the database. A host renews its row; others take over its runs after
-- `lease_until`.
CREATE TABLE hosts (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    -- 'up' or 'dead'; a dead host never becomes alive again, it registers under a new id
    state text NOT NULL,
    agents text[] NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    renewals bigint NOT NULL DEFAULT 0,
    lease_ms bigint NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE threads (
    id text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    record_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE TABLE runs (
    id text COLLATE "C" PRIMARY KEY,
    thread text COLLATE "C" NOT NULL,
    agent text NOT NULL,
    -- 'prompt', 'call' or 'child'
    kind text NOT NULL,
    title text NOT NULL,
    -- 'running', 'waiting', 'completed', 'blocked', 'stopped', 'cancelled', 'failed'
    status text NOT NULL,
    -- the host that drives it; NULL if no host does
    owner text COLLATE "C",
    -- raised whenever the driver changes; a commit of an earlier epoch is refused
    epoch bigint NOT NULL,
    -- the number of its last event
    events bigint NOT NULL,
    -- the last commit and its result, to recognize a commit whose answer was lost
    last_commit text NOT NULL,
    last_moved bigint NOT NULL,
    started_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL
) WITH (fillfactor = 70);
-- At most one driven run of a prompt for each thread.
CREATE UNIQUE INDEX runs_driven ON runs (thread)
    WHERE kind = 'prompt' AND status = 'running' AND owner IS NOT NULL;
CREATE INDEX runs_by_owner ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_unowned ON runs (id) WHERE status = 'running' AND owner IS NULL;
CREATE INDEX runs_by_status ON runs (status, id) WHERE status <> 'completed';
CREATE INDEX runs_by_thread ON runs (thread, id);

CREATE TABLE events (
    run text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    body text NOT NULL,
    -- covers the event and the checksum before it; NULL for copied events of early versions
    checksum bytea,
    PRIMARY KEY (run, number)
);

-- The conversation of each thread.
CREATE TABLE messages (
    thread text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (thread, position)
);

-- The event that changed a thread's state. A change outside of any run has a body of its own.
CREATE TABLE changes (
    thread text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    run text COLLATE "C",
    number bigint,
    body text,
    -- the change's id, to recognize one whose answer was lost
    id text,
    PRIMARY KEY (thread, revision)
);

-- The current values of the persistent keys.
CREATE TABLE state (
    thread text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (thread, key)
);

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL,
    kind text NOT NULL,
    who text NOT NULL,
    decision text NOT NULL,
    file text,
    component_id text,
    digest text,
    tool_name text,
    power text,
    detail text,
    run_id text COLLATE "C",
    call_id text,
    usage text
);
CREATE INDEX audit_by_file ON audit (file, id) WHERE file IS NOT NULL;
CREATE INDEX audit_by_tool ON audit (tool_name, id);
CREATE INDEX audit_by_run ON audit (run_id, id) WHERE run_id IS NOT NULL;

CREATE TABLE tool_health (
    tool_name text PRIMARY KEY,
    component_id text NOT NULL,
    digest text NOT NULL,
    traps integer NOT NULL
);

CREATE TABLE components (
    digest text COLLATE "C" PRIMARY KEY,
    bytes bytea NOT NULL
);
ALTER TABLE components ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE run_components (
    run text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, digest)
);

-- The size of the records that a component caused, in several rows, so that concurrent commits
-- seldom wait for each other.
CREATE TABLE component_sizes (
    component_id text NOT NULL,
    shard smallint NOT NULL,
    record_bytes bigint NOT NULL,
    PRIMARY KEY (component_id, shard)
) WITH (fillfactor = 50);

-- Callers that wait for a thread: first come, first served.
CREATE TABLE turns (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL
);
CREATE INDEX turns_by_thread ON turns (thread, id);

-- Commands to runs, until the commit that carries them out.
CREATE TABLE inbox (
    run text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    body text NOT NULL,
    PRIMARY KEY (run, id)
);
